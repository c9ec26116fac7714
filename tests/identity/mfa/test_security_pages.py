"""The page of one's own second factors: who may change what, what it shows once, and what stays in the database."""

from __future__ import annotations

import base64
import json
import re
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest
from allauth.mfa.models import Authenticator
from django.apps import apps
from django.contrib.sessions.models import Session
from django.test import Client

from audit.models import Action
from catalog import encryption
from tests.identity.mfa.conftest import Person, signed_in
from tests.identity.mfa.device import (
    PASSWORD,
    Device,
    add_passkey,
    code_of,
    codes_on,
    enter_password,
    options_at,
    set_up_app,
)
from toolhub.access import forms, sign_in
from toolhub.identity.mfa import second_step

if TYPE_CHECKING:
    from django.contrib.auth.models import User

HOME, CONFIRM, ADD, APP = (f"/account/security/{part}" for part in ("", "confirm/", "passkeys/add/", "app/"))
CODES = f"{HOME}recovery-codes/"


def make_stale(client: Client) -> None:
    """The person signed in longer ago than changes allow."""
    session = client.session
    session[sign_in.PROOF_KEY] = int(time.time()) - sign_in.FRESH_SECONDS - 1
    session.save()


def passkey_row() -> Any:
    return Authenticator.objects.get(type="webauthn")


# --- a fresh proof ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("proof", ["old", "absent", "ahead"])
def test_nothing_changes_without_a_fresh_proof(alice: User, proof: str) -> None:
    client = signed_in(alice)
    set_up_app(client)
    add_passkey(client, Device())
    session, key = client.session, passkey_row().pk
    if proof == "absent":
        del session[sign_in.PROOF_KEY]
    else:
        session[sign_in.PROOF_KEY] = int(time.time()) + {"old": -601, "ahead": 999}[proof]
    session.save()
    before = list(Authenticator.objects.values())
    for path in (
        f"{HOME}passkeys/{key}/remove/",
        f"{HOME}passkeys/{key}/rename/",
        f"{APP}remove/",
        CODES,
        ADD,
        APP,
    ):
        answer = client.post(path, {"name": "mine"})
        assert answer.status_code == 302 and answer["Location"].startswith(CONFIRM), path
    for path in (ADD, APP):
        assert client.get(path)["Location"] == f"{CONFIRM}?next={path.replace('/', '%2F')}"
    asked = client.post(f"{ADD}options/", headers={"accept": "application/json"})
    assert asked.status_code == 403 and asked.json()["location"].startswith(CONFIRM)
    assert list(Authenticator.objects.values()) == before
    assert client.get(HOME).status_code == 200, "looking is free"


@pytest.mark.parametrize("how", ["password", "code", "recovery", "passkey"])
def test_each_proof_opens_the_page_that_was_wanted(alice: User, how: str) -> None:
    client = signed_in(alice)
    seed, recovery = set_up_app(client)
    device = Device()
    add_passkey(client, device)
    make_stale(client)
    sent = {
        "password": lambda: {"password": PASSWORD},
        "code": lambda: {"code": code_of(seed)},
        "recovery": lambda: {"code": recovery[0]},
        "passkey": lambda: {"credential": device.get(options_at(client, f"{CONFIRM}options/"))},
    }[how]()
    assert client.post(CONFIRM, {**sent, "next": ADD})["Location"] == ADD
    assert client.get(ADD).status_code == 200


@pytest.mark.parametrize(
    "sent", [{"password": "wrong"}, {"password": ""}, {"code": "000000"}, {"credential": "{}"}, {"next": HOME}]
)
def test_a_wrong_proof_opens_nothing(with_app: Person, sent: dict[str, str]) -> None:
    make_stale(with_app.client)
    answer = with_app.client.post(CONFIRM, sent)
    assert answer.status_code == 200 and 'role="alert"' in answer.content.decode()
    assert with_app.client.get(ADD)["Location"].startswith(CONFIRM)


