"""TOOLHUB_REQUIRE_SECOND_FACTOR: whoever has to have a second factor, and has none, adds one before anything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client

from tests.identity.mfa.device import Device, add_passkey, enter_password, set_up_app, sign_in_with
from toolhub.access.models import AccessToken

if TYPE_CHECKING:
    from django.contrib.auth.models import User

HOME = "/account/security/"


def open_all(client: Client) -> set[str]:
    paths = ("/", "/tools/", "/tokens/", "/secrets/", "/account/", "/calls/", "/connect/", "/admin/", "/nowhere/")
    return {client.get(path).headers.get("Location", "") for path in paths}


@pytest.mark.parametrize("how", ["app", "passkey"])
def test_nothing_else_can_be_done_first_and_a_second_factor_opens_everything(
    alice: User, settings: Any, how: str
) -> None:
    settings.REQUIRE_SECOND_FACTOR = "everyone"
    client = Client()
    enter_password(client)
    assert open_all(client) == {HOME}
    assert client.post("/tokens/", {"name": "mine", "days": 30})["Location"] == HOME
    assert not AccessToken.objects.exists()
    page = client.get(HOME)
    assert page.status_code == 200 and "This server requires a second factor" in page.content.decode()
    assert client.get("/password/").status_code == 200
    if how == "app":
        set_up_app(client)
    else:
        add_passkey(client, Device())
    assert client.get("/tools/").status_code == 200 and client.get("/tokens/").status_code == 200


def test_signing_out_and_the_language_stay_possible(alice: User, settings: Any) -> None:
    settings.REQUIRE_SECOND_FACTOR = "everyone"
    client = Client()
    enter_password(client)
    assert client.post("/language/", {"language": "zh-hans", "next": HOME}).headers["Location"] == HOME
    assert client.post("/sign-out/")["Location"] == "/sign-in/"


@pytest.mark.parametrize(
    "who, name, led", [("nobody", "root", False), ("staff", "alice", False), ("staff", "root", True)]
)
def test_it_asks_those_whom_the_setting_names(
    alice: User, root: User, settings: Any, who: str, name: str, led: bool
) -> None:
    settings.REQUIRE_SECOND_FACTOR = who
    client = Client()
    enter_password(client, name)
    assert (client.get("/tools/").headers.get("Location") == HOME) is led


def test_who_signed_in_with_an_identity_provider_is_not_asked(alice: User, settings: Any) -> None:
    settings.REQUIRE_SECOND_FACTOR = "everyone"
    client = Client()
    client.force_login(alice)
    assert client.get("/tools/")["Location"] == HOME, "a session that does not say how it began"
    session = client.session
    session["signed_in_with"] = "provider:okta"
    session.save()
    assert client.get("/tools/").status_code == 200


def test_it_asks_again_when_the_last_second_factor_is_removed(alice: User, settings: Any) -> None:
    settings.REQUIRE_SECOND_FACTOR = "everyone"
    client, device = Client(), Device()
    enter_password(client)
    add_passkey(client, device)
    other = Client()
    assert sign_in_with(other, device).status_code == 302 and other.get("/tools/").status_code == 200
    from allauth.mfa.models import Authenticator

    other.post(f"{HOME}passkeys/{Authenticator.objects.get(type='webauthn').pk}/remove/")
    assert client.get("/tools/")["Location"] == HOME and other.get("/tools/")["Location"] == HOME


def test_ones_own_password_comes_before_it(alice: User, root: User, settings: Any) -> None:
    settings.REQUIRE_SECOND_FACTOR = "everyone"
    administrator = Client()
    administrator.force_login(root)
    set_up_app(administrator)
    given = "given by another 1"
    administrator.post(
        f"/admin/auth/user/{alice.pk}/password/", {"password1": given, "password2": given, "usable_password": "true"}
    )
    client = Client()
    enter_password(client, password=given)
    assert client.get(HOME)["Location"] == "/password/" and client.get("/password/").status_code == 200
    chosen = {"old_password": given, "new_password1": "chosen by myself 2", "new_password2": "chosen by myself 2"}
    assert client.post("/password/", chosen).status_code == 302
    assert client.get("/tools/")["Location"] == HOME
