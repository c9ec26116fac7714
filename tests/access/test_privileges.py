"""Staff who manage accounts cannot become somebody else, or give more than they hold."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import Group, Permission, User
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from audit.actions.actor import ActorMiddleware
from catalog.models import ApprovalRule, PersonalSecret, Secret
from tests import factories
from tests.catalog.approval_rules import make_rule
from toolhub.access.models import AccessToken

if TYPE_CHECKING:
    from django.test import Client

Browser = Callable[..., "Client"]
PASSWORD = "correct horse battery"
NEW = {"password1": "another long phrase 7", "password2": "another long phrase 7", "usable_password": "true"}
TOKENS = "/admin/access/accesstoken/"
MANAGES = ("view_user", "add_user", "change_user", "delete_user", "view_group", "add_group", "change_group")
GRANTS = ("add_grant", "change_grant", "delete_grant")
RULES = ("add_approvalrule", "change_approvalrule", "delete_approvalrule")


def allow(who: User | Group, *codenames: str) -> None:
    found = Permission.objects.filter(codename__in=codenames)
    assert found.count() == len(codenames)
    (who.permissions if isinstance(who, Group) else who.user_permissions).add(*found)


@pytest.fixture
def manager(db: None) -> User:
    """Staff who manage accounts and groups, and are granted nothing."""
    user = User.objects.create_user("manager", password=PASSWORD, is_staff=True)
    allow(user, *MANAGES, "delete_group")
    return user


def account_page(user: User) -> str:
    return f"/admin/auth/user/{user.pk}/change/"


def fill(user: User, **changes: Any) -> dict[str, Any]:
    """What the form of an account sends when these fields were changed."""
    user.refresh_from_db()
    day, hour = user.date_joined.strftime("%Y-%m-%d %H:%M:%S").split()
    sent: dict[str, Any] = {
        "username": user.username,
        "email": user.email,
        "first_name": user.first_name,
        "last_name": user.last_name,
        "date_joined_0": day,
        "date_joined_1": hour,
        "groups": [group.pk for group in user.groups.all()],
        "user_permissions": [permission.pk for permission in user.user_permissions.all()],
    }
    sent |= {name: "on" for name in ("is_active", "is_staff", "is_superuser") if getattr(user, name)}
    for prefix in ("catalog_grants", "catalog_limits", "limits", "grants", "identities"):
        sent |= {f"{prefix}-TOTAL_FORMS": "0", f"{prefix}-INITIAL_FORMS": "0"}
    return {name: value for name, value in {**sent, **changes}.items() if value is not None}


def save_account(client: Client, user: User, **changes: Any) -> tuple[int, str]:
    answer = client.post(account_page(user), fill(user, **changes))
    user.refresh_from_db()
    return answer.status_code, answer.content.decode()


def above() -> dict[str, User]:
    """Accounts above the manager's, each for another reason."""
    users = {name: User.objects.create_user(name, password=PASSWORD) for name in ("direct", "grouped", "sleeping")}
    allow(users["direct"], "view_call")
    group = factories.make_group("readers", [users["grouped"]])
    allow(group, "view_call")
    allow(users["sleeping"], "view_call")
    User.objects.filter(username="sleeping").update(is_active=False)
    users["superuser"] = User.objects.create_user("boss", password=PASSWORD, is_staff=True, is_superuser=True)
    return users


@pytest.mark.parametrize("why", ["direct", "grouped", "sleeping", "superuser"])
def test_an_account_above_ones_own_is_read_only(manager: User, browser: Browser, why: str) -> None:
    user, client = above()[why], browser(manager)
    page = client.get(account_page(user))
    assert page.status_code == 200 and 'name="email"' not in page.content.decode()
    assert "holds permissions that you do not have" in page.content.decode()
    for changes in ({"email": "mine@example.com"}, {"is_active": None}, {"username": "x"}, {"first_name": "x"}):
        assert save_account(client, user, **changes)[0] == 403
    password = f"/admin/auth/user/{user.pk}/password/"
    assert client.get(password).status_code == 403
    assert client.post(password, NEW).status_code == 403
    assert client.post(f"/admin/auth/user/{user.pk}/delete/", {"post": "yes"}).status_code == 403
    user.refresh_from_db()
    assert user.check_password(PASSWORD) and user.email == "" and user.username in ("boss", why)
    assert user.is_active == (why != "sleeping")