def test_a_proof_leads_to_no_other_site(with_app: Person) -> None:
    answer = with_app.client.post(CONFIRM, {"password": PASSWORD, "next": "https://elsewhere.example/"})
    assert answer["Location"] == HOME


def test_wrong_proofs_are_throttled(with_app: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_step, "RATE", "2/300d")
    monkeypatch.setattr(forms, "NAME_RATE", "2/300d")
    guesses = [({"code": "000000"}, {"code": with_app.codes[0]}), ({"password": "x"}, {"password": PASSWORD})]
    for wrong, right in guesses:
        make_stale(with_app.client)
        assert [with_app.client.post(CONFIRM, wrong).status_code for _ in range(3)] == [200, 200, 429]
        assert with_app.client.post(CONFIRM, right).status_code == 429
        assert with_app.client.get(ADD)["Location"].startswith(CONFIRM)


def test_who_has_no_password_here_is_asked_to_sign_in_again(alice: User) -> None:
    alice.set_unusable_password()
    alice.save()
    client = signed_in(alice)
    make_stale(client)
    page = client.get(CONFIRM).content.decode()
    assert "Sign out, sign in again" in page and 'name="password"' not in page
    assert client.post(CONFIRM, {"password": ""}).status_code == 200
    assert client.get(ADD)["Location"].startswith(CONFIRM)


# --- other people's --------------------------------------------------------------------------------------------------


def test_a_passkey_of_somebody_else_is_as_absent_as_none(with_passkey: Person, bob: User, root: User) -> None:
    row = passkey_row()
    for user in (bob, root):
        for key in (row.pk, 999_999, 10**30):
            for verb in ("rename", "remove"):
                answer = signed_in(user).post(f"{HOME}passkeys/{key}/{verb}/", {"name": "mine"})
                assert answer.status_code == 404, (user, key, verb)
    assert passkey_row().data["name"] == "Laptop"


def test_changes_need_the_csrf_token(with_passkey: Person) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(with_passkey.user)
    key = passkey_row().pk
    for path in (
        ADD,
        f"{ADD}options/",
        APP,
        f"{APP}remove/",
        CODES,
        CONFIRM,
        f"{CONFIRM}options/",
        f"{HOME}passkeys/{key}/remove/",
        f"{HOME}passkeys/{key}/rename/",
        "/sign-in/passkey/",
        "/sign-in/passkey/options/",
        "/sign-in/second-step/",
        "/sign-in/second-step/options/",
    ):
        assert client.post(path).status_code == 403, path
    assert passkey_row()


# --- what is made and shown ------------------------------------------------------------------------------------------


def test_the_first_factor_makes_recovery_codes_which_are_shown_once(alice: User) -> None:
    client = signed_in(alice)
    page = add_passkey(client, Device())
    made = codes_on(page.content.decode())
    assert len(set(made)) == 10 and all(re.fullmatch(r"\d{5}-\d{5}", code) for code in made)
    assert "no-store" in page["Cache-Control"]
    file = re.findall(r'href="data:text/plain;charset=utf-8,([^"]*)"', page.content.decode())[0]
    assert all(code in unquote(file) for code in made)
    assert set_up_app(client)[1] == [], "the second factor keeps them"
    shown = client.get(HOME).content.decode()
    assert "10 codes left" in shown and not any(code in shown for code in made)


def test_new_recovery_codes_replace_the_old_ones(with_app: Person) -> None:
    page = with_app.client.post(CODES).content.decode()
    made = codes_on(page)
    assert len(made) == 10 and not set(made) & set(with_app.codes)
    client = Client()
    enter_password(client)
    assert client.post("/sign-in/second-step/", {"code": with_app.codes[0]}).status_code == 200
    assert client.post("/sign-in/second-step/", {"code": made[0]}).status_code == 302


