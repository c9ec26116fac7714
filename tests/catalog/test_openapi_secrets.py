"""Secrets that are created on the preview of an OpenAPI document: for whom, bound to what, and never shown again."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from django.views.debug import ExceptionReporter

from audit.models import Action
from catalog.models import ImportedDocument, Secret, Tool
from catalog.openapi import document_import
from tests.catalog.test_secrets import CANARY, dump_stored, stored

pytestmark = pytest.mark.django_db
SERVER = "https://shop.example"
KEYS = ["GET /pets", "GET /orders", "GET /users"]


def document() -> bytes:
    """Three operations with an API key, one of them with a choice, and one that a secret cannot serve."""
    schemes = {
        "api_key": {"type": "apiKey", "in": "header", "name": "X-Key"},
        "Basic": {"type": "http", "scheme": "basic"},
        "tls": {"type": "mutualTLS"},
    }
    paths = {
        "/pets": {"get": {"security": [{"api_key": []}]}},
        "/orders": {"get": {"security": [{"api_key": []}]}},
        "/users": {"get": {"security": [{"api_key": []}, {"Basic": []}]}},
        "/vault": {"get": {"security": [{"tls": []}]}},
        "/open": {"get": {}},
    }
    content = {"openapi": "3.1.0", "info": {"title": "Pet Shop"}, "servers": [{"url": SERVER}], "paths": paths}
    return json.dumps(content | {"components": {"securitySchemes": schemes}}).encode()


def staff(name: str, *permissions: str) -> Client:
    user = User.objects.create_user(name, is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def preview(browser: Client) -> str:
    """The address of the preview of an uploaded document."""
    browser.post(reverse("admin:catalog_importeddocument_add"), {"file": SimpleUploadedFile("shop.json", document())})
    return reverse("admin:catalog_importeddocument_preview", args=[ImportedDocument.objects.get().pk])


def form(**changes: Any) -> dict[str, Any]:
    """What the page sends, with a new secret for the first security scheme."""
    new = {"new_0-name": "shop_key", "new_0-kind": "shared", "new_0-value": CANARY, "new_0-bound": "on"}
    sent = {"server": SERVER, "outputs": "on", "secret_0": "+", "do": "look", "operation": KEYS[:1], **new, **changes}
    return {name: value for name, value in sent.items() if value is not None}


@pytest.mark.parametrize(
    "changes",
    [{}, {"secret_0": ""}, {"new_0-value": None, "new_0-name": None, "new_0-kind": None, "new_0-bound": None}],
)
def test_a_forged_form_of_somebody_who_may_not_add_secrets_is_refused(preview: str, changes: dict[str, Any]) -> None:
    importer = staff("ida", "add_tool", "change_tool", "view_secret", "change_secret", "use_secret")
    page = importer.get(preview).content.decode()
    assert "new_0-" not in page and 'value="+"' not in page and "New secret" not in page
    for do in ("look", "all", "import"):
        assert importer.post(preview, form(do=do, **changes)).status_code == 403
    assert not Secret.objects.exists() and not Tool.objects.exists()
    plain = importer.post(preview, {"server": SERVER, "outputs": "on", "do": "look"}).content.decode()
    assert "2 operations send no credentials: choose a secret for api_key, or ask your administrator" in plain


def test_a_new_secret_is_created_with_the_preview_and_bound_to_the_chosen_server(
    browser: Client, preview: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    page = browser.get(preview).content.decode()
    assert 'name="new_0-name" value="pet_shop_api_key"' in page
    answer = browser.post(preview, form(server="https://other.example:8443/api/v1"))
    page = answer.content.decode()
    assert "The secret shop_key was created. It is sent only to other.example:8443." in page
    assert '<option value="shop_key" selected>' in page
    assert "shop_key is sent to https://other.example:8443." in page
    secret = Secret.objects.get()
    assert (secret.kind, secret.hosts) == ("shared", ["other.example:8443"])
    assert stored("shop_key") == {"shop_key": CANARY}
    row = ImportedDocument.objects.get()
    held = [page, caplog.text, str(ImportedDocument.objects.values()), dump_stored()]
    assert not any("canary" in text or secret.value in text for text in held)
    logged = Action.objects.get(kind="secret")
    assert (logged.verb, logged.actor) == ("created", "root") and "canary" not in logged.after
    moved = browser.post(preview, form(secret_0="shop_key", server="https://evil.example", do="import"))
    assert "is bound to hosts, and https://evil.example is not among them" in moved.content.decode()
    assert not Tool.objects.exists()
    done = form(secret_0="shop_key", server="https://other.example:8443/api/v1", do="import")
    assert browser.post(preview, done).status_code == 302
    assert Tool.objects.get().settings["static_headers"] == {"X-Key": {"secret": "shop_key"}}
    row.refresh_from_db()
    assert row.choices["secrets"] == {"api_key": "shop_key"}
    assert Secret.objects.count() == 1


def test_a_secret_created_with_the_import_is_used_by_its_tools_at_once(browser: Client, preview: str) -> None:
    assert browser.post(preview, form(do="import")).status_code == 302
    assert Tool.objects.get().settings["static_headers"] == {"X-Key": {"secret": "shop_key"}}
    assert Secret.objects.get().hosts == ["shop.example"]


def test_a_personal_or_unbound_secret_is_created_as_the_form_says(browser: Client, preview: str) -> None:
    personal = {"new_0-kind": "personal", "new_0-value": "", "new_0-bound": None}
    page = browser.post(preview, form(**personal)).content.decode()
    assert "The secret shop_key was created. It is not bound to a host." in page
    secret = Secret.objects.get()
    assert (secret.kind, secret.hosts, secret.value) == ("personal", [], "")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"server": "http://user@shop.example"}, "The secret was not created. Enter its value again"),
        ({"new_0-name": "Bad Name"}, "lower-case letters"),
        ({"new_0-name": "taken"}, "already exists"),
        ({"new_0-value": "abc"}, "at least 4 characters"),
        ({"new_0-value": ""}, "Enter the value of the secret."),
        ({"new_0-kind": "personal"}, "Each user enters their own."),
        ({"new_0-kind": "account"}, "Select a valid choice"),
        (
            {"secret_1": "+", "new_1-name": "shop_key", "new_1-kind": "shared", "new_1-value": "other value"},
            "Two new secrets have this name",
        ),
    ],
)
def test_a_form_with_an_error_creates_nothing_and_does_not_send_the_value_back(
    browser: Client, preview: str, changes: dict[str, Any], says: str
) -> None:
    Secret.objects.create(name="taken")
    for do in ("look", "import"):
        page = browser.post(preview, form(do=do, **changes)).content.decode()
        assert says in page and "canary" not in page
    assert list(Secret.objects.values_list("name", flat=True)) == ["taken"] and not Tool.objects.exists()


def test_a_value_is_not_in_an_error_report(browser: Client, preview: str, monkeypatch: Any) -> None:
    def fail(*args: Any, **options: Any) -> None:
        raise RuntimeError("the disk is full")

    browser.raise_request_exception = False
    for broken in (document_import, "rows"), (Secret, "save"):
        with monkeypatch.context() as patched:
            patched.setattr(*broken, fail)
            answer: Any = browser.post(preview, form())
        assert answer.status_code == 500
        reporter = ExceptionReporter(answer.wsgi_request, *answer.exc_info)
        report = reporter.get_traceback_text() + reporter.get_traceback_html()
        assert "the disk is full" in report
        assert CANARY not in report
        Secret.objects.all().delete()


def test_operations_without_credentials_are_counted_before_the_import(browser: Client, preview: str) -> None:
    page = browser.get(preview).content.decode()
    assert "2 operations send no credentials: choose or create a secret for api_key." in page
    assert "1 operation sends no credentials: choose or create a secret for api_key / Basic." in page
    assert "1 operation sends no credentials: a secret cannot serve its security scheme." in page
    assert "needs tls, which a secret cannot serve" in page
    assert browser.post(preview, form(secret_0="", do="import", operation=["GET /pets"])).status_code == 302
    assert "static_headers" not in Tool.objects.get().settings
    row = ImportedDocument.objects.get()
    assert row.choices["secrets"] == {}


def test_suggested_names_are_free_and_made_of_the_document_and_the_scheme(browser: Client, preview: str) -> None:
    Secret.objects.create(name="pet_shop_api_key")
    page = browser.get(preview).content.decode()
    assert 'value="pet_shop_api_key_2"' in page and 'value="pet_shop_basic"' in page
    ImportedDocument.objects.update(name="宠物商店")
    assert 'value="api_key"' in browser.get(preview).content.decode()