def test_a_superuser_is_not_deleted_in_bulk_behind_an_ordinary_account(
    manager: User, charlie: User, root: User, browser: Browser
) -> None:
    ordered = [charlie.pk, root.pk]
    sent = {"action": "delete_selected", "_selected_action": ordered, "post": "yes", "index": "0"}
    page = browser(manager).post("/admin/auth/user/", sent)
    assert User.objects.filter(pk__in=ordered).count() == 2
    assert "requires deleting" in page.content.decode() or page.status_code in (302, 403)


def test_an_ordinary_account_is_managed_as_before(manager: User, charlie: User, browser: Browser) -> None:
    client = browser(manager)
    assert save_account(client, charlie, email="charlie@example.com", is_active=None)[0] == 302
    assert (charlie.email, charlie.is_active) == ("charlie@example.com", False)
    assert client.post(f"/admin/auth/user/{charlie.pk}/password/", NEW).status_code == 302
    charlie.refresh_from_db()
    assert charlie.check_password(NEW["password1"])
    assert client.post(f"/admin/auth/user/{charlie.pk}/delete/", {"post": "yes"}).status_code == 302
    assert not User.objects.filter(pk=charlie.pk).exists()


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("flag", ["is_staff", "is_superuser"])
def test_only_a_superuser_gives_the_status_of_staff_or_superuser(
    manager: User, charlie: User, root: User, browser: Browser, flag: str, own: bool
) -> None:
    user = manager if own else charlie
    before = user.is_staff
    save_account(browser(manager), user, **{flag: "on"})
    assert (user.is_staff, user.is_superuser) == (before, False)
    save_account(browser(root), user, **{flag: "on"})
    assert getattr(user, flag)


@pytest.mark.parametrize("own", [False, True])
def test_a_permission_that_one_lacks_is_not_given(manager: User, charlie: User, browser: Browser, own: bool) -> None:
    user, lacking = manager if own else charlie, Permission.objects.get(codename="view_call")
    held = [one.pk for one in user.user_permissions.all()]
    status, page = save_account(browser(manager), user, user_permissions=[*held, lacking.pk])
    assert status == 200 and "audit.view_call" in page and "ask a superuser" in page
    assert lacking not in user.user_permissions.all()


def test_a_permission_that_one_holds_is_given(manager: User, charlie: User, browser: Browser) -> None:
    held = Permission.objects.get(codename="view_user")
    assert save_account(browser(manager), charlie, user_permissions=[held.pk])[0] == 302
    assert list(charlie.user_permissions.all()) == [held]


@pytest.mark.parametrize("own", [False, True])
def test_nobody_is_added_to_a_group_that_holds_more(manager: User, charlie: User, browser: Browser, own: bool) -> None:
    group, user = factories.make_group("readers"), manager if own else charlie
    allow(group, "view_call")
    status, page = save_account(browser(manager), user, groups=[group.pk])
    assert status == 200 and "readers" in page and "access that you do not have" in page
    assert not user.groups.exists()


def test_groups_with_grants_are_for_those_who_may_change_grants(manager: User, charlie: User, browser: Browser) -> None:
    analysts, contractors = factories.make_group("analysts"), factories.make_group("contractors", [manager])
    factories.grant(analysts, factories.make_tool("report"))
    factories.deny(contractors, factories.make_tool("payroll"))
    with_values = factories.make_group("engineers")
    factories.make_value_list("repositories", {with_values: ["core"]})
    client = browser(manager)
    for group in (analysts, with_values):
        assert save_account(client, charlie, groups=[group.pk])[0] == 200, group
    assert save_account(client, manager, groups=[])[0] == 200, "leaving a group that denies is access, too"
    allow(manager, *GRANTS)
    client = browser(User.objects.get(pk=manager.pk))
    assert save_account(client, charlie, groups=[analysts.pk])[0] == 302
    assert list(charlie.groups.all()) == [analysts]


