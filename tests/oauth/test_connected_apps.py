"""The page of connected apps: everybody sees and ends their own, and nothing else."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User as UserModel
from django.test import Client as Browser
from django.utils import timezone

from audit.models import Action
from tests.factories import connect_app, make_toolset
from tests.oauth import flow
from toolhub.oauth.models import Client, ConnectedApp

if TYPE_CHECKING:
    from django.contrib.auth.models import User

pytestmark = pytest.mark.django_db


def test_who_is_not_signed_in_sees_nothing(alice: User) -> None:
    app, _tokens = connect_app(alice)
    assert Browser().get("/apps/")["Location"].startswith("/sign-in/")
    assert Browser().post(f"/apps/{app.pk}/revoke/")["Location"].startswith("/sign-in/")
    app.refresh_from_db()
    assert app.revoked is None


def test_somebody_elses_app_reads_like_one_that_is_not_there(alices: Browser, bob: User) -> None:
    app, _tokens = connect_app(bob, "Bob's client")
    assert "Bob&#x27;s client" not in alices.get("/apps/").content.decode()
    assert [alices.post(f"/apps/{pk}/revoke/").status_code for pk in (app.pk, 10**6)] == [404, 404]
    app.refresh_from_db()
    assert app.revoked is None


def test_a_decision_that_no_client_fetched_is_no_app(alices: Browser) -> None:
    flow.get_code(alices, flow.register(client_name="Pending"))
    assert "Pending" not in alices.get("/apps/").content.decode()
    pending = ConnectedApp.objects.get()
    assert alices.post(f"/apps/{pending.pk}/revoke/").status_code == 404


def test_an_app_shows_what_it_may_use_since_when_and_from_where(alices: Browser, alice: User) -> None:
    app, _tokens = connect_app(alice, "<i>Claude</i>", toolsets=[make_toolset("Numbers")])
    ConnectedApp.objects.update(last_used=timezone.now(), last_address="203.0.113.9")
    text = alices.get("/apps/").content.decode()
    assert "&lt;i&gt;Claude&lt;/i&gt;" in text
    assert "Numbers" in text
    assert "203.0.113.9" in text
    assert app.destination in text


def test_disconnecting_ends_it_once_and_it_stays_in_the_list(alices: Browser, alice: User) -> None:
    app, tokens = connect_app(alice)
    answer = alices.post(f"/apps/{app.pk}/revoke/", follow=True)
    assert "disconnected" in answer.content.decode()
    app.refresh_from_db()
    assert app.revoked is not None
    assert alices.post(f"/apps/{app.pk}/revoke/").status_code == 302
    refused = flow.App(app.client.client_id).refresh(tokens["refresh_token"])
    assert refused.json()["error"] == "invalid_grant"
    assert alices.get(f"/apps/{app.pk}/revoke/").status_code == 405


@pytest.mark.parametrize("what", ["expired", "blocked"])
def test_an_app_that_can_no_longer_be_used_is_among_the_ended_ones(what: str, alices: Browser, alice: User) -> None:
    connect_app(alice)
    if what == "expired":
        ConnectedApp.objects.update(expires=timezone.now() - timedelta(days=1))
    else:
        Client.objects.update(blocked=True)
    page = alices.get("/apps/")
    assert page.context["usable"] == []
    assert len(page.context["ended"]) == 1


def test_the_log_of_changes_has_the_decision_and_its_end_and_no_digest(alices: Browser) -> None:
    flow.connect(alices)
    app = ConnectedApp.objects.get()
    alices.post(f"/apps/{app.pk}/revoke/")
    rows = list(Action.objects.filter(kind="connected app").order_by("pk").values())
    assert [row["verb"] for row in rows] == ["created", "changed"]
    assert {row["actor"] for row in rows} == {"alice"}
    text = repr(rows)
    assert app.code_digest not in text
    assert "successor" not in text


def test_who_has_connected_an_app_is_not_led_to_connect_one_at_each_sign_in(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.factories import grant, load, make_tool

    grant(alice, make_tool())
    load()

    def sign_in() -> Any:
        return Browser().post("/sign-in/", {"username": "alice", "password": "correct horse battery"})["Location"]

    assert sign_in() == "/connect/"
    connect_app(alice)
    assert sign_in() == "/"


def test_a_password_that_replaces_somebody_elses_revokes_the_apps_from_before(
    alice: User, root: User, browser: Browser
) -> None:
    app, _tokens = connect_app(alice)
    form = {"password1": "a new temporary one 7", "password2": "a new temporary one 7", "usable_password": "true"}
    browser.post(f"/admin/auth/user/{alice.pk}/password/", form)
    own = Browser()
    own.post("/sign-in/", {"username": "alice", "password": "a new temporary one 7"})
    app.refresh_from_db()
    assert app.revoked is None
    new = {"new_password1": "my own words 88", "new_password2": "my own words 88"}
    own.post("/password/", {"old_password": "a new temporary one 7", **new})
    app.refresh_from_db()
    assert app.revoked is not None


def test_no_page_of_the_admin_writes_tokens(root: User, browser: Browser) -> None:
    registered = {model._meta.label for model in admin.site._registry}
    assert not any(label.startswith("oauth2_provider.") for label in registered)
    for name in ("accesstoken", "refreshtoken", "grant", "application", "idtoken"):
        assert browser.get(f"/admin/oauth2_provider/{name}/").status_code == 404


def test_deleting_a_person_deletes_their_apps_and_tokens(alice: User) -> None:
    from oauth2_provider.models import AccessToken, RefreshToken

    connect_app(alice)
    UserModel.objects.all().delete()
    assert not (ConnectedApp.objects.exists() or AccessToken.objects.exists() or RefreshToken.objects.exists())
