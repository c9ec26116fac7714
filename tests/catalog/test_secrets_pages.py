"""Secrets in the browser: written in the admin and on each user's own page, and shown nowhere."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from audit.models import Action
from audit.redaction import redactor
from catalog.models import PersonalSecret, Secret, Tool
from tests.catalog.test_secrets import CANARY, dump_stored, make_api_tool, make_personal, make_shared, stored

pytestmark = pytest.mark.django_db


# --- in the admin ----------------------------------------------------------------------------------------------------


@pytest.fixture
def admin(root: User) -> Client:
    client = Client()
    client.force_login(root)
    return client


def read_pages(admin: Client, secret: Secret) -> str:
    """Every page that says something of a secret."""
    paths = ["", f"{secret.pk}/change/", f"{secret.pk}/history/", f"{secret.pk}/delete/"]
    answers = [admin.get(f"/admin/catalog/secret/{path}", follow=True) for path in paths]
    answers.append(admin.get("/admin/audit/action/"))
    assert [answer.status_code for answer in answers] == [200] * len(answers)
    return "".join(answer.content.decode() for answer in answers)


def test_a_value_entered_in_the_admin_is_never_shown_again(admin: Client) -> None:
    wrong = admin.post("/admin/catalog/secret/add/", {"name": "Bad Name", "kind": "shared", "new_value": CANARY})
    assert wrong.status_code == 200 and "canary" not in wrong.content.decode()
    made = admin.post("/admin/catalog/secret/add/", {"name": "api_key", "kind": "shared", "new_value": CANARY})
    assert made.status_code == 302
    secret = Secret.objects.get()
    assert stored("api_key") == {"api_key": CANARY}
    found = read_pages(admin, secret)
    assert "canary" not in found and secret.value not in found
    assert admin.get("/admin/catalog/secret/?q=canary").context["cl"].result_count == 0
    kept = secret.value
    path = f"/admin/catalog/secret/{secret.pk}/change/"
    assert admin.post(path, {"description": "For the API.", "new_value": ""}).status_code == 302
    secret.refresh_from_db()
    assert secret.value == kept and secret.description == "For the API."
    changed = {"name": "other", "kind": "personal", "description": "", "new_value": "another value"}
    assert admin.post(path, changed).status_code == 302
    secret.refresh_from_db()
    assert (secret.name, secret.kind) == ("api_key", "shared")
    assert stored("api_key") == {"api_key": "another value"}
    held = dump_stored()
    assert "canary" not in held and "another value" not in held and kept not in held and secret.value not in held
    action = Action.objects.filter(kind="secret", verb="changed").latest("id")
    assert json.loads(action.after)["value"] == redactor.CHANGED


def test_a_value_that_could_not_be_hidden_or_does_not_belong_there_is_refused(admin: Client, settings: Any) -> None:
    for kind, value, says in (
        ("shared", "abc", "at least 4 characters"),
        ("shared", "with\x00nul", "ull characters"),
        ("shared", "bell\x07bell", "control characters"),
        ("personal", CANARY, "Each user enters their own."),
    ):
        sent = {"name": "api_key", "kind": kind, "new_value": value}
        answer = admin.post("/admin/catalog/secret/add/", sent)
        assert answer.status_code == 200 and says in answer.content.decode(), says
    settings.ENCRYPTION_KEYS = []
    answer = admin.post("/admin/catalog/secret/add/", {"name": "api_key", "kind": "shared", "new_value": CANARY})
    assert "cannot be encrypted" in answer.content.decode()
    assert not Secret.objects.exists()


def test_a_secret_in_use_cannot_be_deleted_and_names_its_tools(admin: Client, alice: Any) -> None:
    used, unused = make_shared("used_key"), make_shared("unused_key")
    make_api_tool(alice, "https://api.example.com", secret="used_key")
    shown = admin.get("/admin/catalog/secret/").content.decode()
    assert shown.count("tool ask_api") == 1
    address = f"/admin/catalog/secret/{used.pk}/change/"
    assert "tool ask_api" in admin.get(address).content.decode()
    assert "工具 ask_api" in admin.get(address, headers={"accept-language": "zh-hans"}).content.decode()
    page = admin.post(f"/admin/catalog/secret/{used.pk}/delete/", {"post": "yes"})
    assert "tool ask_api uses the secret used_key" in page.content.decode()
    both = {"action": "delete_selected", "_selected_action": [used.pk, unused.pk], "post": "yes"}
    admin.post("/admin/catalog/secret/", both)
    assert Secret.objects.count() == 2
    assert admin.post(f"/admin/catalog/secret/{unused.pk}/delete/", {"post": "yes"}).status_code == 302
    assert [secret.name for secret in Secret.objects.all()] == ["used_key"]


def test_users_who_may_only_view_cannot_enter_a_value(charlie: User) -> None:
    charlie.is_staff = True
    charlie.save()
    charlie.user_permissions.add(Permission.objects.get(codename="view_secret"))
    secret = make_shared()
    client = Client()
    client.force_login(charlie)
    path = f"/admin/catalog/secret/{secret.pk}/change/"
    page = client.get(path).content.decode()
    assert "new_value" not in page and secret.value not in page
    assert client.post(path, {"new_value": "x" * 10}).status_code == 403


# --- each user's own page --------------------------------------------------------------------------------------------


def test_the_page_rejects_strangers_forged_forms_and_secrets_that_no_tool_uses(alice: Any, bob: Any) -> None:
    secret = make_personal(bob="the secret of bob")
    make_personal("for_nobody")
    make_shared("api_key")
    make_api_tool(bob, "https://api.example.com")
    for path in ("/secrets/", "/secrets/my_token/", "/secrets/my_token/remove/"):
        assert Client().post(path)["Location"].startswith("/sign-in/?next=")
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(bob)
    for path in ("/secrets/my_token/", "/secrets/my_token/remove/"):
        assert strict.post(path, {"value": "forged value"}).status_code == 403
    hers, his = Client(), Client()
    hers.force_login(alice)
    his.force_login(bob)
    for path in ("/secrets/my_token/", "/secrets/my_token/remove/"):
        assert his.get(path, {"value": "x" * 9}).status_code == 405
        assert hers.post(path, {"value": "x" * 9}).status_code == 404
    for name in ("for_nobody", "api_key", "not_there", "my-token"):
        assert his.post(f"/secrets/{name}/", {"value": "x" * 9}).status_code == 404
    for value in ("", "abc", "x" * 9000, "nul\x00byte"):
        his.post("/secrets/my_token/", {"value": value})
    assert stored("my_token", user=bob) == {"my_token": "the secret of bob"}
    assert PersonalSecret.objects.filter(secret=secret).count() == 1
    assert "my_token" not in hers.get("/secrets/").content.decode()


def test_a_user_enters_replaces_and_removes_their_own(alice: Any, bob: Any) -> None:
    make_personal(bob="the secret of bob")
    make_api_tool([alice, bob], "https://api.example.com")
    client = Client()
    client.force_login(alice)
    empty = client.get("/secrets/").content.decode()
    assert "missing" in empty and "Ask the API" in empty and "https://example.com/tokens" in empty
    assert 'aria-current="page">Accounts' in empty
    for value in ("the first of alice", f"{CANARY}2"):
        page = client.post("/secrets/my_token/", {"value": f" {value} "}, follow=True).content.decode()
        assert "was saved" in page and "Replace" in page and value not in page
        assert stored("my_token", user=alice) == {"my_token": value}
    page = client.get("/secrets/").content.decode()
    assert not any(row.value in page for row in PersonalSecret.objects.all())
    Tool.objects.update(enabled=False)
    assert "None of your tools uses it now." in client.get("/secrets/").content.decode()
    assert client.post("/secrets/my_token/", {"value": "x" * 9}).status_code == 404
    assert "was removed" in client.post("/secrets/my_token/remove/", follow=True).content.decode()
    assert client.post("/secrets/my_token/remove/").status_code == 404
    assert [str(row) for row in PersonalSecret.objects.all()] == ["my_token of bob"]
    held = dump_stored()
    assert "canary" not in held and "first of alice" not in held
    assert [row.verb for row in Action.objects.filter(target__contains="my_token of alice").order_by("id")] == [
        "created",
        "changed",
        "deleted",
    ]