def test_without_a_second_factor_there_are_no_recovery_codes(alice: User) -> None:
    client = signed_in(alice)
    assert client.post(CODES)["Location"] == HOME and not Authenticator.objects.exists()


def test_the_last_second_factor_takes_the_recovery_codes_with_it(with_app: Person) -> None:
    add_passkey(with_app.client, Device())
    with_app.client.post(f"{APP}remove/")
    assert {one.type for one in Authenticator.objects.all()} == {"webauthn", "recovery_codes"}
    with_app.client.post(f"{HOME}passkeys/{passkey_row().pk}/remove/")
    assert not Authenticator.objects.exists()
    client = Client()
    assert enter_password(client)["Location"] == "/"


def test_a_passkey_is_renamed_and_shows_when_it_was_used(with_passkey: Person) -> None:
    key = passkey_row().pk
    hostile = '"><script>alert(1)</script>'
    assert with_passkey.client.post(f"{HOME}passkeys/{key}/rename/", {"name": hostile})["Location"] == HOME
    page = with_passkey.client.get(HOME).content.decode()
    assert "&lt;script&gt;" in page and "<script>alert" not in page and "never" in page
    for name in ("", "x" * 101):
        with_passkey.client.post(f"{HOME}passkeys/{key}/rename/", {"name": name})
    assert passkey_row().data["name"] == hostile


def test_the_app_is_no_second_factor_before_it_shows_a_right_code(alice: User) -> None:
    client = signed_in(alice)
    page = client.get(APP).content.decode()
    seed = re.findall(r'<code id="seed">([^<]+)</code>', page)[0]
    assert "<svg" in page and client.get(APP).content.decode().count(seed) == 1, "the same until it is set up"
    for code in ("", "000000", "x" * 41):
        assert client.post(APP, {"code": code}).status_code == 200
    assert not Authenticator.objects.exists() and enter_password(Client())["Location"] == "/"
    assert client.post(APP, {"code": code_of(seed)}).status_code == 200
    assert Authenticator.objects.filter(type="totp").count() == 1
    assert client.get(APP)["Location"] == HOME, "a second app would replace the first unseen"


def test_a_seed_that_somebody_else_began_to_set_up_in_this_browser_is_not_taken_over(alice: User, bob: User) -> None:
    client = signed_in(alice)
    client.get(APP)
    kept = client.session["app_set_up"]
    his = signed_in(bob)
    session = his.session
    session["app_set_up"] = kept
    session.save()
    his.get(APP)
    assert his.session["app_set_up"] != kept


def test_without_a_key_nothing_is_stored_and_the_page_says_why(alice: User, settings: Any) -> None:
    settings.ENCRYPTION_KEYS = []
    client = signed_in(alice)
    assert client.get(APP)["Location"] == HOME
    assert "TOOLHUB_ENCRYPTION_KEYS" in client.get(HOME).content.decode()
    page = add_passkey(client, Device())
    assert page.status_code == 200 and "TOOLHUB_ENCRYPTION_KEYS" in page.content.decode()
    assert not Authenticator.objects.exists()


# --- what is stored --------------------------------------------------------------------------------------------------


def read_all_tables() -> str:
    """Everything that a reader of the database sees, sessions unpacked."""
    rows = [json.dumps(list(model._base_manager.using("default").values()), default=str) for model in apps.get_models()]
    rows += [json.dumps(row.get_decoded()) for row in Session.objects.all()]
    return "\n".join(rows)


