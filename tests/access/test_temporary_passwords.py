"""A password that somebody else set is good for one thing: choosing one's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.test import Client

from tests import factories
from toolhub.access.models import AccessToken, TemporaryPassword

pytestmark = pytest.mark.django_db
Browser = Callable[[User | None], Client]
GIVEN, CHOSEN, TAKEN = "given by another 1", "chosen by myself 2", "chosen by a thief 3"


@pytest.fixture
def manager() -> User:
    user = User.objects.create_user("manager", password="x", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=["add_user", "change_user", "view_user"]))
    return user


def set_password(browser: Browser, by: User, user: User, password: str = GIVEN) -> str:
    answer = browser(by).post(
        f"/admin/auth/user/{user.pk}/password/",
        {"password1": password, "password2": password, "usable_password": "true"},
        follow=True,
    )
    assert answer.status_code == 200
    return answer.content.decode()


def sign_in(browser: Browser, user: User, password: str = GIVEN, path: str = "/sign-in/") -> Client:
    client = browser(None)
    answer = client.post(path, {"username": user.username, "password": password})
    assert answer.status_code == 302, answer.content.decode()[-3000:]
    return client


def choose(client: Client, old: str, new: str) -> Any:
    return client.post("/password/", {"old_password": old, "new_password1": new, "new_password2": new})


def test_nothing_else_can_be_done_with_it_and_ones_own_opens_everything(
    manager: User, charlie: User, browser: Browser
) -> None:
    assert "chooses a new password at the next sign-in" in set_password(browser, manager, charlie)
    client = sign_in(browser, charlie)
    for path in ("/", "/tools/", "/tokens/", "/secrets/", "/account/", "/calls/", "/connect/", "/admin/", "/nowhere/"):
        assert client.get(path).headers["Location"] == "/password/", path
    created = client.post("/tokens/", {"name": "mine", "days": 30})
    assert created.headers["Location"] == "/password/" and not AccessToken.objects.exists()
    page = client.get("/password/").content.decode()
    assert "manager set your password" in page and "tokens of your account are then revoked" in page
    assert choose(client, "wrong", CHOSEN).status_code == 200 and client.get("/tools/").status_code == 302
    assert choose(client, GIVEN, CHOSEN).status_code == 302
    assert client.get("/tools/").status_code == 200 and client.get("/tokens/").status_code == 200
    assert "somebody else" not in client.get("/password/").content.decode()
    assert not TemporaryPassword.objects.exists()


def test_a_manager_who_took_an_account_keeps_no_token_of_it(manager: User, charlie: User, browser: Browser) -> None:
    set_password(browser, manager, charlie)
    thief = sign_in(browser, charlie)
    choose(thief, GIVEN, TAKEN)
    _, kept = AccessToken.objects.issue(charlie, "kept by the manager", days=30)
    # charlie cannot sign in, and asks for a password. The first thing that charlie does ends it all.
    set_password(browser, manager, charlie)
    assert thief.get("/tools/").headers["Location"].startswith("/sign-in/")
    choose(sign_in(browser, charlie), GIVEN, CHOSEN)
    factories.grant(charlie, factories.make_tool("granted_later"))
    assert [token.is_usable for token in AccessToken.objects.filter(user=charlie)] == [False] and kept


def test_staff_with_a_temporary_password_reach_no_page_of_the_admin(
    root: User, manager: User, browser: Browser
) -> None:
    set_password(browser, root, manager)
    client = sign_in(browser, manager, path="/sign-in/?next=/admin/")
    for path in ("/admin/", "/admin/auth/user/", "/admin/password_change/", "/admin/jsi18n/"):
        assert client.get(path).headers["Location"] == "/password/"
    assert choose(client, GIVEN, CHOSEN).status_code == 302 and client.get("/admin/").status_code == 200


def test_signing_out_and_the_language_stay_possible(manager: User, charlie: User, browser: Browser) -> None:
    set_password(browser, manager, charlie)
    client = sign_in(browser, charlie)
    assert client.post("/language/", {"language": "zh-hans", "next": "/password/"}).headers["Location"] == "/password/"
    assert client.post("/sign-out/").status_code in (200, 302)
    assert client.get("/tools/").headers["Location"].startswith("/sign-in/")


def test_an_account_that_somebody_made_begins_with_a_temporary_password(manager: User, browser: Browser) -> None:
    form = {"username": "newcomer", "password1": GIVEN, "password2": GIVEN, "usable_password": "true"}
    assert browser(manager).post("/admin/auth/user/add/", form).status_code == 302
    newcomer = User.objects.get(username="newcomer")
    assert sign_in(browser, newcomer).get("/tools/").headers["Location"] == "/password/"


def test_ones_own_password_and_those_of_commands_are_not_temporary(
    root: User, charlie: User, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    charlie.set_password(GIVEN)  # as a command does
    charlie.save()
    client = sign_in(browser, charlie)
    _, text = AccessToken.objects.issue(charlie, "laptop", days=30)
    assert choose(client, GIVEN, CHOSEN).status_code == 302 and client.get("/tools/").status_code == 200
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", GIVEN)
    call_command("createsuperuser", "--noinput", username="second", email="")
    set_password(browser, root, root, CHOSEN)
    assert not TemporaryPassword.objects.exists()
    assert text and AccessToken.objects.get().is_usable, "a password of one's own leaves the tokens alone"


def test_a_newer_hash_of_the_same_password_is_no_new_one(
    manager: User, charlie: User, browser: Browser, settings: Any
) -> None:
    set_password(browser, manager, charlie)
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.PBKDF2PasswordHasher", *settings.PASSWORD_HASHERS]
    User.objects.filter(pk=charlie.pk).update(password=make_password(GIVEN, hasher="md5"))
    client = sign_in(browser, charlie)
    charlie.refresh_from_db()
    assert charlie.password.startswith("pbkdf2")
    assert client.get("/tools/").headers["Location"] == "/password/", "it is still the one that the manager knows"


def test_other_changes_of_an_account_ask_for_no_new_password(manager: User, charlie: User, browser: Browser) -> None:
    client = browser(charlie)
    User.objects.get(pk=charlie.pk).save(update_fields=["first_name"])
    assert browser(manager).get(f"/admin/auth/user/{charlie.pk}/change/").status_code == 200
    assert client.get("/tools/").status_code == 200 and not TemporaryPassword.objects.exists()