@pytest.mark.parametrize("kind", ["grant", "limit", "approval rule"])
def test_groups_with_rules_in_trial_are_for_those_who_may_put_them_in_force(
    manager: User, charlie: User, browser: Browser, kind: str
) -> None:
    group = factories.make_group("analysts")
    if kind == "grant":
        factories.grant(group, factories.make_tool("report"), trial=True)
    elif kind == "limit":
        factories.limit("1/d", group=group, trial=True)
    else:
        ApprovalRule.objects.create(name="Ask first", all_tools=True, group=group, trial=True)
        allow(manager, *GRANTS)
    assert save_account(browser(manager), charlie, groups=[group.pk])[0] == 200
    assert not charlie.groups.exists()


def test_groups_that_approve_are_for_those_who_may_change_approval_rules(
    manager: User, charlie: User, bob: User, browser: Browser
) -> None:
    approvers = factories.make_group("approvers", [bob])
    rule = ApprovalRule.objects.create(name="Ask first", all_tools=True, group=approvers, enabled=False)
    allow(manager, *GRANTS)
    for user in (charlie, manager):
        assert save_account(browser(manager), user, groups=[approvers.pk])[0] == 200, "also while the rule is off"
    assert browser(manager).post(f"/admin/auth/user/{bob.pk}/password/", NEW).status_code == 403
    rule.delete()
    manager = User.objects.get(pk=manager.pk)
    assert browser(manager).post(f"/admin/auth/user/{bob.pk}/password/", NEW).status_code == 302
    ApprovalRule.objects.create(name="Ask first", all_tools=True, group=approvers)
    allow(manager, *RULES)
    manager = User.objects.get(pk=manager.pk)
    assert save_account(browser(manager), charlie, groups=[approvers.pk])[0] == 302
    assert list(charlie.groups.all()) == [approvers]


def test_a_group_gets_only_permissions_that_the_editor_holds(manager: User, browser: Browser) -> None:
    group, client = factories.make_group("helpers", [manager]), browser(manager)
    lacking, held = (Permission.objects.get(codename=name) for name in ("use_command_runner", "view_user"))
    sent = {
        "name": "helpers",
        **{
            f"{name}-{count}": "0"
            for name in ("catalog_grants", "limits", "catalog_limits")
            for count in ("TOTAL_FORMS", "INITIAL_FORMS")
        },
    }
    answer = client.post(f"/admin/auth/group/{group.pk}/change/", {**sent, "permissions": [lacking.pk, held.pk]})
    assert answer.status_code == 200 and "catalog.use_command_runner" in answer.content.decode()
    assert (
        client.post("/admin/auth/group/add/", {**sent, "name": "own", "permissions": [lacking.pk]}).status_code == 200
    )
    assert not Group.objects.filter(name="own").exists() and not group.permissions.exists()
    answer = client.post(f"/admin/auth/group/{group.pk}/change/", {**sent, "permissions": [held.pk]})
    assert answer.status_code == 302 and list(group.permissions.all()) == [held]


def test_a_group_that_holds_more_is_read_only(manager: User, browser: Browser) -> None:
    group, client = factories.make_group("readers"), browser(manager)
    allow(group, "view_call")
    assert client.get(f"/admin/auth/group/{group.pk}/change/").status_code == 200
    assert client.post(f"/admin/auth/group/{group.pk}/change/", {"name": "x"}).status_code == 403
    assert client.post(f"/admin/auth/group/{group.pk}/delete/", {"post": "yes"}).status_code == 403
    other = factories.make_group("another")
    sent = {"action": "delete_selected", "_selected_action": [other.pk, group.pk], "post": "yes", "index": "0"}
    client.post("/admin/auth/group/", sent)
    assert Group.objects.filter(pk__in=[group.pk, other.pk]).count() == 2


