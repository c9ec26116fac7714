"""Behind a trusted proxy: one anonymous sender locks nobody else out, and every page and log has the client's address.

The test is the proxy: its connections come from 127.0.0.1, and it appends an address to X-Forwarded-For as one would.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from tests.client import HttpClient, WebSocketClient
from tests.polling import wait_until_async
from tests.real_servers import Hub

ATTACKER, ALICE, BOB = "198.51.100.66", "203.0.113.5", "2001:db8:1:2::b0b"
PASSWORD = "correct horse battery"
HOST = "tools.example.com"
REVISION = "2025-11-25"
PER_ADDRESS = 5


def seed() -> dict[str, str]:
    from django.contrib.auth.models import User

    from tests.e2e.seed import create_cast, grant_tool

    tokens = create_cast()
    for user in User.objects.all():
        user.set_password(PASSWORD)
        user.save()
    grant_tool("echo", ["alice"], "calculate_sum")
    return tokens


def list_addresses() -> list[list[str]]:
    """User and address of every call and of every sign-in, and of every failed one."""
    from audit.models import Action, Call

    calls = [[call.transport, call.username, call.address] for call in Call.objects.filter(method="tools/call")]
    signed = Action.objects.filter(kind="session").order_by("id")
    return calls + [[row.verb, row.target, json.loads(row.after)["address"]] for row in signed]


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    env = {
        "TOOLHUB_TRUSTED_PROXIES": "127.0.0.1,10.0.0.0/8",
        "TOOLHUB_PUBLIC_URL": f"https://{HOST}",
        "TOOLHUB_BAD_TOKENS_RATE": "3/10h",
        "TOOLHUB_MAX_CONNECTIONS_PER_ADDRESS": str(PER_ADDRESS),
    }
    with Hub(env=env, seed=seed) as running:
        yield running


def forwarded(address: str, spoofed: str = "", **more: str) -> dict[str, str]:
    """What the proxy sends on: what the client claimed, then the address that it really has."""
    said = f"{spoofed}, {address}" if spoofed else address
    headers = {"X-Forwarded-For": said, "X-Forwarded-Proto": "https", "X-Forwarded-Host": HOST}
    return {**headers, **{name.replace("_", "-"): value for name, value in more.items()}}


def use_token(hub: Hub, token: str, headers: dict[str, str]) -> httpx2.Response:
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    sent = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream", **headers}
    return httpx2.post(hub.mcp_url, json=body, headers=sent)


def sign_in(hub: Hub, name: str, password: str, headers: dict[str, str], device: str = "") -> httpx2.Response:
    with httpx2.Client(base_url=hub.url, headers=headers) as browser:
        page = browser.get("/sign-in/")
        found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
        assert found is not None, page.text
        # The cookie is Secure and the connection of the test is not, so the test carries it.
        cookies = f"toolhub_csrf={page.cookies['toolhub_csrf']}" + (f"; toolhub_device={device}" if device else "")
        sent = {"Cookie": cookies, "Origin": f"https://{HOST}"}
        data = {"username": name, "password": password, "csrfmiddlewaretoken": found[1]}
        return browser.post("/sign-in/", data=data, headers=sent)


def test_invalid_tokens_of_one_client_lock_no_other_out(hub: Hub) -> None:
    statuses = [use_token(hub, "thp_" + "x" * 43, forwarded(ATTACKER, f"10.9.9.{n}")).status_code for n in range(5)]
    assert statuses == [401, 401, 401, 429, 429], "what it claims on the left changes nothing"
    assert use_token(hub, "thp_" + "y" * 43, forwarded(ALICE)).status_code == 401
    assert use_token(hub, hub.seeded["alice"], forwarded(ALICE)).status_code != 429
    assert use_token(hub, hub.seeded["bob"], forwarded(ATTACKER)).status_code not in (401, 429), "a valid token passes"


def test_wrong_passwords_of_one_client_lock_no_other_out(hub: Hub) -> None:
    for number in range(10):
        answer = sign_in(hub, "alice", "wrong", forwarded(ATTACKER, f"203.0.113.{number}"))
        assert answer.status_code == 200
    refused = sign_in(hub, "alice", PASSWORD, forwarded(ATTACKER))
    assert refused.status_code == 429 and 0 < int(refused.headers["Retry-After"]) <= 600
    assert "Too many failed attempts" in refused.text
    welcome = sign_in(hub, "alice", PASSWORD, forwarded(ALICE))
    assert welcome.status_code == 302
    cookie = next(line for line in welcome.headers.get_list("set-cookie") if line.startswith("toolhub_device="))
    assert {"HttpOnly", "SameSite=Strict", "Secure"} <= {part.strip() for part in cookie.split(";")}
    # The browser of alice gets in even from the address that is locked out.
    device = cookie.partition("=")[2].partition(";")[0]
    assert sign_in(hub, "alice", PASSWORD, forwarded(ATTACKER), device).status_code == 302
    assert "Strict-Transport-Security" in welcome.headers, "the proxy said https"
    rows = hub.call(list_addresses)
    assert ["failed to sign in", "alice", ATTACKER] in rows and ["signed in", "alice", ALICE] in rows
    assert not any(address == "127.0.0.1" or address.startswith("203.0.113.9") for _what, _who, address in rows)


async def test_calls_over_http_and_websocket_are_logged_with_the_address_of_the_client(hub: Hub) -> None:
    chain = forwarded(BOB, "1.2.3.4") | {"X-Forwarded-For": f"1.2.3.4, [{BOB}]:4711, 10.0.0.3"}
    over_http = HttpClient(hub.mcp_url, hub.seeded["alice"], REVISION)
    over_http.http.headers.update(chain)
    for client in (over_http, WebSocketClient(hub.ws_url, hub.seeded["alice"], REVISION, headers=chain)):
        async with client:
            await client.call("echo", {"a": 1, "b": 2})
    rows = await asyncio.to_thread(hub.call, list_addresses)
    assert sorted(row for row in rows if row[0] in ("http", "websocket")) == [
        ["http", "alice", BOB],
        ["websocket", "alice", BOB],
    ]


def test_a_host_that_is_not_ours_is_rejected_from_a_proxy_too(hub: Hub) -> None:
    headers = forwarded(ALICE, X_Forwarded_Host="evil.example")
    assert use_token(hub, hub.seeded["alice"], headers).status_code == 400


def test_without_trusted_proxies_nobody_chooses_an_address_or_a_scheme() -> None:
    env = {"TOOLHUB_PUBLIC_URL": f"https://{HOST}", "TOOLHUB_BAD_TOKENS_RATE": "3/10h"}
    with Hub(env=env, seed=seed) as hub:
        statuses = []
        for number in range(5):
            headers = forwarded(f"198.51.100.{number}", Host=HOST, Forwarded=f"for=198.51.100.{number}")
            statuses.append(use_token(hub, "thp_" + "x" * 43, headers).status_code)
        assert statuses == [401, 401, 401, 429, 429]
        page = httpx2.get(f"{hub.url}/sign-in/", headers=forwarded(ALICE, Host=HOST))
        assert "Strict-Transport-Security" not in page.headers


async def test_a_client_counts_by_its_own_address_and_the_proxy_does_not(hub: Hub) -> None:
    """Each WebSocket is a connection of the proxy; the sixth of one client is closed, and places are given back."""

    def connect_as(address: str) -> Any:
        headers = {"Authorization": f"Bearer {hub.seeded['alice']}", **forwarded(address)}
        return connect(hub.ws_url, subprotocols=[Subprotocol("mcp")], additional_headers=headers, proxy=None)

    async with contextlib.AsyncExitStack() as stack:
        for address in [ALICE] * PER_ADDRESS + [BOB] * 3:
            await stack.enter_async_context(connect_as(address))
        with pytest.raises(InvalidStatus) as late:
            await stack.enter_async_context(connect_as(ALICE))
        assert late.value.response.status_code == 503
        assert b"5 requests and WebSockets in progress" in late.value.response.body
        refused = httpx2.get(f"{hub.url}/sign-in/", headers=forwarded(ALICE))
        assert refused.status_code == 503 and refused.headers["retry-after"]
        assert httpx2.get(f"{hub.url}/healthz", headers=forwarded(ALICE)).status_code == 200
        assert httpx2.get(f"{hub.url}/sign-in/", headers=forwarded(BOB)).status_code == 200

    def is_served() -> bool:
        return httpx2.get(f"{hub.url}/sign-in/", headers=forwarded(ALICE)).status_code == 200

    await wait_until_async(is_served)
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(PER_ADDRESS):
            await stack.enter_async_context(connect_as(ALICE))
