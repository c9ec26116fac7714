"""A password alone begins no session of an account with a second factor; a code, a passkey or a recovery code does."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client

from audit.models import Action
from tests.identity.mfa.conftest import Person, signed_in
from tests.identity.mfa.device import (
    PASSWORD,
    Device,
    add_passkey,
    code_of,
    enter_password,
    is_signed_in,
    options_at,
    set_up_app,
    sign_in_with,
)
from toolhub.access import temporary_passwords
from toolhub.identity.mfa import codes, second_step

if TYPE_CHECKING:
    from django.contrib.auth.models import User

STEP = "/sign-in/second-step/"


def at_second_step(name: str = "alice", target: str = "", **options: Any) -> Client:
    client = Client(**options)
    assert enter_password(client, name, target)["Location"] == STEP
    return client


def enter(client: Client, code: str) -> Any:
    return client.post(STEP, {"code": code})


def list_sign_ins(verb: str) -> list[dict[str, Any]]:
    return [json.loads(one.after) for one in Action.objects.filter(kind="session", verb=verb).order_by("link")]


# --- no session before it --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["", "/admin/", "/tokens/"])
def test_a_right_password_alone_opens_nothing(with_app: Person, target: str) -> None:
    with_app.user.is_staff = True
    with_app.user.save()
    client = at_second_step(target=target)
    assert not is_signed_in(client)
    for path in ("/tools/", "/tokens/", "/account/", "/account/security/", "/admin/"):
        assert client.get(path)["Location"].startswith(("/sign-in/?next=", "/admin/login/?next=")), path
    assert list_sign_ins("signed in")[1:] == [], "only the browser in which she set it up"
    assert "toolhub_device" not in client.cookies


def test_the_admin_has_no_sign_in_of_its_own(with_app: Person) -> None:
    client = Client()
    assert client.post("/admin/login/", {"username": "alice", "password": PASSWORD}).status_code == 405
    assert client.get("/admin/", follow=True).redirect_chain[-1][0] == "/sign-in/?next=%2Fadmin%2F"


def test_the_session_gets_another_key_when_the_password_was_right(with_app: Person) -> None:
    client = Client()
    client.post("/sign-in/passkey/options/")
    before = client.session.session_key
    assert enter_password(client)["Location"] == STEP
    assert client.session.session_key != before


def test_nobody_is_at_the_second_step_without_a_password(with_app: Person) -> None:
    client = Client()
    assert client.get(STEP)["Location"] == "/sign-in/"
    assert enter(client, code_of(with_app.seed))["Location"] == "/sign-in/"
    assert client.post(f"{STEP}options/").status_code == 403
    assert enter_password(client, password="wrong").status_code == 200
    assert enter(client, code_of(with_app.seed))["Location"] == "/sign-in/" and not is_signed_in(client)


def test_five_minutes_later_the_password_is_needed_again(with_app: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    client = at_second_step(target="/tokens/")
    later = time.time() + second_step.SECONDS + 1
    monkeypatch.setattr(second_step, "time", SimpleNamespace(time=lambda: later))
    answer = enter(client, code_of(with_app.seed))
    assert answer["Location"] == "/sign-in/?next=%2Ftokens%2F" and not is_signed_in(client)
    assert "Sign in again" in client.get(answer["Location"]).content.decode()


@pytest.mark.parametrize("change", ["password", "inactive", "removed"])
def test_what_happens_to_the_account_meanwhile_ends_the_second_step(with_app: Person, change: str) -> None:
    client = at_second_step()
    if change == "password":
        with_app.user.set_password("another long phrase 7")
        with_app.user.save()
    elif change == "inactive":
        with_app.user.is_active = False
        with_app.user.save()
    else:
        with_app.client.post("/account/security/app/remove/")
    assert enter(client, code_of(with_app.seed))["Location"] == "/sign-in/"
    assert enter(client, with_app.codes[0])["Location"] == "/sign-in/" and not is_signed_in(client)


def test_a_code_of_somebody_else_is_a_wrong_one(with_app: Person, bob: User) -> None:
    his_seed, his_codes = set_up_app(signed_in(bob))
    client = at_second_step()
    for code in (code_of(his_seed), his_codes[0]):
        assert enter(client, code).status_code == 200 and not is_signed_in(client)
    assert enter(at_second_step("bob"), code_of(with_app.seed)).status_code == 200


def test_the_passkey_of_somebody_else_does_not_finish_it(with_passkey: Person, bob: User) -> None:
    his = Device()
    add_passkey(signed_in(bob), his)
    client = at_second_step()
    answer = his.get(options_at(client, f"{STEP}options/"))
    page = client.post(STEP, {"credential": answer})
    assert page.status_code == 200 and "was not accepted" in page.content.decode() and not is_signed_in(client)


def test_a_challenge_of_one_purpose_is_good_for_no_other(with_passkey: Person) -> None:
    client = at_second_step()
    answer = with_passkey.passkey.get(options_at(client, "/sign-in/passkey/options/"))
    assert client.post(STEP, {"credential": answer}).status_code == 200 and not is_signed_in(client)
    answer = with_passkey.passkey.get(options_at(client, f"{STEP}options/"))
    assert client.post("/sign-in/passkey/", {"credential": answer}).status_code == 200 and not is_signed_in(client)


# --- wrong codes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["", "000000x", "12345", "1" * 5000, "\0", "١٢٣٤٥٦", "-" * 6])
def test_what_is_no_code_is_refused(with_app: Person, code: str) -> None:
    client = at_second_step()
    page = enter(client, code)
    assert page.status_code == 200 and "This code is wrong" in page.content.decode() and not is_signed_in(client)


def test_a_code_of_the_app_is_good_once_in_any_browser(with_app: Person) -> None:
    code = code_of(with_app.seed)
    assert enter(at_second_step(), code).status_code == 302
    second = at_second_step()
    assert enter(second, code).status_code == 200 and not is_signed_in(second)


def test_the_code_that_set_the_app_up_does_not_sign_in(with_app: Person) -> None:
    client = at_second_step()
    assert enter(client, code_of(with_app.seed, -1)).status_code == 200 and not is_signed_in(client)


def test_an_old_code_is_refused_and_a_clock_may_be_off_by_half_a_minute(with_app: Person) -> None:
    for steps in (-4, -3, -2, 3, 4):
        assert enter(at_second_step(), code_of(with_app.seed, steps)).status_code == 200, steps
    assert enter(at_second_step(), code_of(with_app.seed, 1)).status_code == 302
    assert enter(at_second_step(), code_of(with_app.seed, 0)).status_code == 200, "older than the one before"


def test_a_recovery_code_is_good_once(with_app: Person) -> None:
    assert len(with_app.codes) == 10
    client = at_second_step()
    assert enter(client, with_app.codes[3]).status_code == 302 and is_signed_in(client)
    again = at_second_step()
    assert enter(again, with_app.codes[3]).status_code == 200 and not is_signed_in(again)
    assert enter(again, with_app.codes[4].replace("-", " ")).status_code == 302
    assert "8 codes left" in again.get("/account/security/").content.decode()


def test_guessing_ends_with_429_and_the_right_code_has_to_wait_too(
    with_app: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(second_step, "RATE", "3/300d")
    client = at_second_step()
    assert [enter(client, "000000").status_code for _ in range(3)] == [200, 200, 200]
    answer = enter(client, code_of(with_app.seed))
    assert answer.status_code == 429 and int(answer["Retry-After"]) > 0 and not is_signed_in(client)
    assert "Too many failed attempts" in answer.content.decode()
    again = at_second_step()
    assert enter(again, with_app.codes[0]).status_code == 429, "a new sign-in does not start the count again"
    assert len(list_sign_ins("failed to sign in")) == 3, "what was not checked is not logged"


def test_guesses_from_many_addresses_count_for_the_account_and_not_for_its_own_browsers(
    with_app: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(second_step, "ACCOUNT_RATE", "4/300d")
    own = at_second_step()
    assert enter(own, with_app.codes[0]).status_code == 302
    own.post("/sign-out/")
    for number in range(4):
        assert enter(at_second_step(REMOTE_ADDR=f"198.18.77.{number}"), "000000").status_code == 200
    assert enter(at_second_step(REMOTE_ADDR="198.18.77.9"), with_app.codes[1]).status_code == 429
    assert enter_password(own)["Location"] == STEP
    assert enter(own, with_app.codes[1]).status_code == 302


def test_a_right_code_takes_nothing_from_the_rate(with_app: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_step, "RATE", "2/300d")
    for code in with_app.codes[:5]:
        assert enter(at_second_step(), code).status_code == 302


# --- right ones ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["totp", "recovery code", "passkey"])
def test_the_second_factor_begins_the_session_and_leads_to_the_page_that_was_wanted(alice: User, kind: str) -> None:
    hers = signed_in(alice)
    seed, recovery = set_up_app(hers)
    passkey = Device()
    add_passkey(hers, passkey)
    client = at_second_step(target="/tokens/")
    if kind == "passkey":
        sent = {"credential": passkey.get(options_at(client, f"{STEP}options/"))}
    else:
        sent = {"code": code_of(seed) if kind == "totp" else recovery[0]}
    answer = client.post(STEP, sent)
    assert (answer.status_code, answer["Location"]) == (302, "/tokens/")
    assert client.get("/tokens/").status_code == 200
    assert client.session["signed_in_with"] == f"password+{kind}"
    assert second_step.KEY not in client.session and "toolhub_device" in client.cookies
    last = list_sign_ins("signed in")[-1]
    assert last["with"] == f"password+{kind}" and last["address"] == "127.0.0.1"


def test_every_wrong_one_is_logged_as_a_failed_sign_in_without_the_code(with_app: Person) -> None:
    client = at_second_step()
    enter(client, "271828")
    (failed,) = list_sign_ins("failed to sign in")
    assert failed == {"address": "127.0.0.1", "with": "second factor"}
    assert Action.objects.get(verb="failed to sign in").target == "alice"
    assert not Action.objects.filter(after__contains="271828").exists()


def test_a_sign_in_for_a_client_in_a_web_page_keeps_its_window(with_app: Person) -> None:
    client = at_second_step(target="/oauth/authorize?client_id=1")
    assert client.get(STEP)["Cross-Origin-Opener-Policy"] == "unsafe-none"
    assert at_second_step().get(STEP)["Cross-Origin-Opener-Policy"] == "same-origin"


def test_the_second_step_leads_to_no_other_site(with_app: Person) -> None:
    client = at_second_step(target="https://elsewhere.example/")
    assert enter(client, with_app.codes[0])["Location"] == "/"


def test_somebody_else_who_signs_in_in_this_browser_ends_the_second_step(with_app: Person, bob: User) -> None:
    client = at_second_step()
    assert enter_password(client, "bob").status_code == 302 and is_signed_in(client)
    assert second_step.KEY not in client.session
    assert enter(client, code_of(with_app.seed))["Location"] == "/sign-in/"
    assert client.session["_auth_user_id"] == str(bob.pk)


def test_a_temporary_password_still_leads_to_ones_own_after_the_second_step(with_app: Person, root: User) -> None:
    signed_in(root).post(
        f"/admin/auth/user/{with_app.user.pk}/password/",
        {"password1": "given by another 1", "password2": "given by another 1", "usable_password": "true"},
    )
    client = Client()
    assert enter_password(client, password="given by another 1")["Location"] == STEP
    enter(client, code_of(with_app.seed))
    assert client.session[temporary_passwords.SESSION_KEY] and client.get("/tools/")["Location"] == "/password/"
    assert client.get("/account/security/")["Location"] == "/password/"


def test_an_account_without_a_second_factor_signs_in_as_before(alice: User) -> None:
    client = Client()
    assert enter_password(client)["Location"] == "/" and is_signed_in(client)
    assert client.session["signed_in_with"] == "password"


def test_a_seed_that_cannot_be_read_any_more_refuses_and_says_so_in_the_log(
    with_app: Person, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    client = at_second_step()
    settings.ENCRYPTION_KEYS = ["b" * 43 + "="]
    assert enter(client, code_of(with_app.seed)).status_code == 200 and not is_signed_in(client)
    assert "cannot be decrypted" in caplog.text and with_app.seed not in caplog.text
    settings.ENCRYPTION_KEYS = []
    assert enter(client, with_app.codes[0]).status_code == 200


def test_a_passkey_finishes_a_sign_in_without_its_password(with_passkey: Person) -> None:
    client = Client()
    assert sign_in_with(client, with_passkey.passkey, "/tokens/")["Location"] == "/tokens/"
    assert codes.count_unused_recovery_codes(with_passkey.user) == 10