@pytest.mark.parametrize(
    "access",
    ["tool", "group", "personal secret", "value", "value of a group", "approver", "tool in trial", "approver in trial"],
)
def test_the_sign_in_of_someone_with_other_tools_or_secrets_is_for_superusers(
    manager: User, alice: User, browser: Browser, access: str
) -> None:
    if access == "tool":
        factories.grant(alice, factories.make_tool("hers"))
    elif access == "group":
        factories.grant(factories.make_group("analysts", [alice]), factories.make_tool("theirs"))
    elif access == "value":
        factories.make_value_list("repositories", {alice: ["core", "site"], manager: ["core"]})
    elif access == "value of a group":
        factories.make_value_list("repositories", {factories.make_group("analysts", [alice]): ["core"]})
    elif access == "tool in trial":
        factories.grant(alice, factories.make_tool("hers"), trial=True)
    elif access.startswith("approver"):
        group = factories.make_group("approvers", [alice])
        ApprovalRule.objects.create(name="Ask", all_tools=True, group=group, trial=access == "approver in trial")
    else:
        secret = Secret.objects.create(name="her_token", kind=Secret.Kind.PERSONAL)
        PersonalSecret.objects.create(secret=secret, user=alice, value="x")
    client = browser(manager)
    page = client.get(account_page(alice)).content.decode()
    assert 'name="email"' not in page and 'name="first_name"' in page and f"{alice.pk}/password/" not in page
    assert "Ask a superuser to change how this user signs in" in page
    status, _page = save_account(client, alice, email="mine@example.com", username="x", first_name="Alice")
    assert (status, alice.email, alice.username, alice.first_name) == (302, "", "alice", "Alice")
    assert client.post(f"/admin/auth/user/{alice.pk}/password/", NEW).status_code == 403
    alice.refresh_from_db()
    assert alice.check_password(PASSWORD)


def test_who_has_the_same_tools_or_may_grant_them_resets_passwords(
    manager: User, alice: User, bob: User, browser: Browser
) -> None:
    tool, other = factories.make_tool("shared"), factories.make_tool("his")
    factories.grant(alice, tool)
    factories.grant(manager, tool)
    factories.grant(bob, other)
    factories.make_value_list("repositories", {alice: ["core"], manager: ["core", "site"], None: ["wiki"]})
    make_rule(factories.make_group("approvers", [alice, manager]))
    assert browser(manager).post(f"/admin/auth/user/{alice.pk}/password/", NEW).status_code == 302
    assert browser(manager).post(f"/admin/auth/user/{bob.pk}/password/", NEW).status_code == 403
    factories.deny(manager, tool)
    assert browser(manager).post(f"/admin/auth/user/{alice.pk}/password/", NEW).status_code == 403
    allow(manager, *GRANTS)
    manager = User.objects.get(pk=manager.pk)
    assert browser(manager).post(f"/admin/auth/user/{bob.pk}/password/", NEW).status_code == 302


# --- tokens ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def issuer(db: None) -> User:
    """Staff who may create and change tokens."""
    user = User.objects.create_user("issuer", password=PASSWORD, is_staff=True)
    allow(user, "view_accesstoken", "add_accesstoken", "change_accesstoken", "view_user")
    return user


def test_a_token_for_somebody_else_needs_the_permission_to_act_as_others(
    issuer: User, alice: User, browser: Browser
) -> None:
    sent = {"user": alice.pk, "name": "robot", "days": "10"}
    form = browser(issuer).get(f"{TOKENS}add/").context["adminform"].form
    assert form.initial["user"] == issuer.pk
    page = browser(issuer).post(f"{TOKENS}add/", sent).content.decode()
    assert "as another user" in page and "thp_" not in page
    assert not AccessToken.objects.exists()
    assert "thp_" in browser(issuer).post(f"{TOKENS}add/", {**sent, "user": issuer.pk}).content.decode()
    allow(issuer, "try_tool_as_other")
    assert "thp_" in browser(User.objects.get(pk=issuer.pk)).post(f"{TOKENS}add/", sent).content.decode()
    assert AccessToken.objects.filter(user=alice).count() == 1


def test_a_token_of_somebody_else_is_not_widened_but_narrowed_and_revoked(
    issuer: User, alice: User, browser: Browser
) -> None:
    numbers, texts = factories.make_toolset("Numbers"), factories.make_toolset("Texts")
    token, _ = AccessToken.objects.issue(alice, "robot", days=10, toolsets=[numbers])
    path, client, expires = f"{TOKENS}{token.pk}/change/", browser(issuer), token.expires

    def save(days: int = 0, toolsets: tuple[Any, ...] = (numbers,), **changes: Any) -> int:
        day, hour = (expires + timedelta(days=days)).strftime("%Y-%m-%d %H:%M:%S").split()
        sent: dict[str, Any] = {"name": "robot", "expires_0": day, "expires_1": hour, "restricted": "on"}
        sent["toolsets"] = [toolset.pk for toolset in toolsets]
        answer = client.post(path, {name: value for name, value in {**sent, **changes}.items() if value is not None})
        token.refresh_from_db()
        return answer.status_code

    assert save(days=1) == 200 and token.expires == expires
    assert save(restricted=None, toolsets=()) == 200 and token.restricted
    assert save(toolsets=(numbers, texts)) == 200 and list(token.toolsets.all()) == [numbers]
    assert save(days=-1) == 302 and token.expires < expires
    assert save(days=-1, toolsets=()) == 302 and not token.toolsets.exists()
    client.post(TOKENS, {"action": "revoke_chosen", "_selected_action": [token.pk]})
    token.refresh_from_db()
    assert token.revoked is not None


