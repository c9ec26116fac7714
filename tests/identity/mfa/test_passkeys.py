"""Passkeys in place of the password: what is refused, and what begins a session."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from allauth.mfa.models import Authenticator
from django.test import Client
from fido2.cose import CoseKey
from fido2.webauthn import AttestationObject, AttestedCredentialData, AuthenticatorData

from audit.models import Action
from tests.identity.mfa.conftest import Person, signed_in
from tests.identity.mfa.device import (
    BOTH,
    FLAG,
    Device,
    add_passkey,
    encode,
    hash_of,
    is_signed_in,
    options_at,
    sign_in_with,
)
from toolhub.access import temporary_passwords
from toolhub.identity.mfa import passkeys, sign_in_pages

if TYPE_CHECKING:
    from django.contrib.auth.models import User

ADD = "/account/security/passkeys/add/"
WRONG: dict[str, dict[str, Any]] = {
    "another origin": {"origin": "https://evil.example"},
    "a domain below ours": {"origin": "http://evil.localhost:8000"},
    "another port": {"origin": "http://localhost:9000"},
    "another scheme": {"origin": "https://localhost:8000"},
    "another domain": {"domain": "evil.example"},
    "nobody verified": {"flags": FLAG.UP},
    "nobody present": {"flags": FLAG.UV},
}


def answers_like_a_wrong_one(client: Client, answer: Any) -> bool:
    return answer.status_code == 200 and "was not accepted" in answer.content.decode() and not is_signed_in(client)


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [*WRONG, "in a frame"])
def test_an_answer_that_was_made_for_another_page_or_without_the_person_is_refused(
    with_passkey: Person, how: str
) -> None:
    client = Client()
    changes = {"cross_origin": True} if how == "in a frame" else WRONG[how]
    assert answers_like_a_wrong_one(client, sign_in_with(client, with_passkey.passkey, **changes))
    assert sign_in_with(client, with_passkey.passkey).status_code == 302, "unchanged, it is right"


def test_without_local_passwords_only_a_superuser_signs_in_with_one(with_passkey: Person, settings: Any) -> None:
    settings.LOCAL_PASSWORDS = False
    client = Client()
    assert answers_like_a_wrong_one(client, sign_in_with(client, with_passkey.passkey))
    with_passkey.user.is_superuser = True
    with_passkey.user.save()
    assert sign_in_with(client, with_passkey.passkey).status_code == 302


def test_what_the_request_calls_this_server_counts_for_nothing(with_passkey: Person, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    client = Client(SERVER_NAME="evil.example")
    options = options_at(client, "/sign-in/passkey/options/")
    assert options["publicKey"]["rpId"] == "localhost"
    changes = {"origin": "http://evil.example", "domain": "evil.example"}
    assert answers_like_a_wrong_one(client, sign_in_with(client, with_passkey.passkey, **changes))


@pytest.mark.parametrize(
    "address, origin",
    [
        ("https://tools.example.com", "https://tools.example.com"),
        ("https://Tools.Example.com:443/", "https://tools.example.com"),
        ("https://tools.example.com:8443", "https://tools.example.com:8443"),
    ],
)
def test_the_origin_and_the_domain_are_those_of_the_public_address(
    with_passkey: Person, settings: Any, address: str, origin: str
) -> None:
    settings.PUBLIC_URL = address
    client, there = Client(), {"origin": origin, "domain": "tools.example.com"}
    assert options_at(client, "/sign-in/passkey/options/")["publicKey"]["rpId"] == "tools.example.com"
    assert answers_like_a_wrong_one(client, sign_in_with(client, with_passkey.passkey))
    wrong = {**there, "origin": "https://a.tools.example.com"}
    assert answers_like_a_wrong_one(client, sign_in_with(client, with_passkey.passkey, **wrong))
    assert sign_in_with(client, with_passkey.passkey, **there).status_code == 302


def test_an_answer_is_good_once_and_its_challenge_too(with_passkey: Person) -> None:
    client = Client()
    answer = with_passkey.passkey.get(options_at(client, "/sign-in/passkey/options/"))
    assert client.post("/sign-in/passkey/", {"credential": answer}).status_code == 302
    client.post("/sign-out/")
    for again in (client, Client()):
        assert answers_like_a_wrong_one(again, again.post("/sign-in/passkey/", {"credential": answer}))
        options_at(again, "/sign-in/passkey/options/")
        assert answers_like_a_wrong_one(again, again.post("/sign-in/passkey/", {"credential": answer}))


def test_a_wrong_answer_uses_the_challenge_up(with_passkey: Person) -> None:
    client = Client()
    options = options_at(client, "/sign-in/passkey/options/")
    wrong = with_passkey.passkey.get(options, origin="https://evil.example")
    assert answers_like_a_wrong_one(client, client.post("/sign-in/passkey/", {"credential": wrong}))
    right = with_passkey.passkey.get(options)
    assert answers_like_a_wrong_one(client, client.post("/sign-in/passkey/", {"credential": right}))


def test_a_challenge_lasts_five_minutes(with_passkey: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client()
    answer = with_passkey.passkey.get(options_at(client, "/sign-in/passkey/options/"))
    later = time.time() + passkeys.CHALLENGE_SECONDS + 1
    monkeypatch.setattr(passkeys, "time", SimpleNamespace(time=lambda: later))
    assert answers_like_a_wrong_one(client, client.post("/sign-in/passkey/", {"credential": answer}))


def test_an_inactive_account_an_unknown_passkey_and_an_unknown_account_read_the_same(
    with_passkey: Person,
) -> None:
    with_passkey.user.is_active = False
    with_passkey.user.save()
    unknown = Device()
    unknown.handle = with_passkey.passkey.handle
    nobody = Device()
    nobody.handle = b"zzzz"
    pages = set()
    for device in (with_passkey.passkey, unknown, nobody):
        client = Client()
        answer = sign_in_with(client, device)
        assert answers_like_a_wrong_one(client, answer)
        lines = answer.content.decode().splitlines()
        pages.add("\n".join(line for line in lines if "csrfmiddlewaretoken" not in line))
    assert len(pages) == 1


def test_a_passkey_signs_in_as_nobody_else(with_passkey: Person, bob: User) -> None:
    his = Device()
    add_passkey(signed_in(bob), his)
    client = Client()
    answer = sign_in_with(client, his, handle=with_passkey.passkey.handle)
    assert answers_like_a_wrong_one(client, answer)
    with_passkey.passkey.id = his.id
    assert answers_like_a_wrong_one(client, sign_in_with(client, with_passkey.passkey, handle=his.handle))


def test_a_removed_passkey_is_an_unknown_one(with_passkey: Person) -> None:
    row = Authenticator.objects.get(type="webauthn")
    with_passkey.client.post(f"/account/security/passkeys/{row.pk}/remove/")
    client = Client()
    assert answers_like_a_wrong_one(client, sign_in_with(client, with_passkey.passkey))


def test_a_counter_that_does_not_grow_is_that_of_a_copy(with_passkey: Person, caplog: pytest.LogCaptureFixture) -> None:
    assert sign_in_with(Client(), with_passkey.passkey).status_code == 302
    with_passkey.passkey.counter -= 1
    client = Client()
    assert answers_like_a_wrong_one(client, sign_in_with(client, with_passkey.passkey))
    assert "old counter" in caplog.text
    with_passkey.passkey.counter = -1
    assert answers_like_a_wrong_one(client, sign_in_with(client, with_passkey.passkey)), "0 after more is old, too"


def test_a_passkey_that_is_synchronised_has_no_counter_and_works_again_and_again(alice: User) -> None:
    device = Device(counting=False)
    add_passkey(signed_in(alice), device)
    assert [sign_in_with(Client(), device).status_code for _ in range(3)] == [302, 302, 302]


MALFORMED = [
    "",
    "null",
    "[]",
    '"text"',
    "{}",
    "[" * 5000,
    "\0",
    "9" * 5000,
    '{"id": "AA", "rawId": "AA", "type": "public-key", "response": {}}',
    '{"id": "AA", "rawId": "AA", "type": "public-key", "response": null}',
    '{"id": 1, "rawId": 1, "type": 1, "response": 1}',
    json.dumps({"id": "AA", "rawId": "AA", "type": "public-key"} | {
        "response": dict.fromkeys(("clientDataJSON", "authenticatorData", "signature", "userHandle"), "AA")
    }),
    "x" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(MALFORMED)))
def test_an_answer_that_is_none_is_refused(with_passkey: Person, number: int) -> None:
    client = Client()
    options_at(client, "/sign-in/passkey/options/")
    answer = client.post("/sign-in/passkey/", {"credential": MALFORMED[number]})
    assert answers_like_a_wrong_one(client, answer)
    options_at(with_passkey.client, f"{ADD}options/")
    page = with_passkey.client.post(ADD, {"name": "x", "credential": MALFORMED[number]})
    assert page.status_code == 200 and "was not added" in page.content.decode()


@pytest.mark.parametrize("name", ["clientDataJSON", "authenticatorData", "signature", "userHandle"])
@pytest.mark.parametrize("value", ["", "AA", None, 5, encode(b"{}"), encode(b"\xff" * 50), encode(b"[" * 9000)])
def test_an_answer_with_a_part_that_is_none_is_refused(with_passkey: Person, name: str, value: Any) -> None:
    client = Client()
    answer = json.loads(with_passkey.passkey.get(options_at(client, "/sign-in/passkey/options/")))
    answer["response"][name] = value
    sent = client.post("/sign-in/passkey/", {"credential": json.dumps(answer)})
    assert answers_like_a_wrong_one(client, sent)


def test_passkeys_that_are_not_accepted_count_for_the_address_and_are_logged(
    with_passkey: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_in_pages, "WRONG_RATE", "3/300d")
    client = Client()
    for _ in range(3):
        assert sign_in_with(client, with_passkey.passkey, origin="https://evil.example").status_code == 200
    answer = sign_in_with(client, with_passkey.passkey)
    assert answer.status_code == 429 and int(answer["Retry-After"]) > 0 and not is_signed_in(client)
    assert sign_in_with(Client(REMOTE_ADDR="198.18.78.1"), with_passkey.passkey).status_code == 302
    failed = Action.objects.filter(verb="failed to sign in")
    assert [one.target for one in failed] == ["alice"] * 3
    assert json.loads(failed[0].after) == {"address": "127.0.0.1", "with": "passkey"}


def test_challenges_are_bounded_for_an_address(monkeypatch: pytest.MonkeyPatch, db: None) -> None:
    monkeypatch.setattr(sign_in_pages, "CHALLENGES_RATE", "3/300d")
    statuses = [Client().post("/sign-in/passkey/options/").status_code for _ in range(4)]
    assert statuses[0] == 200 and statuses[-1] == 429


# --- right ones ------------------------------------------------------------------------------------------------------


def test_a_passkey_begins_a_session_and_is_logged(with_passkey: Person) -> None:
    client = Client()
    page = client.get("/sign-in/?next=/tokens/").content.decode()
    assert 'data-passkey="get"' in page and "Sign in with a passkey" in page
    answer = sign_in_with(client, with_passkey.passkey, "/tokens/")
    assert (answer.status_code, answer["Location"]) == (302, "/tokens/") and is_signed_in(client)
    assert client.session["signed_in_with"] == "passkey" and "toolhub_device" in client.cookies
    last = Action.objects.filter(verb="signed in").order_by("link").last()
    assert last is not None and json.loads(last.after)["with"] == "passkey"
    assert Authenticator.objects.get(type="webauthn").last_used_at is not None


def test_a_passkey_leads_to_no_other_site(with_passkey: Person) -> None:
    assert sign_in_with(Client(), with_passkey.passkey, "https://elsewhere.example/")["Location"] == "/"


def test_a_passkey_of_an_account_with_a_temporary_password_leads_to_ones_own(with_passkey: Person, root: User) -> None:
    signed_in(root).post(
        f"/admin/auth/user/{with_passkey.user.pk}/password/",
        {"password1": "given by another 1", "password2": "given by another 1", "usable_password": "true"},
    )
    client = Client()
    assert sign_in_with(client, with_passkey.passkey).status_code == 302
    assert client.session[temporary_passwords.SESSION_KEY] and client.get("/tools/")["Location"] == "/password/"


# --- adding ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", WRONG)
def test_a_passkey_for_another_page_or_without_the_person_is_not_added(alice: User, how: str) -> None:
    client = signed_in(alice)
    answer = add_passkey(client, Device(), **WRONG[how])
    assert answer.status_code == 200 and "was not added" in answer.content.decode()
    assert not Authenticator.objects.exists()


def test_a_challenge_of_somebody_else_or_of_a_sign_in_adds_nothing(alice: User, bob: User) -> None:
    hers, his = signed_in(alice), signed_in(bob)
    options_at(his, f"{ADD}options/")
    made = Device().create(options_at(hers, f"{ADD}options/"))
    assert "was not added" in his.post(ADD, {"name": "x", "credential": made}).content.decode()
    options = options_at(hers, f"{ADD}options/")
    options["publicKey"]["challenge"] = options_at(hers, "/account/security/confirm/options/")["publicKey"]["challenge"]
    assert "was not added" in hers.post(ADD, {"name": "x", "credential": Device().create(options)}).content.decode()
    assert not Authenticator.objects.exists()


def test_one_passkey_is_added_once(with_passkey: Person) -> None:
    options = options_at(with_passkey.client, f"{ADD}options/")
    assert [one["id"] for one in options["publicKey"]["excludeCredentials"]] == [encode(with_passkey.passkey.id)]
    assert "was not added" in add_passkey(with_passkey.client, with_passkey.passkey).content.decode()
    assert Authenticator.objects.filter(type="webauthn").count() == 1


@pytest.mark.parametrize("key", [{1: 3, 3: -65535, -1: b"\x9f" * 256, -2: b"\1\0\1"}, {1: 2, 3: -7777}])
def test_a_key_of_an_algorithm_that_is_not_offered_is_not_added(alice: User, key: dict[int, Any]) -> None:
    client = signed_in(alice)
    options = options_at(client, f"{ADD}options/")
    assert -65535 not in [one["alg"] for one in options["publicKey"]["pubKeyCredParams"]]
    device = Device()
    made = AttestedCredentialData.create(b"\0" * 16, device.id, CoseKey(key))
    data = AuthenticatorData.create(hash_of("localhost"), FLAG(BOTH | FLAG.AT), 0, made)
    answer = json.loads(device.create(options))
    answer["response"]["attestationObject"] = encode(AttestationObject.create("none", data, {}))
    assert "was not added" in client.post(ADD, {"name": "x", "credential": json.dumps(answer)}).content.decode()
    assert not Authenticator.objects.exists()


def test_a_passkey_needs_a_name_and_the_number_is_bounded(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    client = signed_in(alice)
    for name in ("", " ", "x" * 101):
        assert add_passkey(client, Device(), name).status_code == 200
    assert not Authenticator.objects.exists()
    monkeypatch.setattr(passkeys, "MAX_PASSKEYS", 2)
    for _ in range(3):
        add_passkey(client, Device())
    assert Authenticator.objects.filter(type="webauthn").count() == 2
