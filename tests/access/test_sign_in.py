"""Signing in, in the user area and in the admin, with one throttle."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import Permission

from audit.models import Action
from tests import factories
from toolhub.access import forms
from toolhub.access.models import AccessToken

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.test import Client

Browser = Callable[..., "Client"]
PASSWORD = "correct horse battery"


def sign_in(client: Client, name: str, password: str, path: str = "/sign-in/") -> tuple[int, str]:
    answer = client.post(path, {"username": name, "password": password})
    return answer.status_code, answer.content.decode()


def strip_csrf(page: str, name: str) -> str:
    """The page as it reads: the token of the form and the name that was typed are the sender's own."""
    return "".join(line for line in page.splitlines() if "csrfmiddlewaretoken" not in line).replace(name, "NAME")


def test_an_unknown_account_and_a_wrong_password_get_the_same_page(alice: User, browser: Browser) -> None:
    pages = {strip_csrf(sign_in(browser(), name, "wrong")[1], name) for name in ("alice", "nobody")}
    assert len(pages) == 1


def test_an_inactive_account_reads_like_a_wrong_password(alice: User, browser: Browser) -> None:
    wrong = strip_csrf(sign_in(browser(), "alice", "wrong")[1], "alice")
    alice.is_active = False
    alice.save()
    assert strip_csrf(sign_in(browser(), "alice", PASSWORD)[1], "alice") == wrong


@pytest.mark.parametrize("name", ["alice", "nobody"])
def test_after_too_many_failures_the_right_password_has_to_wait_too(
    alice: User, browser: Browser, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forms, "NAME_RATE", "3/10h")
    client = browser()
    for _ in range(3):
        assert "Too many failed attempts" not in sign_in(client, name, "wrong")[1]
    answer = client.post("/sign-in/", {"username": name, "password": PASSWORD})
    assert answer.status_code == 429 and 0 < int(answer["Retry-After"]) <= 36_000
    page = answer.content.decode()
    assert "Too many failed attempts" in page and "ask your administrator for a new one" in page
    assert "_auth_user_id" not in client.session


def test_the_admin_checks_no_password_itself(root: User, browser: Browser) -> None:
    client = browser()
    assert sign_in(client, "root", PASSWORD, "/admin/login/")[0] == 405
    assert "_auth_user_id" not in client.session


def test_the_admin_leads_to_the_sign_in_page_and_from_there_back(root: User, browser: Browser) -> None:
    for address, wanted in (("/admin/login/", "/admin/"), ("/admin/login/?next=/admin/auth/", "/admin/auth/")):
        client = browser()
        page = client.get(address, follow=True)
        assert page.redirect_chain[-1][0].startswith("/sign-in/?next=")
        target = re.search(r'name="next" value="([^"]*)"', page.content.decode())
        assert target is not None
        answer = client.post("/sign-in/", {"username": "root", "password": PASSWORD, "next": target[1]})
        assert (answer.status_code, answer["Location"]) == (302, wanted)


def test_who_may_not_open_the_admin_is_told_so_and_not_sent_in_circles(alice: User, browser: Browser) -> None:
    answer = browser(alice).get("/admin/", follow=True)
    assert answer.status_code == 403 and len(answer.redirect_chain) == 1


def test_the_log_says_how_a_person_signed_in(alice: User, browser: Browser) -> None:
    client = browser()
    sign_in(client, "alice", PASSWORD)
    assert client.session["signed_in_with"] == "password"
    logged = json.loads(Action.objects.get(verb="signed in").after)
    assert logged["with"] == "password" and set(logged) == {"address", "with"}


def test_one_address_cannot_try_one_password_on_every_account(
    alice: User, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forms, "ADDRESS_RATE", "5/10h")
    client = browser()
    for number in range(5):
        sign_in(client, f"guess{number}", "letmein")
    assert "Too many failed attempts" in sign_in(client, "alice", PASSWORD)[1]


def test_signing_in_does_not_lead_to_another_site(alice: User, browser: Browser) -> None:
    client = browser()
    answer = client.post("/sign-in/", {"username": "alice", "password": PASSWORD, "next": "https://elsewhere.example/"})
    assert answer["Location"] == "/"