# --- whatever a page forgets ----------------------------------------------------------------------------------------


def during_request(user: User, change: Callable[[], object]) -> None:
    """Make a change in a view that asks nothing."""

    def view(request: HttpRequest) -> HttpResponse:
        change()
        return HttpResponse()

    request = RequestFactory().post("/")
    request.user = user
    ActorMiddleware(view)(request)


def test_a_page_that_forgets_to_ask_is_stopped(manager: User, charlie: User, root: User, alice: User) -> None:
    lacking = Permission.objects.get(codename="view_call")
    group = factories.make_group("readers")
    allow(group, "view_call")
    plain = factories.make_group("plain", [manager])

    def save(user: User, **fields: Any) -> Callable[[], object]:
        def change() -> None:
            row = User.objects.get(pk=user.pk)
            for name, value in fields.items():
                setattr(row, name, value)
            row.save()

        return change

    def set_password() -> None:
        row = User.objects.get(pk=root.pk)
        row.set_password("x")
        row.save(update_fields=["password"])

    factories.grant(alice, factories.make_tool("hers"))
    token, _ = AccessToken.objects.issue(alice, "robot", days=10, toolsets=[factories.make_toolset("Numbers")])
    token.revoke()
    later = token.expires + timedelta(days=1)

    def widen(**fields: Any) -> Callable[[], object]:
        def change() -> None:
            row = AccessToken.objects.get(pk=token.pk)
            for name, value in fields.items():
                setattr(row, name, value)
            row.save()

        return change

    changes: list[Callable[[], object]] = [
        save(charlie, is_superuser=True),
        save(manager, is_superuser=True),
        save(charlie, is_staff=True),
        save(root, email="mine@example.com"),
        save(root, is_active=False),
        set_password,
        lambda: User.objects.create_user("eve", is_superuser=True),
        lambda: User.objects.filter(pk__in=[charlie.pk, root.pk]).delete(),
        lambda: manager.user_permissions.add(lacking),
        lambda: lacking.user_set.add(manager),
        lambda: lacking.group_set.add(plain),
        lambda: plain.permissions.set([lacking]),
        lambda: manager.groups.add(group),
        lambda: group.user_set.add(manager),
        lambda: group.user_set.set([charlie]),
        lambda: group.permissions.clear(),
        lambda: group.delete(),
        lambda: AccessToken.objects.issue(alice, "robot"),
        *(save(alice, **{name: "mallory@example.com"}) for name in ("email", "username", "password")),
        *(widen(**change) for change in ({"expires": later}, {"restricted": False}, {"user": manager})),
        widen(revoked=None),
    ]
    for number, change in enumerate(changes):
        with pytest.raises(PermissionDenied), transaction.atomic():
            during_request(manager, change)
        assert User.objects.filter(pk__in=[charlie.pk, root.pk], is_active=True).count() == 2, number
    during_request(root, lambda: AccessToken.objects.issue(alice, "robot"))
    during_request(manager, save(charlie, first_name="Charlie"))
    assert User.objects.get(pk=charlie.pk).first_name == "Charlie"


def test_who_signs_in_over_another_session_gets_a_newer_hash(
    manager: User, root: User, browser: Browser, settings: Any
) -> None:
    settings.PASSWORD_HASHERS = [
        "django.contrib.auth.hashers.PBKDF2PasswordHasher",
        "django.contrib.auth.hashers.MD5PasswordHasher",
    ]
    during_request(manager, lambda: authenticate(username="root", password=PASSWORD))
    root.refresh_from_db()
    assert root.password.startswith("pbkdf2") and root.check_password(PASSWORD)
