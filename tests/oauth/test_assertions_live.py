"""The official client with assertions of a company, against a hub behind nginx with TLS, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.auth import OAuthTokenError
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.client.streamable_http import streamable_http_client

from tests.identity.openid_stand_in import OpenID
from tests.oauth import people
from tests.oauth.conftest import SET_UPS
from tests.oauth.test_clients import Storage, list_apps, list_callers, use
from tests.oauth.test_clients import patient as patient
from tests.polling import wait_until_async
from tests.secure_hub import SecureHub

GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
SENDERS = 8
MAX_WAIT_SECONDS = 45.0
"""What must happen within five seconds, with room for a machine that does much else."""


@pytest.fixture(scope="module")
def company() -> Iterator[OpenID]:
    with OpenID() as running:
        yield running


@pytest.fixture(scope="module", params=SET_UPS, ids=list(SET_UPS))
def site(request: pytest.FixtureRequest, company: OpenID) -> Iterator[SecureHub]:
    options: dict[str, Any] = dict(SET_UPS[request.param])
    env = {
        "TOOLHUB_TOOL_MODULES": "tests.e2e.functions",
        "TOOLHUB_WRITE_SCOPE": "1",
        "TOOLHUB_SIGN_IN_NETWORKS": "127.0.0.1/32",
    }
    with SecureHub(seed=people.seed_read_only, env=env, **options) as running:
        running.hub.call(configure, issuer=company.url)
        yield running


def configure(issuer: str) -> None:
    """The company, which accepts assertions, and where alice and bob have signed in."""
    from datetime import timedelta

    from django.contrib.auth.models import User
    from django.utils import timezone

    from toolhub.identity.models import Identity, Provider

    row = Provider.objects.create(
        slug="company", name="The company", enabled=True, issuer=issuer, client_id="hub", accepts_assertions=True
    )
    for name in ("alice", "bob"):
        Identity.objects.create(
            user=User.objects.get(username=name),
            provider=row,
            issuer=issuer,
            subject=f"subject of {name}",
            last_sign_in=timezone.now(),
            valid_until=timezone.now() + timedelta(hours=23),
        )


def add_client() -> list[str]:
    """A client that the administrator added and listed at the company: its id and its secret."""
    from tests.oauth.test_assertions import add_client as add
    from toolhub.identity.models import Provider
    from toolhub.oauth.models import Client

    app = add()
    Provider.objects.get().assertion_clients.add(Client.objects.get(client_id=app.client_id))
    return [app.client_id, app.secret]


def set_active(name: str, active: bool) -> None:
    from django.contrib.auth.models import User

    user = User.objects.get(username=name)
    user.is_active = active
    user.save()


def set_accepting(accepting: bool) -> None:
    from toolhub.identity.models import Provider

    row = Provider.objects.get()
    row.accepts_assertions = accepting
    row.save()


class Employee:
    """Signed in to the company, whose client asks it for assertions."""

    def __init__(self, site: SecureHub, company: OpenID, name: str, **options: Any) -> None:
        self.site, self.company, self.name = site, company, name
        self.client_id, self.secret = site.hub.call(add_client)
        self.storage = Storage()
        self.options = options
        self.asked: list[tuple[str, str]] = []

    async def ask(self, audience: str, resource: str) -> str:
        self.asked.append((audience, resource))
        return self.company.assert_person(
            self.client_id, audience, resource=resource, scope="mcp mcp:write", sub=f"subject of {self.name}"
        )

    @asynccontextmanager
    async def connect(self, mode: str = "auto") -> AsyncIterator[Client]:
        provider = IdentityAssertionOAuthProvider(
            self.site.mcp_url,
            self.storage,
            self.client_id,
            self.secret,
            self.site.url,
            self.ask,
            **self.options,
        )
        trust = self.site.authority.trust()
        async with (
            httpx2.AsyncClient(auth=provider, verify=trust, timeout=60, trust_env=False) as http,
            Client(streamable_http_client(self.site.mcp_url, http_client=http), mode=mode) as client,
        ):
            yield client

    @property
    def token(self) -> str:
        assert self.storage.tokens is not None
        return self.storage.tokens.access_token

    async def find_status(self) -> int:
        """The status of the answer to a request with the token that the client has."""
        headers = {"Authorization": f"Bearer {self.token}", "Accept": "application/json, text/event-stream"}
        body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        async with httpx2.AsyncClient(verify=self.site.authority.trust(), timeout=60, trust_env=False) as http:
            answer = await http.post(self.site.mcp_url, json=body, headers=headers)
        return int(answer.status_code)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("method", ["client_secret_post", "client_secret_basic"])
async def test_a_client_uses_the_tools_of_a_person_who_was_never_asked(
    site: SecureHub, company: OpenID, mode: str, method: str
) -> None:
    alice = Employee(site, company, "alice", token_endpoint_auth_method=method)
    async with alice.connect(mode) as client:
        await use(client)
    assert alice.asked == [(site.url, site.mcp_url)]
    assert alice.storage.tokens is not None and alice.storage.tokens.refresh_token is None
    app = site.hub.call(list_apps)[-1]
    assert (app["user"], app["name"]) == ("alice", "Company chat")
    alice.storage = Storage()  # on another computer
    async with alice.connect(mode) as client:
        await use(client)
    assert len(alice.asked) == 2
    assert site.hub.call(list_apps)[-1]["id"] == app["id"]
    assert {caller for caller, _name in site.hub.call(list_callers)[-2:]} == {app["id"]}


async def test_a_client_gets_a_scope_that_the_company_asserts_when_a_call_needs_it(
    site: SecureHub, company: OpenID
) -> None:
    alice = Employee(site, company, "alice", scope="mcp")
    async with alice.connect() as client:
        await use(client)
        assert alice.storage.tokens is not None and alice.storage.tokens.scope == "mcp"
        result = await client.call_tool("echo", {"text": "hello"})
        assert result.content[0].text == "hello"  # type: ignore[union-attr]
    assert alice.storage.tokens.scope == "mcp mcp:write"


async def test_of_many_that_send_one_assertion_at_the_same_time_one_gets_a_token(
    site: SecureHub, company: OpenID
) -> None:
    alice = Employee(site, company, "alice")
    given = {
        "grant_type": GRANT,
        "assertion": await alice.ask(site.url, site.mcp_url),
        "client_id": alice.client_id,
        "client_secret": alice.secret,
    }

    async def exchange() -> httpx2.Response:
        async with httpx2.AsyncClient(verify=site.authority.trust(), timeout=60, trust_env=False) as http:
            return await http.post(f"{site.url}/oauth/token", data=given)

    answers = await asyncio.gather(*(exchange() for _ in range(SENDERS)))
    assert sorted(answer.status_code for answer in answers) == [200, *[400] * (SENDERS - 1)]
    assert {answer.json().get("error") for answer in answers} == {None, "invalid_grant"}


async def test_who_leaves_is_out_with_the_token_and_with_the_next_assertion(site: SecureHub, company: OpenID) -> None:
    bob = Employee(site, company, "bob")
    async with bob.connect() as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["echo"]
    assert await bob.find_status() != 401
    site.hub.call(set_active, name="bob", active=False)

    async def is_out() -> bool:
        return await bob.find_status() == 401

    await wait_until_async(is_out, timeout=MAX_WAIT_SECONDS)
    bob.storage = Storage()
    with pytest.RaisesGroup(OAuthTokenError, flatten_subgroups=True, allow_unwrapped=True):
        async with bob.connect():
            pass
    site.hub.call(set_active, name="bob", active=True)


async def test_when_the_company_may_no_longer_assert_its_tokens_end(site: SecureHub, company: OpenID) -> None:
    bob = Employee(site, company, "bob")
    async with bob.connect() as client:
        await client.list_tools()
    site.hub.call(set_accepting, accepting=False)

    async def is_out() -> bool:
        return await bob.find_status() == 401

    await wait_until_async(is_out, timeout=MAX_WAIT_SECONDS)
    site.hub.call(set_accepting, accepting=True)

    async def is_back() -> bool:
        return await bob.find_status() != 401

    await wait_until_async(is_back, timeout=MAX_WAIT_SECONDS)