def test_signing_out_needs_a_post(alice: User, browser: Browser) -> None:
    client = browser(alice)
    assert client.get("/sign-out/").status_code == 405
    assert client.post("/sign-out/")["Location"] == "/sign-in/"
    assert client.get("/tools/")["Location"].startswith("/sign-in/")


def test_the_right_password_leads_to_the_page_that_was_wanted(alice: User, browser: Browser) -> None:
    client = browser()
    wanted = client.get("/tokens/")
    assert wanted["Location"] == "/sign-in/?next=/tokens/"
    answer = client.post("/sign-in/", {"username": "alice", "password": PASSWORD, "next": "/tokens/"})
    assert answer["Location"] == "/tokens/"
    assert client.get("/")["Location"] == "/tools/"


def find_landing_page(client: Client, name: str = "alice") -> str:
    """Where somebody gets to who signs in at the front door."""
    sign_in_path = client.get("/")["Location"]
    answer = client.post(sign_in_path, {"username": name, "password": PASSWORD}, follow=True)
    return str(answer.redirect_chain[-1][0])


def test_users_with_tools_and_no_usable_token_land_on_the_connect_page(alice: User, browser: Browser) -> None:
    factories.grant(alice, factories.make_tool("hers"))
    assert find_landing_page(browser()) == "/connect/"
    token, _ = AccessToken.objects.issue(alice, "laptop")
    assert find_landing_page(browser()) == "/tools/"
    token.revoke()
    assert find_landing_page(browser()) == "/connect/"


def test_users_without_grants_land_on_the_page_that_names_a_contact(alice: User, bob: User, browser: Browser) -> None:
    factories.grant(bob, factories.make_tool("his"))
    client = browser()
    assert find_landing_page(client) == "/tools/"
    assert "Ask your administrator" in client.get("/tools/").content.decode()


def test_an_administrator_without_tools_lands_on_overview(root: User, browser: Browser) -> None:
    client = browser()
    assert find_landing_page(client, "root") == "/admin/"
    assert client.get("/")["Location"] == "/admin/"
    assert client.get("/tools/").status_code == 200, "the own pages stay within reach"


def test_an_administrator_with_tools_lands_where_everybody_else_does(root: User, browser: Browser) -> None:
    factories.grant(root, factories.make_tool("theirs"))
    assert find_landing_page(browser(), "root") == "/connect/"
    AccessToken.objects.issue(root, "laptop")
    client = browser()
    assert find_landing_page(client, "root") == "/tools/"
    assert client.get("/")["Location"] == "/tools/"


def test_staff_who_may_do_nothing_there_are_not_led_to_overview(alice: User, browser: Browser) -> None:
    alice.is_staff = True
    alice.save()
    assert find_landing_page(browser()) == "/tools/"
    alice.user_permissions.add(Permission.objects.get(codename="view_call"))
    assert find_landing_page(browser()) == "/admin/"
    alice.is_staff = False
    alice.save()
    assert find_landing_page(browser()) == "/tools/", "a permission without the status of staff opens nothing"


@pytest.mark.parametrize("wanted", ["/tokens/", "/oauth/authorize?client_id=unknown&response_type=code"])
def test_an_administrator_gets_the_page_that_was_wanted(root: User, browser: Browser, wanted: str) -> None:
    answer = browser().post("/sign-in/", {"username": "root", "password": PASSWORD, "next": wanted})
    assert answer["Location"] == wanted


def test_a_new_password_needs_the_old_one_and_ends_other_sessions(alice: User, browser: Browser) -> None:
    here, elsewhere = browser(alice), browser(alice)
    new = {"new_password1": "a different long phrase", "new_password2": "a different long phrase"}
    assert here.post("/password/", {"old_password": "wrong", **new}).status_code == 200
    alice.refresh_from_db()
    assert alice.check_password(PASSWORD)
    assert here.post("/password/", {"old_password": PASSWORD, **new}).status_code == 302
    assert here.get("/tools/").status_code == 200
    assert elsewhere.get("/tools/")["Location"].startswith("/sign-in/")
