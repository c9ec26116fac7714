"""Official clients that were never configured here, against a hub behind nginx with TLS, on one worker and on two."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from mcp.client import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from tests.oauth import people
from tests.oauth.people import Callback
from tests.secure_hub import SecureHub

SCOPES = ("mcp", "mcp mcp:write")


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that takes longer than this to answer would be taken for one that knows no discovery."""
    monkeypatch.setattr("mcp.client.session.DISCOVER_TIMEOUT_SECONDS", 120.0)


class Storage:
    """What the client keeps."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Person:
    """Opens the browser when the client asks for it."""

    def __init__(self, site: SecureHub, name: str = "alice") -> None:
        self.site, self.name = site, name
        self.asked = 0
        self.answers: list[dict[str, str]] = []
        self.provider: OAuthClientProvider

    async def open(self, url: str) -> None:
        self.asked += 1
        address = await asyncio.to_thread(people.answer, url, self.site.authority.trust(), self.name)
        self.answers.append({name: values[0] for name, values in parse_qs(urlsplit(address).query).items()})

    async def wait(self) -> AuthorizationCodeResult:
        found = self.answers[-1]
        return AuthorizationCodeResult(code=found["code"], state=found.get("state"), iss=found.get("iss"))


@asynccontextmanager
async def connect(
    site: SecureHub, person: Person, storage: Storage, callback: Callback, mode: str = "auto", **options: Any
) -> AsyncIterator[Client]:
    metadata = OAuthClientMetadata(
        client_name="Python SDK", redirect_uris=[AnyUrl(callback.url)], token_endpoint_auth_method="none"
    )
    provider = OAuthClientProvider(site.mcp_url, metadata, storage, person.open, person.wait, **options)
    person.provider = provider
    async with (
        httpx2.AsyncClient(auth=provider, verify=site.authority.trust(), timeout=60, trust_env=False) as http,
        Client(streamable_http_client(site.mcp_url, http_client=http), mode=mode) as client,
    ):
        yield client


async def use(client: Client) -> None:
    assert "add" in [tool.name for tool in (await client.list_tools()).tools]
    result = await client.call_tool("add", {"a": 1, "b": 2})
    assert result.content[0].text == "3"  # type: ignore[union-attr]


def list_apps() -> list[dict[str, Any]]:
    """The connections in the hub's database."""
    from toolhub.oauth.models import ConnectedApp

    return [
        {
            "user": app.user.username,
            "name": str(app),
            "host": app.client.document_host,
            "revoked": app.revoked is not None,
            "id": app.credential_id,
        }
        for app in ConnectedApp.objects.select_related("user", "client").order_by("pk")
    ]


def list_callers() -> list[list[str]]:
    from audit.models import Call

    rows = Call.objects.filter(credential_id__startswith="app:").order_by("id").values_list("credential_id", "username")
    return [list(row) for row in rows]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_registers_signs_a_person_in_and_uses_their_tools(
    site: SecureHub, callback: Callback, mode: str
) -> None:
    person, storage = Person(site), Storage()
    async with connect(site, person, storage, callback, mode) as client:
        await use(client)
    assert person.asked == 1
    assert storage.tokens is not None and storage.tokens.refresh_token
    assert person.answers[0]["iss"] == site.url
    async with connect(site, person, storage, callback, mode) as client:
        await use(client)
    assert person.asked == 1, "what it kept suffices"
    newest = site.hub.call(list_apps)[-1]
    assert (newest["user"], newest["name"], newest["host"]) == ("alice", "Python SDK", "")


async def test_a_client_refreshes_by_itself_and_stays_the_same_connection(site: SecureHub, callback: Callback) -> None:
    person, storage = Person(site), Storage()
    async with connect(site, person, storage, callback) as client:
        await use(client)
        first = storage.tokens
        app = site.hub.call(list_apps)[-1]["id"]
        # As an hour later, by the client's clock.
        person.provider.context.token_expiry_time = time.time() - 1
        await use(client)
        await use(client)
    assert person.asked == 1
    assert first is not None and storage.tokens is not None
    assert storage.tokens.refresh_token != first.refresh_token
    assert {caller for caller, _name in site.hub.call(list_callers)[-2:]} == {app}
    assert site.hub.call(list_apps)[-1]["id"] == app


async def test_a_client_with_a_document_needs_no_registration(site: SecureHub, callback: Callback) -> None:
    person, storage = Person(site, "bob"), Storage()
    url = site.documents.describe(f"/{time.monotonic_ns()}.json", callback.url)
    async with connect(site, person, storage, callback, client_metadata_url=url) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["echo"]
    newest = site.hub.call(list_apps)[-1]
    assert (newest["user"], newest["name"], newest["host"]) == ("bob", "Documented client", urlsplit(url).netloc)
    assert storage.client is not None and storage.client.client_id == url


async def test_two_processes_of_a_client_refresh_at_the_same_time(site: SecureHub, callback: Callback) -> None:
    person, storage = Person(site), Storage()
    async with connect(site, person, storage, callback) as client:
        await use(client)
    assert storage.tokens is not None and storage.client is not None
    given = {
        "grant_type": "refresh_token",
        "refresh_token": storage.tokens.refresh_token,
        "client_id": storage.client.client_id,
    }

    async def refresh() -> httpx2.Response:
        async with httpx2.AsyncClient(verify=site.authority.trust(), timeout=60, trust_env=False) as http:
            return await http.post(f"{site.url}/oauth/token", data=given)

    answers = await asyncio.gather(*(refresh() for _ in range(8)))
    assert [answer.status_code for answer in answers] == [200] * 8
    assert len({answer.json()["refresh_token"] for answer in answers}) == 1
    storage.tokens = OAuthToken.model_validate(answers[0].json())
    async with connect(site, person, storage, callback) as client:
        await use(client)
    assert person.asked == 1
    assert not site.hub.call(list_apps)[-1]["revoked"]


async def test_a_client_asks_for_more_when_a_call_needs_it(site: SecureHub, callback: Callback) -> None:
    person, storage = Person(site), Storage()
    async with connect(site, person, storage, callback) as client:
        await use(client)
        assert storage.tokens is not None and storage.tokens.scope == SCOPES[0]
        result = await client.call_tool("echo", {"text": "hello"})
        assert result.content[0].text == "hello"  # type: ignore[union-attr]
    assert person.asked == 2
    assert storage.tokens.scope == SCOPES[1]
