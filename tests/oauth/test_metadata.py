"""The documents by which a client that was never configured here finds the sign-in."""

from __future__ import annotations

import pytest
from django.db import OperationalError
from django.test import Client

from tests.oauth.flow import ISSUER, RESOURCE
from toolhub.oauth import metadata, scopes

pytestmark = pytest.mark.django_db
PROTECTED = ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"]
SERVER = "/.well-known/oauth-authorization-server"
UNKNOWN = [
    "/.well-known/openid-configuration",
    "/.well-known/oauth-authorization-server/mcp",
    "/.well-known/oauth-protected-resource/other",
    "/.well-known/oauth-protected-resource/",
    "/.well-known/",
]


@pytest.mark.parametrize("path", PROTECTED)
def test_the_resource_says_which_server_signs_people_in_and_the_scope_that_suffices(path: str) -> None:
    answer = Client().get(path)
    assert answer.status_code == 200
    assert answer.json() == {
        "resource": RESOURCE,
        "authorization_servers": [ISSUER],
        "scopes_supported": ["mcp"],
        "bearer_methods_supported": ["header"],
        "resource_name": "toolhub",
    }


def test_the_server_says_where_and_how_clients_sign_people_in() -> None:
    found = Client().get(SERVER).json()
    assert found["issuer"] == ISSUER
    assert found["code_challenge_methods_supported"] == ["S256"]
    assert found["response_types_supported"] == ["code"]
    assert found["grant_types_supported"] == [
        "authorization_code",
        "refresh_token",
        "urn:ietf:params:oauth:grant-type:device_code",
    ]
    assert "none" in found["token_endpoint_auth_methods_supported"]
    assert found["authorization_response_iss_parameter_supported"] is True
    assert found["client_id_metadata_document_supported"] is True
    assert "offline_access" not in found["scopes_supported"]
    for name in (
        "authorization_endpoint",
        "token_endpoint",
        "revocation_endpoint",
        "registration_endpoint",
        "device_authorization_endpoint",
    ):
        assert Client().options(found[name].removeprefix(ISSUER)).status_code in {204, 405}, name


def test_a_server_at_which_nobody_registers_offers_no_registration(settings: object) -> None:
    settings.CLIENT_REGISTRATION = "nobody"  # type: ignore[attr-defined]
    found = Client().get(SERVER).json()
    assert "registration_endpoint" not in found
    assert found["client_id_metadata_document_supported"] is False


def test_a_server_that_reaches_no_address_outside_offers_registration_alone(settings: object) -> None:
    settings.CLIENT_DOCUMENTS = False  # type: ignore[attr-defined]
    found = Client().get(SERVER).json()
    assert found["registration_endpoint"] == f"{ISSUER}/oauth/register"
    assert found["client_id_metadata_document_supported"] is False


@pytest.mark.parametrize("path", [*PROTECTED, SERVER])
def test_the_host_of_a_request_changes_no_document(path: str) -> None:
    usual = Client().get(path).content
    forged = Client().get(path, HTTP_HOST="127.0.0.1:9", HTTP_X_FORWARDED_HOST="evil.example")
    assert forged.content == usual


@pytest.mark.parametrize("path", UNKNOWN)
def test_a_document_that_is_not_there_is_404_in_json(path: str) -> None:
    for answer in (Client().get(path), Client().post(path)):
        assert (answer.status_code, answer["Content-Type"]) == (404, "application/json")
        assert answer.json()["error"] == "not_found"


@pytest.mark.parametrize("path", [*PROTECTED, SERVER, "/oauth/token", "/oauth/revoke", "/oauth/register"])
def test_web_pages_of_any_origin_may_read_the_addresses_for_machines(path: str) -> None:
    preflight = Client().options(
        path, HTTP_ORIGIN="https://playground.example", HTTP_ACCESS_CONTROL_REQUEST_METHOD="POST"
    )
    assert preflight.status_code == 204
    assert preflight["Access-Control-Allow-Origin"] == "*"
    assert "Access-Control-Allow-Credentials" not in preflight
    assert "Content-Type" in preflight["Access-Control-Allow-Headers"]
    answer = Client().post(path) if path.startswith("/oauth") else Client().get(path)
    assert answer["Access-Control-Allow-Origin"] == "*"


@pytest.mark.parametrize(
    ("method", "path"),
    [("post", PROTECTED[1]), ("get", "/oauth/token"), ("put", "/oauth/register"), ("delete", SERVER)],
)
def test_another_method_is_405_in_json(method: str, path: str) -> None:
    answer = getattr(Client(), method)(path)
    assert (answer.status_code, answer["Content-Type"]) == (405, "application/json")
    assert "OPTIONS" in answer["Allow"]


def test_a_database_that_is_away_is_503_in_json_with_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object) -> dict[str, str]:
        raise OperationalError("away")

    monkeypatch.setattr(scopes.Scopes, "get_all_scopes", fail)
    answer = metadata.authorization_server(_get(SERVER))
    assert (answer.status_code, answer["Retry-After"], answer["Content-Type"]) == (503, "5", "application/json")


def _get(path: str) -> object:
    from django.test import RequestFactory

    return RequestFactory().get(path)


def test_the_write_scope_is_named_by_the_server_and_not_by_the_resource(settings: object) -> None:
    settings.WRITE_SCOPE = True  # type: ignore[attr-defined]
    assert Client().get(SERVER).json()["scopes_supported"] == ["mcp", "mcp:write"]
    assert Client().get(PROTECTED[0]).json()["scopes_supported"] == ["mcp"]
