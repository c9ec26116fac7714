"""Guessing passwords: every page that checks one counts, and no guess locks people out of their own browsers."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from django.core import signing
from django.test import Client

from tests import census
from toolhub.access import device_cookies, forms, throttle

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.http import HttpResponse

Browser = Callable[..., Client]
PASSWORD, NEW = "correct horse battery", "a different long phrase"
COOKIE = device_cookies.COOKIE_NAME


def sign_in(client: Client, name: str = "alice", password: str = PASSWORD) -> HttpResponse:
    found: Any = client.post("/sign-in/", {"username": name, "password": password})
    return found


def from_elsewhere() -> Client:
    """A browser at an address that nobody else has."""
    return Client(REMOTE_ADDR=f"198.19.{secrets.randbelow(256)}.{secrets.randbelow(256)}")


def with_cookie(value: str) -> Client:
    client = from_elsewhere()
    client.cookies[COOKIE] = value
    return client


def known_browser(name: str = "alice") -> Client:
    """A browser in which this person signed in and out."""
    client = from_elsewhere()
    assert sign_in(client, name).status_code == 302
    client.post("/sign-out/")
    return client


def lock_out(name: str = "alice") -> None:
    """Somebody elsewhere guesses until the account takes no password from a strange browser."""
    while sign_in(from_elsewhere(), name, "wrong").status_code != 429:
        pass
    assert sign_in(from_elsewhere(), name).status_code == 429


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    # Long periods: none ends within a test.
    monkeypatch.setattr(forms, "NAME_RATE", "2/300d")
    monkeypatch.setattr(forms, "ACCOUNT_RATE", "4/300d")
    monkeypatch.setattr(forms, "DEVICE_RATE", "3/300d")


@pytest.fixture
def alice(alice: User) -> User:
    """With a name of her own in every test: counters outlive it."""
    alice.username = f"alice{secrets.token_hex(6)}"
    alice.save()
    return alice


# --- every page that checks a password -------------------------------------------------------------------------------

CHECKS = {
    "sign-in/": {"username": "{name}", "password": "{guess}"},
    "account/security/confirm/": {"password": "{guess}"},
    "password/": {"old_password": "{guess}", "new_password1": NEW, "new_password2": NEW},
    "admin/password_change/": {"old_password": "{guess}", "new_password1": NEW, "new_password2": NEW},
}
"""The pages that check a password, and their forms."""
STORES = {"admin/auth/user/add/", "admin/auth/user/<id>/password/"}
"""The pages that only set one."""


@pytest.mark.django_db
def test_every_page_with_a_field_for_a_password_is_known_here(root: User) -> None:
    values = census.create_address_values(root)
    client = Client()
    client.force_login(root)
    found = set()
    for rule in census.every_rule():
        if "GET" not in rule.methods:
            continue
        visitor = Client() if rule.route == "sign-in/" else client
        answer = visitor.get(rule.path(values))
        if answer.status_code == 200 and not answer.streaming:
            page = answer.content.decode(errors="replace")
            fields = re.findall(r'<input[^>]*type="password"[^>]*>', page)
            if any("password" in re.findall(r'name="([^"]*)"', field)[0] for field in fields):
                found.add(rule.route)
    assert found == {*CHECKS, *STORES}


@pytest.mark.parametrize("page", CHECKS)
def test_each_of_them_counts_wrong_passwords_and_says_what_to_do(
    root: User, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forms, "NAME_RATE", "3/300d")
    root.username = f"root{secrets.token_hex(6)}"
    root.save()
    client = from_elsewhere()
    if page != "sign-in/":
        client.force_login(root)

    def guess(password: str) -> Any:
        sent = {name: value.format(name=root.username, guess=password) for name, value in CHECKS[page].items()}
        return client.post(f"/{page}", sent)

    assert [guess(f"wrong {number}").status_code for number in range(3)] == [200, 200, 200]
    refused = guess(PASSWORD)
    assert refused.status_code == 429 and int(refused["Retry-After"]) > 0
    text = refused.content.decode()
    assert "Too many failed attempts" in text and "ask your administrator for a new one" in text
    root.refresh_from_db()
    assert root.check_password(PASSWORD)
    client.logout()
    assert sign_in(client, root.username).status_code == 429, "all pages have one counter"


def test_guesses_at_the_same_time_are_no_more_than_the_rate_allows() -> None:
    counters = [throttle.Counter("test", secrets.token_hex(), "5/300d"), throttle.Counter("all", "x", "1000000/s")]
    with ThreadPoolExecutor(20) as pool:
        found = list(pool.map(lambda _: throttle.reserve(counters), range(60)))
    assert 1 <= sum(not guess.seconds for guess in found) <= 5


def test_a_right_password_takes_nothing_from_the_rate(alice: User, few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "ADDRESS_RATE", "2/300d")
    client = from_elsewhere()
    for _ in range(6):
        client.cookies.clear()
        assert sign_in(client, alice.username).status_code == 302
        client.post("/sign-out/")


def test_a_guess_that_was_never_checked_takes_nothing_from_the_rate(
    alice: User, few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = from_elsewhere()
    client.raise_request_exception = False

    def fail(*_: Any, **__: Any) -> None:
        raise ConnectionError("the database is away")

    with monkeypatch.context() as patched:
        patched.setattr("django.contrib.auth.forms.authenticate", fail)
        assert [sign_in(client, alice.username).status_code for _ in range(4)] == [500] * 4
    assert sign_in(client, alice.username).status_code == 302


@pytest.mark.parametrize("network", ["2001:db8:77:{}", "::ffff:198.18.251.{}"])
def test_an_ipv6_network_is_one_sender(alice: User, network: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "ADDRESS_RATE", "3/300d")
    base = network.format(secrets.randbelow(200) + 1)
    addresses = [f"{base}::{number:x}" for number in range(4)] if "db8" in base else [base, base[7:]] * 2
    clients = [Client(REMOTE_ADDR=address) for address in addresses]
    statuses = [sign_in(client, f"guess{secrets.token_hex(4)}", "letmein").status_code for client in clients]
    assert statuses == [200, 200, 200, 429]


# --- device cookies --------------------------------------------------------------------------------------------------


def test_guesses_from_many_addresses_lock_strange_browsers_out_and_not_those_of_the_account(
    alice: User, few: None
) -> None:
    own = known_browser(alice.username)
    lock_out(alice.username)
    assert sign_in(own, alice.username).status_code == 302


def test_a_known_browser_has_a_counter_of_its_own_that_is_as_strict(alice: User, few: None) -> None:
    own, other = known_browser(alice.username), known_browser(alice.username)
    assert [sign_in(own, alice.username, "wrong").status_code for _ in range(4)] == [200, 200, 200, 429]
    assert sign_in(own, alice.username).status_code == 429
    assert sign_in(other, alice.username).status_code == 302
    assert sign_in(from_elsewhere(), alice.username).status_code == 302, "the account has not been guessed at"


def test_a_cookie_of_one_account_is_worth_nothing_for_another(alice: User, bob: User, few: None) -> None:
    bob.username = f"bob{secrets.token_hex(6)}"
    bob.save()
    attacker = known_browser(bob.username)
    lock_out(alice.username)
    assert sign_in(attacker, alice.username).status_code == 429


def test_one_browser_is_known_for_several_accounts_and_forgets_the_oldest(
    alice: User, bob: User, few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = known_browser(alice.username)
    assert sign_in(client, "bob").status_code == 302
    client.post("/sign-out/")
    lock_out(alice.username)
    assert sign_in(client, alice.username).status_code == 302
    client.post("/sign-out/")
    monkeypatch.setattr(device_cookies, "MAX_ACCOUNTS", 1)
    assert sign_in(client, "bob").status_code == 302
    client.post("/sign-out/")
    assert sign_in(client, alice.username).status_code == 429


def test_a_cookie_is_new_after_every_sign_in_and_names_nobody(alice: User) -> None:
    client, values = from_elsewhere(), set()
    for _ in range(3):
        sign_in(client, alice.username)
        morsel = client.cookies[COOKIE]
        assert (morsel["httponly"], morsel["samesite"], morsel["path"]) == (True, "Strict", "/")
        assert 0 < morsel["max-age"] <= 90 * 86_400 and not morsel["secure"]
        values.add(morsel.value)
        client.post("/sign-out/")
        assert client.cookies[COOKIE].value == morsel.value
    assert len(values) == 3
    for value in values:
        ((name, device, made, proof),) = signing.loads(value, salt=device_cookies.SALT)
        assert alice.username not in (name, device, proof) and alice.password not in (name, device, proof)
        assert abs(made - time.time()) < 600


@pytest.mark.parametrize("how", ["https", "the public address"])
def test_the_cookie_is_secure_where_pages_come_by_https(alice: User, settings: Any, how: str) -> None:
    settings.SESSION_COOKIE_SECURE = how == "the public address"
    client = from_elsewhere()
    sent = {"username": alice.username, "password": PASSWORD}
    client.post("/sign-in/", sent, secure=how == "https")
    assert client.cookies[COOKIE]["secure"]


@pytest.mark.parametrize("change", ["another key", "another signature", "too old", "cut", "long", "empty", "junk"])
def test_a_cookie_that_is_not_ours_or_too_old_is_none(
    alice: User, few: None, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = known_browser(alice.username).cookies[COOKIE].value
    lock_out(alice.username)
    assert sign_in(with_cookie(value), alice.username).status_code == 302, "unchanged, it is one"
    if change == "too old":
        later = time.time() + device_cookies.MAX_AGE_DAYS * 86_400 + 60
        monkeypatch.setattr(device_cookies, "time", SimpleNamespace(time=lambda: later))
    changed = {
        "another key": signing.dumps(signing.loads(value, salt=device_cookies.SALT), key="k" * 50),
        "another signature": value[:-1] + ("A" if value[-1] != "A" else "B"),
        "too old": value,
        "cut": value[: len(value) // 2],
        "long": value + "x" * 5_000,
        "empty": "",
        "junk": "\\302\\377::",
    }[change]
    assert sign_in(with_cookie(changed), alice.username).status_code == 429


@pytest.mark.parametrize("page", ["password/", "admin/password_change/"])
def test_a_new_password_ends_the_cookies_of_other_browsers_and_renews_that_of_its_own(
    alice: User, few: None, page: str
) -> None:
    alice.is_staff = True
    alice.save()
    other, own = known_browser(alice.username), from_elsewhere()
    sign_in(own, alice.username)
    sent = {"old_password": PASSWORD, "new_password1": NEW, "new_password2": NEW}
    assert own.post(f"/{page}", sent).status_code == 302
    own.post("/sign-out/")
    lock_out_with = [sign_in(from_elsewhere(), alice.username, "wrong").status_code for _ in range(5)]
    assert lock_out_with[-1] == 429
    assert sign_in(other, alice.username, NEW).status_code == 429
    assert sign_in(own, alice.username, NEW).status_code == 302


def test_nobody_learns_from_a_cookie_which_accounts_exist(alice: User, few: None) -> None:
    value = known_browser(alice.username).cookies[COOKIE].value
    for name in (alice.username.upper(), "nobody", ""):
        request: Any = SimpleNamespace(COOKIES={COOKIE: value})
        assert device_cookies.find_device(request, name) is None
