"""Clients and connected apps in the admin: what staff decide, see and end, and what nobody can do there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import Permission
from django.test import Client as Browser

from audit.models import Action
from tests.factories import connect_app, make_toolset
from tests.oauth import flow
from toolhub.access.models import digest_of
from toolhub.oauth.models import Client, ConnectedApp

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db
CLIENTS, APPS = "/admin/oauth/client/", "/admin/oauth/connectedapp/"
NEW = {"name": "Our app", "redirect_uris": "https://app.example/cb\nhttp://localhost/cb", "client_type": "public"}


def staff(user: User, *permissions: str) -> Browser:
    user.is_staff = True
    user.save()
    for name in permissions:
        user.user_permissions.add(Permission.objects.get(codename=name, content_type__app_label="oauth"))
    browser = Browser()
    browser.force_login(user)
    return browser


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("redirect_uris", "http://evil.example/cb"),
        ("redirect_uris", "javascript:alert(1)"),
        ("redirect_uris", "https://a.example/cb#x"),
        ("redirect_uris", ""),
        ("redirect_uris", "\n".join(f"https://a.example/{number}" for number in range(11))),
        ("name", " "),
        ("client_type", "other"),
    ],
)
def test_a_client_that_cannot_be_safe_is_not_added(field: str, value: str, browser: Browser) -> None:
    answer = browser.post(f"{CLIENTS}add/", {**NEW, field: value})
    assert answer.status_code == 200
    assert answer.context["adminform"].form.errors[field]
    assert not Client.objects.exists()


@pytest.mark.parametrize("kind", ["public", "confidential"])
def test_an_administrator_adds_a_client_whose_secret_is_shown_once(kind: str, browser: Browser, alice: User) -> None:
    page = browser.post(f"{CLIENTS}add/", {**NEW, "client_type": kind})
    client = Client.objects.get()
    assert client.client_id in page.content.decode()
    assert "no-store" in page["Cache-Control"]
    secret = page.context["secret"]
    assert client.client_secret == (digest_of(secret) if secret else "")
    assert bool(secret) == (kind == "confidential")
    again = browser.get(f"{CLIENTS}{client.pk}/change/").content.decode()
    assert client.client_secret not in again or not secret
    alices = Browser()
    alices.force_login(alice)
    app = flow.App(client.client_id, secret, "https://app.example/cb")
    assert flow.connect(alices, app)[1]["access_token"].startswith("tho_")
    assert secret not in repr(list(Action.objects.values())) or not secret


def test_a_confidential_client_that_a_provider_connects_needs_no_address(browser: Browser, alice: User) -> None:
    page = browser.post(f"{CLIENTS}add/", {**NEW, "redirect_uris": "", "client_type": "confidential"})
    client = Client.objects.get()
    assert (client.redirect_uris, client.may_bring_assertions) == ("", True)
    assert page.context["secret"] and "/admin/identity/provider/" in page.content.decode()
    assert (
        "/admin/identity/provider/"
        not in staff(alice, "add_client")
        .post(f"{CLIENTS}add/", {**NEW, "redirect_uris": "", "client_type": "confidential"})
        .content.decode()
    )
    change = f"{CLIENTS}{client.pk}/change/"
    assert browser.post(change, {"name": "Other", "redirect_uris": "", "trusted": "on"}).status_code == 302
    alices = Browser()
    alices.force_login(alice)
    for redirect in ("https://app.example/cb", ""):
        assert flow.ask(alices, flow.App(client.client_id, redirect_uri=redirect)).status_code == 400


def test_a_public_client_keeps_an_address(browser: Browser) -> None:
    browser.post(f"{CLIENTS}add/", NEW)
    client = Client.objects.get()
    answer = browser.post(f"{CLIENTS}{client.pk}/change/", {"name": "Our app", "redirect_uris": ""})
    assert answer.context["adminform"].form.errors["redirect_uris"]


def test_trusting_and_blocking_is_logged_and_takes_effect(browser: Browser, alice: User) -> None:
    app, _tokens = connect_app(alice)
    url = f"{CLIENTS}{app.client_id}/change/"
    browser.post(url, {"trusted": "on"})
    alices = Browser()
    alices.force_login(alice)
    page = flow.ask(alices, flow.App(app.client.client_id, redirect_uri="http://127.0.0.1/callback"))
    assert "trusted by an administrator" in page.content.decode()
    browser.post(url, {"blocked": "on"})
    assert not ConnectedApp.objects.usable().exists()
    rows = list(Action.objects.filter(kind="client").order_by("pk").values_list("verb", "actor"))
    assert rows == [("changed", "root")] * 2


def test_what_a_client_registered_is_not_changed_by_hand(browser: Browser, alice: User) -> None:
    app, _tokens = connect_app(alice)
    browser.post(
        f"{CLIENTS}{app.client_id}/change/",
        {"name": "Other", "redirect_uris": "https://evil.example/cb", "client_type": "confidential", "trusted": "on"},
    )
    client = Client.objects.get()
    assert (client.name, client.redirect_uris, client.client_type) == ("Claude", "http://127.0.0.1/callback", "public")
    assert client.trusted


def test_nobody_adds_or_deletes_apps_or_deletes_clients(browser: Browser, alice: User) -> None:
    app, _tokens = connect_app(alice)
    for url in (f"{APPS}add/", f"{APPS}{app.pk}/delete/", f"{CLIENTS}{app.client_id}/delete/"):
        assert browser.post(url, {"post": "yes"}).status_code == 403
    assert ConnectedApp.objects.count() == 1


def test_staff_see_and_disconnect_apps_with_the_permission_for_that(alice: User, bob: User) -> None:
    app, _tokens = connect_app(alice, toolsets=[make_toolset("Numbers")])
    bobs = staff(bob, "view_connectedapp")
    page = bobs.get(f"{APPS}{app.pk}/change/")
    assert "Numbers" in page.content.decode()
    given = {"action": "revoke_chosen", "_selected_action": [app.pk]}
    bobs.post(APPS, given)
    assert ConnectedApp.objects.usable().exists()
    staff(bob, "change_connectedapp")
    bobs.post(APPS, given)
    assert not ConnectedApp.objects.usable().exists()


def test_who_may_not_see_them_does_not(alice: User, bob: User) -> None:
    app, _tokens = connect_app(alice)
    bobs = staff(bob)
    for url in (CLIENTS, APPS, f"{APPS}{app.pk}/change/", f"{CLIENTS}{app.client_id}/change/", f"{CLIENTS}add/"):
        assert bobs.get(url).status_code == 403


@pytest.mark.parametrize("query", ["", "?state=usable", "?state=ended", "?q=claude"])
def test_the_lists_are_searched_and_filtered(query: str, browser: Browser, alice: User) -> None:
    connect_app(alice)
    assert browser.get(APPS + query).status_code == 200
    assert browser.get(CLIENTS + query.replace("state", "trusted__exact").replace("usable", "1")).status_code in {
        200,
        302,
    }


def test_the_pages_of_the_admin_lead_to_them(browser: Browser) -> None:
    text = browser.get("/admin/").content.decode()
    assert CLIENTS in text
    assert APPS in text


def test_a_decision_that_no_client_fetched_is_not_listed(browser: Browser, alices: Browser) -> None:
    flow.get_code(alices, flow.register(client_name="Pending client"))
    assert "Pending client" not in browser.get(APPS).content.decode()
