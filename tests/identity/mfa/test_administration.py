"""Removing the second factors of somebody who lost theirs: in the admin, and with a command."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from allauth.mfa.models import Authenticator
from cryptography.fernet import Fernet
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.core.management import CommandError, call_command
from django.test import Client

from audit.models import Action
from catalog import encryption
from catalog.models import Secret
from tests import factories
from tests.identity.mfa.conftest import Person, signed_in
from tests.identity.mfa.device import Device, add_passkey, code_of, enter_password, is_signed_in, set_up_app

if TYPE_CHECKING:
    from typing import Any


def page_of(user: User) -> str:
    return f"/admin/auth/user/{user.pk}/second-factors/"


@pytest.fixture
def manager(db: None) -> User:
    """Staff who manage accounts, and are granted nothing."""
    user = User.objects.create_user("manager", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=["view_user", "change_user"]))
    return user


def test_who_may_not_take_the_account_over_removes_nothing(with_app: Person, bob: User, manager: User) -> None:
    factories.grant(with_app.user, factories.make_tool("hers"))
    viewer = User.objects.create_user("viewer", is_staff=True)
    viewer.user_permissions.set(Permission.objects.filter(codename="view_user"))
    assert signed_in(bob).get(page_of(with_app.user)).status_code == 302
    for user in (viewer, manager):
        for method in ("get", "post"):
            assert getattr(signed_in(user), method)(page_of(with_app.user)).status_code == 403, user
    assert Authenticator.objects.count() == 2


def test_a_manager_removes_them_for_an_account_that_has_nothing_more(with_app: Person, manager: User) -> None:
    add_passkey(with_app.client, Device(), "Key <ring>")
    client = signed_in(manager)
    assert page_of(with_app.user) in client.get(f"/admin/auth/user/{with_app.user.pk}/change/").content.decode()
    page = client.get(page_of(with_app.user)).content.decode()
    assert "Authenticator app" in page and "Key &lt;ring&gt;" in page and with_app.seed not in page
    assert Authenticator.objects.count() == 3, "looking changes nothing"
    assert client.post(page_of(with_app.user), follow=True).status_code == 200
    assert not Authenticator.objects.exists()
    deleted = Action.objects.filter(kind="second factor", verb="deleted")
    assert deleted.count() == 3 and {one.actor for one in deleted} == {"manager"}
    assert enter_password(Client())["Location"] == "/"


def test_root_removes_those_of_anybody_and_ones_own_only_with_a_proof(with_app: Person, root: User) -> None:
    client = signed_in(root)
    set_up_app(client)
    assert client.post(page_of(root))["Location"] == "/account/security/"
    assert client.post("/admin/auth/user/999999/second-factors/").status_code == 404
    assert client.post(page_of(with_app.user)).status_code == 302
    assert {one.user for one in Authenticator.objects.all()} == {root}


def test_the_library_has_no_page_and_no_permission_in_the_admin() -> None:
    labels = {"account", "socialaccount", "mfa"}
    assert not [model for model in admin.site._registry if model._meta.app_label in labels]
    assert not [name for name in (app.label for app in apps.get_app_configs()) if name == "sites"]


def test_the_command_removes_every_factor_and_says_how_many(with_app: Person) -> None:
    add_passkey(with_app.client, Device())
    said = io.StringIO()
    call_command("removefactors", "alice", stdout=said)
    assert said.getvalue() == "2 second factors of alice removed.\n" and not Authenticator.objects.exists()
    with pytest.raises(CommandError, match="no user 'nobody'"):
        call_command("removefactors", "nobody")


def test_rotating_the_keys_re_encrypts_the_seeds(with_app: Person, settings: Any) -> None:
    Secret.objects.create(name="another")
    old, new = settings.ENCRYPTION_KEYS, [Fernet.generate_key().decode()]
    settings.ENCRYPTION_KEYS = [*new, *old]
    said = io.StringIO()
    call_command("rotatesecrets", stdout=said)
    assert "2 seeds of second factors" in said.getvalue()
    settings.ENCRYPTION_KEYS = new
    for code in (code_of(with_app.seed), with_app.codes[0]):
        client = Client()
        enter_password(client)
        client.post("/sign-in/second-step/", {"code": code})
        assert is_signed_in(client)


def test_a_seed_that_cannot_be_read_keeps_everything_as_it_was(with_app: Person, settings: Any) -> None:
    before = list(Authenticator.objects.values())
    row = Authenticator.objects.get(type="totp")
    row.data["secret"] = encryption.encrypt("A" * 32, "second factor:totp:999")
    row.save()
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode(), *settings.ENCRYPTION_KEYS]
    with pytest.raises(CommandError, match=r"second factor \(totp\) of alice"):
        call_command("rotatesecrets")
    codes = [one["data"] for one in before if one["type"] == "recovery_codes"]
    assert codes == [Authenticator.objects.get(type="recovery_codes").data]
