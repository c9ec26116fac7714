"""The admin of accounts and tokens."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.utils import timezone

from audit.admin_base import ModelAdmin
from tests import factories
from toolhub.access.models import AccessToken, digest_of

if TYPE_CHECKING:
    from django.test import Client

Browser = Callable[..., "Client"]
TOKENS = "/admin/access/accesstoken/"
TOKEN = re.compile(r"thp_[A-Za-z0-9_-]{43}")


@pytest.fixture
def viewer(db: None) -> User:
    """Staff who may look at tokens and nothing else."""
    user = User.objects.create_user("viewer", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_accesstoken"))
    return user


def test_users_without_staff_status_are_denied(alice: User, browser: Browser) -> None:
    assert browser(alice).get(TOKENS)["Location"].startswith("/admin/login/")


def test_viewing_tokens_does_not_allow_creating_or_revoking_them(alice: User, viewer: User, browser: Browser) -> None:
    token, _ = AccessToken.objects.issue(alice, "laptop")
    client = browser(viewer)
    assert client.get(TOKENS).status_code == 200
    assert client.get(f"{TOKENS}add/").status_code == 403
    client.post(TOKENS, {"action": "revoke_chosen", "_selected_action": [str(token.pk)]})
    assert (
        client.post(f"{TOKENS}{token.pk}/change/", {"name": "x", "access_accesstoken_revoke_this": "1"}).status_code
        == 403
    )
    token.refresh_from_db()
    assert (token.revoked, token.name) == (None, "laptop")


def test_no_page_shows_a_token_or_its_digest_and_no_search_finds_one(alice: User, root: User, browser: Browser) -> None:
    token, text = AccessToken.objects.issue(alice, "laptop")
    client = browser(root)
    for path in (
        TOKENS,
        f"{TOKENS}{token.pk}/change/",
        f"{TOKENS}{token.pk}/history/",
        f"/admin/auth/user/{alice.pk}/change/",
    ):
        page = client.get(path).content.decode()
        assert text not in page
        assert token.digest not in page
    for secret in (text, token.digest, token.prefix):
        assert "0 results" in client.get(TOKENS, {"q": secret}).content.decode()


def test_tokens_are_revoked_and_not_deleted(alice: User, root: User, browser: Browser) -> None:
    token, _ = AccessToken.objects.issue(alice, "laptop")
    assert browser(root).post(f"{TOKENS}{token.pk}/delete/", {"post": "yes"}).status_code == 403
    client = browser(root)
    client.post(TOKENS, {"action": "delete_selected", "_selected_action": [str(token.pk)], "post": "yes"})
    assert AccessToken.objects.filter(pk=token.pk).exists()


def test_deleting_a_user_deletes_their_tokens(alice: User, root: User, browser: Browser) -> None:
    AccessToken.objects.issue(alice, "laptop")
    browser(root).post(f"/admin/auth/user/{alice.pk}/delete/", {"post": "yes"})
    assert not User.objects.filter(username="alice").exists()
    assert not AccessToken.objects.exists()


def test_a_token_created_for_another_user_is_shown_once(alice: User, root: User, browser: Browser) -> None:
    toolset = factories.make_toolset("Numbers")
    client = browser(root)
    sent = {"user": alice.pk, "name": "robot", "days": "10", "restricted": "on", "toolsets": [toolset.pk]}
    answer = client.post(f"{TOKENS}add/", sent)
    (text,) = set(TOKEN.findall(answer.content.decode()))
    assert "no-store" in answer["Cache-Control"]
    token = AccessToken.objects.get()
    assert (token.user, token.name, token.digest, token.restricted) == (alice, "robot", digest_of(text), True)
    assert (token.expires - token.created).days == 10
    assert list(token.toolsets.all()) == [toolset]
    for path in (TOKENS, f"{TOKENS}{token.pk}/change/", f"{TOKENS}{token.pk}/history/"):
        assert text not in client.get(path).content.decode()


def test_chosen_tokens_are_revoked(alice: User, root: User, browser: Browser) -> None:
    chosen = [AccessToken.objects.issue(alice, str(number))[0] for number in range(2)]
    other, _ = AccessToken.objects.issue(alice, "other")
    client = browser(root)
    sent = {"action": "revoke_chosen", "_selected_action": [token.pk for token in chosen]}
    assert "2 tokens were revoked" in client.post(TOKENS, sent, follow=True).content.decode()
    assert set(AccessToken.objects.filter(revoked=None)) == {other}


def test_a_token_is_revoked_from_its_page(alice: User, root: User, browser: Browser) -> None:
    token, _ = AccessToken.objects.issue(alice, "laptop")
    day, hour = token.expires.strftime("%Y-%m-%d %H:%M:%S").split()
    sent = {"name": "laptop", "expires_0": day, "expires_1": hour, "access_accesstoken_revoke_this": "1"}
    browser(root).post(f"{TOKENS}{token.pk}/change/", sent)
    token.refresh_from_db()
    assert token.revoked is not None


def test_toolsets_restrict_a_token_although_the_switch_was_forgotten(alice: User, root: User, browser: Browser) -> None:
    toolset = factories.make_toolset("Numbers")
    client = browser(root)
    client.post(f"{TOKENS}add/", {"user": alice.pk, "name": "robot", "days": "10", "toolsets": [toolset.pk]})
    token = AccessToken.objects.get()
    assert token.restricted
    token.toolsets.clear()
    AccessToken.objects.update(restricted=False)
    day, hour = token.expires.strftime("%Y-%m-%d %H:%M:%S").split()
    sent = {"name": "robot", "expires_0": day, "expires_1": hour, "toolsets": [toolset.pk]}
    client.post(f"{TOKENS}{token.pk}/change/", sent)
    token.refresh_from_db()
    assert token.restricted


@pytest.mark.parametrize("state", ["usable", "expired", "revoked", "nonsense"])
def test_the_list_filters_by_state(alice: User, root: User, browser: Browser, state: str) -> None:
    token, _ = AccessToken.objects.issue(alice, "laptop")
    page = browser(root).get(TOKENS, {"state": state}).content.decode()
    assert (f"{TOKENS}{token.pk}/change/" in page) == (state in {"usable", "nonsense"})


def test_the_state_of_a_token_is_the_one_that_the_list_filters_by(
    alice: User, bob: User, root: User, browser: Browser
) -> None:
    past = timezone.now() - timedelta(days=1)
    for name, owner in (("usable", alice), ("expired", alice), ("revoked", alice), ("inactive", bob)):
        AccessToken.objects.issue(owner, name)
    AccessToken.objects.filter(name="expired").update(expires=past)
    AccessToken.objects.filter(name="revoked").update(revoked=past)
    User.objects.filter(pk=bob.pk).update(is_active=False)
    client = browser(root)
    words = {"usable": "active", "expired": "expired", "revoked": "revoked", "inactive": "user inactive"}
    for state, said in words.items():
        listed = client.get(TOKENS, {"state": state}).context["cl"]
        assert [row.name for row in listed.result_list] == [state]
        assert listed.model_admin.state_now(listed.result_list[0]) == said


@pytest.mark.parametrize(
    "path",
    [
        "/admin/",
        "/admin/auth/user/",
        "/admin/auth/user/add/",
        "/admin/auth/group/",
        "/admin/auth/group/add/",
        f"{TOKENS}add/",
    ],
)
def test_user_pages_work(root: User, browser: Browser, path: str) -> None:
    answer = browser(root).get(path)
    assert answer.status_code == 200
    assert "style-src 'self' 'unsafe-inline'" in answer["Content-Security-Policy"]


def test_the_sidebar_lists_only_permitted_pages(viewer: User, browser: Browser) -> None:
    page = browser(viewer).get("/admin/").content.decode()
    assert TOKENS in page
    assert "/admin/auth/user/" not in page


def test_a_user_is_created_and_changed_in_the_admin(root: User, browser: Browser) -> None:
    client = browser(root)
    password = "correct horse battery staple"
    made = client.post(
        "/admin/auth/user/add/",
        {"username": "dora", "usable_password": "true", "password1": password, "password2": password},
    )
    assert made.status_code == 302
    assert User.objects.get(username="dora").check_password(password)


def test_permissions_are_searchable_only_by_staff_who_change_users(root: User, viewer: User, browser: Browser) -> None:
    path = "/admin/autocomplete/"
    asked = {"app_label": "auth", "model_name": "user", "field_name": "user_permissions", "term": "view_call"}
    assert browser(viewer).get(path, asked).status_code == 403
    found = browser(root).get(path, asked).json()["results"]
    assert [row["text"].rpartition(" | ")[2] for row in found] == ["Can view call", "Can view reported call"]
    assert browser(root).get("/admin/auth/permission/add/").status_code == 403


def test_permissions_are_named_in_the_language_of_the_page(root: User, alice: User, browser: Browser) -> None:
    client = browser(root)
    asked = {"app_label": "auth", "model_name": "user", "field_name": "user_permissions"}
    chinese = {"headers": {"accept-language": "zh-hans"}}

    def texts(term: str) -> list[str]:
        found = client.get("/admin/autocomplete/", {**asked, "term": term}, **chinese).json()["results"]  # type: ignore[arg-type]
        return [row["text"].rpartition(" | ")[2] for row in found]

    assert texts("view_call") == ["可以查看调用", "可以查看被报告的调用"]
    assert texts("cancel_call") == ["可以取消正在运行的调用"]
    alice.user_permissions.add(Permission.objects.get(codename="add_toolset"))
    page = client.get(f"/admin/auth/user/{alice.pk}/change/", **chinese).content.decode()  # type: ignore[arg-type]
    assert "可以添加工具集" in page and "Can add toolset" not in page
    assert "可以添加工具集" in client.get("/admin/auth/permission/?q=add_toolset", **chinese).content.decode()  # type: ignore[arg-type]


def test_the_history_of_a_user_comes_from_the_audit_log(
    root: User, alice: User, viewer: User, browser: Browser
) -> None:
    client = browser(root)
    client.post(
        f"/admin/auth/user/{alice.pk}/password/", {"password1": "correct horse 2", "password2": "correct horse 2"}
    )
    alice.username = "alicia"
    alice.save()
    history = f"/admin/auth/user/{alice.pk}/history/"
    assert history in client.get(f"/admin/auth/user/{alice.pk}/change/").content.decode()
    page = client.get(history, follow=True)
    assert page.redirect_chain[0][0].startswith("/admin/audit/action/?kind=user&q=")
    listed = page.content.decode()
    assert "alice (id" in listed and "alicia (id" in listed, "under every name that they had"
    token, _ = AccessToken.objects.issue(alice, "laptop")
    # Who may not read the audit log gets Django's own log.
    answer = browser(viewer).get(f"{TOKENS}{token.pk}/history/")
    assert answer.status_code == 200 and "doesn’t have a change history" in answer.content.decode()
    assert f"{TOKENS}{token.pk}/history/" not in browser(viewer).get(f"{TOKENS}{token.pk}/change/").content.decode()


def test_every_page_of_the_admin_has_our_base_those_of_django_s_models_too() -> None:
    registered = admin.site._registry
    assert {User, Group, Permission} <= set(registered)
    assert [model for model, page in registered.items() if not isinstance(page, ModelAdmin)] == []


@pytest.mark.parametrize("value", ["abc", "9" * 30, "-1", "9" * 5000, "", "1,2"])
def test_an_address_that_no_row_can_have_is_no_error_of_ours(root: User, browser: Browser, value: str) -> None:
    client = browser(root)
    for path, name in (
        ("catalog/grant/add", "user"),
        ("catalog/grant/add", "tool"),
        ("auth/user/add", "groups"),
        ("catalog/tool/add", "toolsets"),
        ("catalog/tool", "toolsets__id__exact"),
        ("auth/user", "groups__id__exact"),
        ("auth/user", "is_active__exact"),
    ):
        assert client.get(f"/admin/{path}/", {name: value}).status_code in (200, 302), (path, name)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/admin/catalog/grant/add/", "Add grant"),
        ("/admin/auth/user/add/", "Add user"),
        ("/admin/audit/call/case-file/", "Case file"),
        ("/admin/audit/call/views/", "Saved views"),
        ("/admin/catalog/grant/", None),
    ],
)
def test_the_heading_of_a_page_ends_with_its_own_name(
    root: User, browser: Browser, path: str, name: str | None
) -> None:
    page = browser(root).get(path).content.decode()
    (heading,) = re.findall(r"<h1.*?</h1>", page, re.DOTALL)
    texts = [text.strip() for text in re.sub(r"<[^>]+>", "\n", heading).splitlines() if text.strip()]
    assert texts[-1] == (name or "Grants")


def test_the_page_that_deletes_a_tool_names_the_toolsets_that_it_leaves(root: User, browser: Browser) -> None:
    tool = factories.make_tool(toolset=factories.make_toolset("Numbers"))
    page = browser(root).get(f"/admin/catalog/tool/{tool.pk}/delete/").content.decode()
    assert "Place in a toolset: Numbers" in page
    assert " object (" not in page


def test_the_keyboard_finds_the_link_past_the_sidebar_first(root: User, browser: Browser) -> None:
    page = browser(root).get("/admin/catalog/tool/").content.decode()
    assert page.index('href="#content"') < page.index('id="nav-sidebar"')
    assert 'id="content"' in page
