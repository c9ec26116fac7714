"""Two workers: what one of them runs shows, and ends, on a page that is connected to the other."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx2
import pytest
from websockets.sync.client import ClientConnection, connect

from tests.browser import seed
from tests.polling import wait_until
from tests.real_servers import Hub
from toolhub.access.call_pages import CANCEL_SECONDS

pytestmark = [pytest.mark.postgres, pytest.mark.redis]
META = "io.modelcontextprotocol/"
HEADERS = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
}


def callers() -> dict[str, str]:
    """alice with a token, and sessions of her and of an auditor as browsers would have them."""
    from django.conf import settings
    from django.contrib.auth.models import Group, User
    from django.test import Client

    seed.seed_callers()
    auditor = User.objects.create_user("auditor", is_staff=True)
    auditor.groups.add(Group.objects.get(name="auditor"))

    def sign_in(user: User) -> str:
        browser = Client()
        browser.force_login(user)
        return browser.cookies[settings.SESSION_COOKIE_NAME].value

    alice = User.objects.get(username="alice")
    return {"token": seed.token("alice"), "session": sign_in(alice), "auditor": sign_in(auditor)}


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(workers=2, postgres=True, redis=True, seed=callers) as hub:
        yield hub


def page(hub: Hub, stack: ExitStack, *topics: dict[str, str], who: str = "session") -> ClientConnection:
    headers = {"Cookie": f"toolhub_session={hub.seeded[who]}", "Origin": hub.url}
    address = f"{hub.url.replace('http', 'ws')}/ws/live"
    socket: ClientConnection = stack.enter_context(
        connect(address, additional_headers=headers, open_timeout=60, ping_timeout=60)
    )
    for topic in topics:
        socket.send(json.dumps(topic))
    return socket


def next_message(socket: ClientConnection, **like: Any) -> dict[str, Any]:
    while True:
        message: dict[str, Any] = json.loads(socket.recv(timeout=60))
        if all(message.get(name) == value for name, value in like.items()):
            return message


def request(hub: Hub, http: httpx2.Client, method: str, **params: Any) -> httpx2.Response:
    envelope = {
        f"{META}protocolVersion": "2026-07-28",
        f"{META}clientInfo": {"name": "test", "version": "1"},
        f"{META}clientCapabilities": {},
    }
    headers = {**HEADERS, "Authorization": f"Bearer {hub.seeded['token']}", "Mcp-Method": method}
    if "name" in params:
        headers["Mcp-Name"] = params["name"]
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": envelope, **params}}
    return http.post(hub.mcp_url, headers=headers, json=body)


def test_a_page_of_one_worker_follows_and_cancels_a_call_of_the_other(hub: Hub) -> None:
    with ExitStack() as stack:
        cookies = {"toolhub_session": hub.seeded["session"]}
        browser = stack.enter_context(httpx2.Client(base_url=hub.url, cookies=cookies, timeout=60))
        http = stack.enter_context(httpx2.Client(timeout=120))
        with hub.pin_to_worker(1):
            socket = page(hub, stack, {"watch": "calls"})
            next_message(socket, topic="calls", id=None)
            browser.get("/connect/")
        with hub.pin_to_worker(0):
            http.get(f"{hub.url}/healthz")
        arguments = {"seconds": 300, "steps": 300}
        caller = threading.Thread(
            target=request, args=(hub, http, "tools/call"), kwargs={"name": "long_task", "arguments": arguments}
        )
        caller.start()
        began = next_message(socket, topic="calls", name="long_task", outcome=None)
        told = next_message(socket, topic="calls", id=began["id"])
        while told["progress"] is None:
            told = next_message(socket, topic="calls", id=began["id"])
        assert told["progress"]["total"] == 300
        headers = {"X-CSRFToken": browser.cookies["toolhub_csrf"], "Accept": "application/json"}
        pressed = time.monotonic()
        state = browser.post(f"/calls/{began['id']}/cancel/", headers=headers).json()["state"]
        # A slow machine is told that the call has not ended yet: what follows shows that it does.
        assert state == "cancelled" or (state == "asked" and time.monotonic() - pressed >= CANCEL_SECONDS)
        next_message(socket, topic="calls", id=began["id"], outcome="cancelled")
        caller.join(60)
        assert not caller.is_alive()


def test_a_page_of_one_worker_sees_a_client_connect_to_the_other(hub: Hub) -> None:
    with ExitStack() as stack:
        http = stack.enter_context(httpx2.Client(timeout=60))
        with hub.pin_to_worker(1):
            socket = page(hub, stack, {"watch": "calls"}, {"watch": "connect"})
            next_message(socket, topic="calls", id=None)
        with hub.pin_to_worker(0):
            http.get(f"{hub.url}/healthz")

        def listed() -> bool:
            # What the page looks at reaches the other worker as news: until then it has nothing to tell.
            assert request(hub, http, "tools/list").status_code == 200
            try:
                message = json.loads(socket.recv(timeout=0.5))
            except TimeoutError:
                return False
            return bool(message["topic"] == "connect" and message["step"] in {"revision", "tools"})

        assert wait_until(listed, what="news of the client")


@pytest.mark.parametrize("with_redis", [True, False], ids=["with Redis", "without Redis"])
def test_an_auditor_at_one_worker_is_told_of_a_call_at_the_other(hub: Hub, with_redis: bool) -> None:
    assert hub.redis is not None
    with ExitStack() as stack:
        http = stack.enter_context(httpx2.Client(timeout=120))
        with hub.pin_to_worker(1):
            socket = page(hub, stack, {"watch": "all_calls"}, who="auditor")
            assert json.loads(socket.recv(timeout=60)) == {"topic": "all_calls"}
        with hub.pin_to_worker(0):
            http.get(f"{hub.url}/healthz")
        if not with_redis:
            hub.redis.stop()
            stack.callback(hub.redis.start)
        answer = request(hub, http, "tools/call", name="calculate_sum", arguments={"a": 1, "b": 2})
        assert answer.status_code == 200
        assert json.loads(socket.recv(timeout=60)) == {"topic": "all_calls"}
