"""Registration that is open to the internet: what is refused, what is answered, and what remains of it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client as Browser
from django.utils import timezone

from tests.oauth import flow
from toolhub.access.models import digest_of
from toolhub.oauth import registration
from toolhub.oauth.models import Client

pytestmark = pytest.mark.django_db
GOOD: dict[str, Any] = {"client_name": "Claude", "redirect_uris": ["https://claude.ai/callback"]}


def send(body: Any, address: str = "203.0.113.7", **headers: Any) -> Any:
    text = body if isinstance(body, bytes | str) else json.dumps(body)
    headers.setdefault("content_type", "application/json")
    return Browser(REMOTE_ADDR=address).post("/oauth/register", text, **headers)


@pytest.mark.parametrize(
    ("addresses", "why"),
    [
        (None, "1 to 10"),
        ([], "1 to 10"),
        ("https://a.example/cb", "1 to 10"),
        ([f"https://a.example/{number}" for number in range(11)], "1 to 10"),
        ([7], "absolute URI"),
        ([""], "absolute URI"),
        (["https://a.example/" + "x" * 2000], "absolute URI"),
        (["http://evil.example/cb"], "http is accepted for localhost"),
        (["http://127.0.0.1.evil.example/cb"], "http is accepted for localhost"),
        (["http://localhost@evil.example/cb"], "user name"),
        (["https://user:pass@a.example/cb"], "user name"),
        (["https://a.example/cb#part"], "fragment"),
        (["https://a.example/cb#"], "fragment"),
        (["https:///cb"], "no valid host"),
        (["https://*.example/cb"], "no valid host"),
        (["https://a.example:99999/cb"], "no valid URI"),
        (["https://a.example:x/cb"], "no valid URI"),
        (["https://[::1/cb"], "no valid URI"),
        (["javascript:alert(1)"], "not accepted"),
        (["data:text/html,x"], "not accepted"),
        (["file:///etc/passwd"], "not accepted"),
        (["myapp://callback"], "TOOLHUB_CLIENT_SCHEMES"),
        (["HTTPS://a.example/cb"], "lower case"),
        (["//a.example/cb"], "not accepted"),
        (["https://a.example/c b"], "absolute URI"),
        (["https://a.example/cb\n"], "absolute URI"),
        (["https://ä.example/cb"], "absolute URI"),
        (["https://a.example/cb", "http://evil.example/cb"], "http is accepted for localhost"),
    ],
)
def test_an_address_that_codes_should_not_be_sent_to_is_refused(addresses: object, why: str) -> None:
    answer = send({**GOOD, "redirect_uris": addresses})
    assert answer.status_code == 400
    assert answer.json()["error"] == "invalid_redirect_uri"
    assert why in answer.json()["error_description"]
    assert not Client.objects.exists()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"text"',
        b"\xff",
        b"[" * 60_000,
        {**GOOD, "client_name": 7},
        {**GOOD, "grant_types": ["client_credentials"]},
        {**GOOD, "grant_types": ["implicit"]},
        {**GOOD, "grant_types": ["password", "refresh_token"]},
        {**GOOD, "grant_types": "authorization_code"},
        {**GOOD, "response_types": ["token"]},
        {**GOOD, "response_types": 7},
        {**GOOD, "token_endpoint_auth_method": "private_key_jwt"},
        {**GOOD, "token_endpoint_auth_method": ["none"]},
        {**GOOD, "padding": "x" * 70_000},
    ],
)
def test_other_metadata_that_cannot_work_here_is_refused(body: object) -> None:
    answer = send(body)
    assert answer.status_code == 400
    assert answer.json()["error"] == "invalid_client_metadata"
    assert answer.json()["error_description"]
    assert not Client.objects.exists()


def test_a_body_that_is_not_json_by_its_type_is_refused() -> None:
    answer = send(GOOD, content_type="text/plain")
    assert answer.status_code == 400
    assert not Client.objects.exists()


@pytest.mark.parametrize("hosts", [[], ["other.example"], ["ai"]])
def test_only_listed_hosts_register_where_they_are_listed(hosts: list[str], settings: Any) -> None:
    settings.CLIENT_REGISTRATION, settings.CLIENT_HOSTS = "listed", hosts
    answer = send(GOOD)
    assert (answer.status_code, answer.json()["error"]) == (403, "access_denied")
    settings.CLIENT_HOSTS = ["claude.ai"]
    assert send(GOOD).status_code == 201
    two = send({**GOOD, "redirect_uris": ["https://claude.ai/callback", "http://localhost/callback"]})
    assert two.status_code == 403


def test_an_address_that_registers_too_often_waits_and_others_do_not(settings: Any) -> None:
    settings.REGISTRATIONS_RATE = "3/10h"
    assert [send(GOOD).status_code for _ in range(5)] == [201, 201, 201, 429, 429]
    refused = send(GOOD)
    assert int(refused["Retry-After"]) > 0
    assert refused["Access-Control-Allow-Origin"] == "*"
    assert send(GOOD, address="203.0.113.8").status_code == 201


def test_a_public_client_gets_everything_as_it_was_registered_and_no_secret() -> None:
    asked = {
        **GOOD,
        "token_endpoint_auth_method": "none",
        "grant_types": ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:jwt-bearer"],
        "scope": "mcp openid offline_access",
        "application_type": "web",
        "logo_uri": "https://claude.ai/logo.png",
    }
    answer = send(asked)
    made = answer.json()
    assert answer.status_code == 201
    assert made.pop("client_id")
    assert abs(made.pop("client_id_issued_at") - timezone.now().timestamp()) < 60
    assert made == {
        "client_name": "Claude",
        "redirect_uris": ["https://claude.ai/callback"],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "web",
        "scope": "mcp",
    }
    assert answer["Cache-Control"] == "no-store"


@pytest.mark.parametrize("method", [None, "client_secret_basic", "client_secret_post"])
def test_a_confidential_client_gets_its_secret_once_and_the_database_has_its_digest(method: str | None) -> None:
    made = send({**GOOD, "token_endpoint_auth_method": method} if method else GOOD).json()
    assert made["token_endpoint_auth_method"] == (method or "client_secret_basic")
    assert made["client_secret_expires_at"] == 0
    client = Client.objects.get(client_id=made["client_id"])
    assert client.client_secret == digest_of(made["client_secret"])
    assert client.client_type == "confidential"


def test_a_name_hides_nothing_and_is_one_short_line() -> None:
    made = send({**GOOD, "client_name": " Cla\u202eude\n\n" + "x" * 300 + "\x00"}).json()
    assert "\u202e" not in made["client_name"]
    assert "\n" not in made["client_name"]
    assert "\x00" not in made["client_name"]
    assert len(made["client_name"]) <= 100


def test_clients_of_the_own_computer_and_of_listed_applications_register() -> None:
    addresses = [
        "http://localhost:3000/callback",
        "http://127.0.0.1/callback",
        "http://[::1]:7/cb",
        "cursor://anysphere.cursor-retrieval/oauth/user-abc/callback",
        "https://[2001:db8::1]/cb",
    ]
    assert send({**GOOD, "redirect_uris": addresses}).json()["redirect_uris"] == addresses


def test_a_client_that_nobody_connects_disappears_after_a_day(alices: Browser) -> None:
    unused, used = flow.register(), flow.register()
    flow.connect(alices, used)
    kept = Client.objects.create(
        client_id="manual", client_type="public", authorization_grant_type="authorization-code"
    )
    Client.objects.update(created=timezone.now() - timedelta(hours=23))
    registration.remove_unused()
    assert Client.objects.filter(client_id=unused.client_id).exists()
    Client.objects.update(created=timezone.now() - timedelta(hours=25))
    registration.remove_unused()
    assert set(Client.objects.values_list("client_id", flat=True)) == {used.client_id, kept.client_id}


def test_who_fills_the_table_pushes_out_their_own_clients(alices: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    used, honest = flow.register(address="198.51.100.1"), flow.register(address="198.51.100.2")
    flow.connect(alices, used)
    mine = [flow.register(address="203.0.113.7").client_id for _ in range(4)]
    monkeypatch.setattr(registration, "MAX_UNUSED_CLIENTS", 5)
    monkeypatch.setattr(registration, "EVICTED", 2)
    refused = send(GOOD, address="203.0.113.8")
    assert (refused.status_code, refused["Retry-After"]) == (429, "60"), "everybody is still signing in"
    Client.objects.update(created=timezone.now() - timedelta(minutes=11))
    assert send(GOOD, address="203.0.113.8").status_code == 201
    left = set(Client.objects.values_list("client_id", flat=True))
    assert {used.client_id, honest.client_id, *mine[2:]} < left
    assert not set(mine[:2]) & left


def test_a_subscriber_with_many_networks_has_a_rate_too(settings: Any) -> None:
    settings.REGISTRATIONS_RATE = "1/10h"
    answers = [send(GOOD, address=f"2001:db8:7:{number:x}::1").status_code for number in range(12)]
    assert answers == [201] * 10 + [429] * 2
    assert send(GOOD, address="2001:db8:8::1").status_code == 201
