"""An auditor reads what the audit log names, and changes nothing: every address of the census is tried."""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, Permission, User
from django.test import Client

from audit.auditors import READABLE
from catalog.models import PersonalSecret, Secret
from tests import census, factories
from toolhub.access.models import AccessToken

pytestmark = pytest.mark.django_db

OWN = {
    "admin/audit/call/views/new/",
    "admin/audit/verification/now/",
    "admin/checklist/hide/",
    "admin/checklist/show/",
    "admin/logout/",
    "admin/password_change/",
}
"""Addresses at which an auditor changes something of their own, or starts the verification."""
UNREAD = {"audit", "sessions", "admin", "contenttypes"}
"""Applications whose rows change by reading: every view is logged."""


@pytest.fixture
def address_values(alice: User) -> dict[str, Any]:
    found = census.create_address_values(alice)
    factories.load()
    return found


@pytest.fixture
def auditor(db: None) -> User:
    user = User.objects.create_user("audrey", is_staff=True)
    user.groups.add(Group.objects.get(name="auditor"))
    return User.objects.get(pk=user.pk)


@pytest.fixture
def client(auditor: User) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(auditor)
    return client


def holds(user: User, rule: census.Rule) -> bool:
    return all(any(map(user.has_perm, wanted.split("|"))) for wanted in rule.who.permissions)


def read_tables() -> dict[str, list[Any]]:
    return {
        model._meta.label: list(model._base_manager.order_by("pk").values())
        for model in apps.get_models()
        if model._meta.app_label not in UNREAD
    }


def test_no_address_changes_anything_for_an_auditor(
    client: Client, auditor: User, address_values: dict[str, Any]
) -> None:
    before = read_tables()
    action = {"action": "delete_selected", "_selected_action": ["1"], "select_across": "1", "index": "0"}
    answered = set()
    for rule in census.every_rule():
        if not rule.who.is_staff or rule.route in OWN:
            continue
        answer: Any = client.post(rule.path(address_values), action | {"post": "yes", "_save": "1", "name": "changed"})
        if answer.status_code not in {403, 404, 405}:
            answered.add(rule.route)
    assert read_tables() == before
    # Lists and read-only pages show themselves again, and the remedy says that it is not for this person.
    pages = {route for route in answered if census.generated(route) and route.endswith(("/add/", "/delete/"))}
    assert not pages
    others = {"admin/", "admin/search/", "admin/access/remedy/", "admin/^(?P<app_label>...)/$"}
    assert {route for route in answered if not census.generated(route)} <= others


def test_an_auditor_reads_every_page_of_the_rows_that_the_audit_log_names(
    client: Client, auditor: User, address_values: dict[str, Any]
) -> None:
    opened, wrong = set(), []
    for rule in census.every_rule():
        offered = census.verb_of(rule.route)
        if not rule.who.is_staff or "GET" not in rule.methods.split() or (offered and offered[1] in {"add", "delete"}):
            continue
        if (
            rule.who is census.SUPERUSER
            or rule.empty
            or rule.route.startswith("admin/password_change/")
            or not holds(auditor, rule)
        ):
            continue
        answer: Any = client.get(rule.path(address_values))
        if answer.status_code not in {200, 301, 302}:
            wrong.append(f"{rule.path(address_values)}: {answer.status_code}")
        opened.add(rule.route)
    assert not wrong, "\n".join(wrong)
    for page in ("catalog/tool", "catalog/toolset", "catalog/grant", "catalog/limit", "catalog/upstream", "auth/user"):
        assert f"admin/{page}/" in opened
    for page in ("sessions", "health", "view-as", "access/matrix", "jobs"):
        assert f"admin/{page}/" in opened


def test_an_auditor_reads_no_secret_and_no_token(
    client: Client, auditor: User, alice: User, address_values: dict[str, Any]
) -> None:
    shared, personal = Secret.objects.create(name="shared_one", kind="shared"), Secret.objects.filter(kind="personal")
    shared.enter("shared-value-7391")
    shared.save()
    own = PersonalSecret(secret=personal.first(), user=alice)
    PersonalSecret.objects.filter(user=alice).delete()
    own.enter("personal-value-7391")
    own.save()
    forbidden = (
        "/admin/catalog/secret/",
        "/admin/catalog/storedresult/",
        "/admin/catalog/task/",
        "/admin/oauth/client/",
    )
    for address in (*forbidden, "/admin/identity/provider/", "/admin/scim/scimtoken/", "/admin/backups/"):
        assert client.get(address).status_code == 403, address
    for rule in census.every_rule():
        if rule.who.is_staff and "GET" in rule.methods.split() and not rule.empty and holds(auditor, rule):
            answer: Any = client.get(rule.path(address_values))
            text = b"".join(answer.streaming_content) if answer.streaming else answer.content
            assert b"value-7391" not in text, rule.route


def test_the_group_has_what_is_declared_and_only_permissions_to_view(auditor: User) -> None:
    wanted = {f"{label}.{name}" for label, names in READABLE.items() for name in names}
    assert auditor.get_all_permissions() == wanted and all(".view_" in name for name in wanted)
    assert Permission.objects.filter(codename="view_connections").exists()


def test_no_filter_of_a_list_reads_a_digest(client: Client, alice: User) -> None:
    AccessToken.objects.issue(alice, "laptop")
    auditor = User.objects.create_user("audrey-2", is_staff=True)
    auditor.groups.add(Group.objects.get(name="auditor"))
    client.force_login(auditor)
    for path, name in (
        ("/admin/access/accesstoken/", "digest__startswith"),
        ("/admin/oauth/connectedapp/", "code_digest__startswith"),
        ("/admin/oauth/connectedapp/", "previous_digest__startswith"),
    ):
        answers = {client.get(path, {name: value}).status_code for value in ("", "a", "zzz")}
        assert answers <= {400, 403}, (path, name, answers)
    assert client.get("/admin/access/accesstoken/").status_code == 200