def test_the_database_holds_no_seed_and_no_code_in_clear(alice: User) -> None:
    client = signed_in(alice)
    page = client.get(APP).content.decode()
    seed = re.findall(r'<code id="seed">([^<]+)</code>', page)[0].replace(" ", "")
    waiting = read_all_tables()
    assert "app_set_up" in waiting and seed not in waiting, "nor before it is confirmed"
    code = code_of(seed, -1)
    recovery = codes_on(client.post(APP, {"code": code}).content.decode())
    step = Client()
    enter_password(step)
    step.post("/sign-in/second-step/", {"code": recovery[0]})
    found = read_all_tables()
    seed_of_codes = encryption.decrypt(
        Authenticator.objects.get(type="recovery_codes").data["seed"], f"second factor:recovery_codes:{alice.pk}"
    )
    for secret in (seed, seed_of_codes, code_of(seed), *recovery, *(one.replace("-", "") for one in recovery)):
        assert secret not in found
    assert base64.b64encode(seed.encode()).decode() not in found


@pytest.mark.parametrize("kind", ["totp", "recovery_codes"])
def test_a_seed_that_was_moved_to_another_account_is_worth_nothing_there(
    with_app: Person, bob: User, kind: str
) -> None:
    his_seed, his_codes = set_up_app(signed_in(bob))
    theirs = Authenticator.objects.get(user=bob, type=kind)
    Authenticator.objects.filter(user=with_app.user, type=kind).update(data=theirs.data)
    client = Client()
    enter_password(client)
    for code in (code_of(his_seed), his_codes[0]) if kind == "totp" else his_codes[:2]:
        answer = client.post("/sign-in/second-step/", {"code": code})
        assert answer.status_code == 200 and "This code is wrong" in answer.content.decode()
    his = Client()
    enter_password(his, "bob")
    assert his.post("/sign-in/second-step/", {"code": his_codes[5]}).status_code == 302, "where it belongs, it works"


def test_a_seed_of_one_kind_is_none_of_the_other(with_app: Person) -> None:
    seed = Authenticator.objects.get(type="totp").data["secret"]
    with pytest.raises(encryption.DecryptionError):
        encryption.decrypt(seed, f"second factor:recovery_codes:{with_app.user.pk}")


def test_changes_are_logged_with_the_name_and_without_seeds_and_keys(with_passkey: Person) -> None:
    key = passkey_row().pk
    set_up_app(with_passkey.client)
    with_passkey.client.post(f"{HOME}passkeys/{key}/rename/", {"name": "Key ring"})
    with_passkey.client.post(f"{HOME}passkeys/{key}/remove/")
    logged = list(Action.objects.filter(kind="second factor").order_by("link"))
    assert [(one.verb, json.loads(one.after or "{}").get("type")) for one in logged] == [
        ("created", "webauthn"),
        ("created", "recovery_codes"),
        ("created", "totp"),
        ("changed", None),
        ("deleted", None),
    ]
    assert {one.actor for one in logged} == {"alice"}
    assert (json.loads(logged[3].before), json.loads(logged[3].after)) == ({"name": "Laptop"}, {"name": "Key ring"})
    assert set(json.loads(logged[0].after)) == {"user_id", "type", "created_at", "name"}
    stored = [value for row in Authenticator.objects.all() for value in row.data.values() if isinstance(value, str)]
    assert stored and not any(value in one.before + one.after for value in stored for one in logged)


def test_using_a_second_factor_is_no_change_of_it(with_app: Person) -> None:
    before = Action.objects.filter(kind="second factor").count()
    client = Client()
    enter_password(client)
    client.post("/sign-in/second-step/", {"code": code_of(with_app.seed)})
    assert Action.objects.filter(kind="second factor").count() == before


def test_nothing_is_mailed(with_app: Person, mailoutbox: list[Any]) -> None:
    add_passkey(with_app.client, Device())
    with_app.client.post(f"{APP}remove/")
    assert mailoutbox == []


def test_the_proof_ends_after_ten_minutes(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    client = signed_in(alice)
    assert client.get(ADD).status_code == 200
    later = time.time() + sign_in.FRESH_SECONDS + 1
    monkeypatch.setattr(sign_in, "time", SimpleNamespace(time=lambda: later))
    assert client.get(ADD)["Location"].startswith(CONFIRM)
