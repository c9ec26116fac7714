"""Requests in flight: how many there may be, how one is cancelled, and how all of them end with the server."""

from __future__ import annotations

import asyncio
import gc
import json
from typing import Any

import pytest
from django.contrib.auth.models import User

from audit.models import Call
from catalog.errors import CLIENT_GONE, SERVER_STOPPING
from catalog.models import Tool
from tests.polling import wait_until_async
from tests.server import functions
from tests.server.conftest import Client, handshake, modern, refresh_catalogue, run_in_database, server, text, token
from toolhub.hub import Hub
from toolhub.parts import parts
from toolhub.server import dispatch
from toolhub.server.request_rates import RequestRates
from toolhub.wire import jsonrpc
from toolhub.wire.meta import RETRY_AFTER

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("hub")]


@pytest.fixture
async def tools(alice: User, publish: Any) -> User:
    await run_in_database(publish, alice, "server_wait", "server_add")
    await refresh_catalogue()
    return alice


async def start_waiting(client: Client, label: str, **options: Any) -> asyncio.Task[dict[str, Any]]:
    functions.STARTED[label] = asyncio.Event()
    running = client.start("tools/call", {"name": "server_wait", "arguments": {"label": label}}, **options)
    await functions.STARTED[label].wait()
    return running


async def get_last_outcome() -> tuple[str, str]:
    call = await run_in_database(lambda: Call.objects.order_by("-started_at", "-id").first())
    return call.outcome, call.detail


async def test_nobody_cancels_the_request_of_somebody_else(tools: User, bob: User) -> None:
    client = await handshake(await token(tools))
    running = await start_waiting(client, "mine", id=5)
    other = await handshake(await token(tools))
    for stranger in (other, await handshake(await token(bob)), modern(await token(tools))):
        await stranger.tell("notifications/cancelled", {"requestId": 5})
    for wrong in ({}, {"requestId": None}, {"requestId": "5"}, {"requestId": 6}, {"requestId": True}):
        await client.tell("notifications/cancelled", wrong)
    assert not running.done()
    await client.tell("notifications/cancelled", {"requestId": 5, "reason": "enough"})
    with pytest.raises(dispatch.RequestCancelled):
        await running
    assert functions.ENDED["mine"] == "notifications/cancelled"
    assert await get_last_outcome() == ("cancelled", "notifications/cancelled")


async def test_a_client_that_disconnects_cancels_and_the_audit_log_says_so(tools: User) -> None:
    running = await start_waiting(modern(await token(tools)), "left")
    running.cancel(CLIENT_GONE)
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await get_last_outcome() == ("cancelled", CLIENT_GONE)
    assert server().requests.count_running() == 0


async def test_an_id_in_flight_is_not_taken_twice_on_a_connection(tools: User) -> None:
    client = await handshake(await token(tools), connection="ws-1")
    running = await start_waiting(client, "first", id=1)
    error = await client.error("tools/list", id=1)
    assert error["code"] == -32600
    assert "tools" in await client.result("tools/list", id=2)
    await client.tell("notifications/cancelled", {"requestId": 1})
    with pytest.raises(dispatch.RequestCancelled):
        await running
    assert "tools" in await client.result("tools/list", id=1)


async def test_too_many_calls_of_one_user_are_rejected_and_logged_and_others_go_on(
    tools: User, bob: User, settings: Any
) -> None:
    settings.MAX_CALLS_PER_USER = 1
    client = modern(await token(tools))
    running = await start_waiting(client, "one")
    message = await client.call("server_add", {"a": 1, "b": 1})
    assert "Busy" in message["error"]["message"]
    assert (await get_last_outcome())[0] == "refused"
    assert "tools" in await client.result("tools/list")
    assert "error" in await modern(await token(bob)).call("server_add", {"a": 1, "b": 1})
    running.cancel()
    await asyncio.wait([running])
    assert text(await client.call("server_add", {"a": 1, "b": 1})) in ("2", "2.0")


async def test_too_many_requests_on_one_connection_are_refused(tools: User, settings: Any) -> None:
    settings.MAX_REQUESTS_PER_SESSION = 1
    client = await handshake(await token(tools))
    running = await start_waiting(client, "scope", id=1)
    assert "Busy" in (await client.error("tools/list", id=2))["message"]
    assert "tools" in await (await handshake(await token(tools))).result("tools/list")
    running.cancel()
    await asyncio.wait([running])
    assert "tools" in await client.result("tools/list", id=2)


async def test_a_stop_lets_calls_finish_cancels_the_rest_and_takes_nothing_new(tools: User) -> None:
    client = modern(await token(tools))
    running = await start_waiting(client, "stop")
    stop = asyncio.create_task(parts.get(Hub).stop(0.3))
    await wait_until_async(lambda: not server().requests._accepting)
    assert "stopping" in (await client.error("tools/list"))["message"]
    answer = await running
    assert SERVER_STOPPING in answer["error"]["message"]
    await stop
    assert "stopping" in (await client.error("tools/list"))["message"]
    assert await get_last_outcome() == ("cancelled", SERVER_STOPPING)


@pytest.mark.parametrize("why", ["busy", "stopping"])
async def test_a_call_refused_while_busy_or_stopping_is_logged_with_its_redacted_arguments(
    tools: User, monkeypatch: pytest.MonkeyPatch, settings: Any, why: str
) -> None:
    schema = {
        "type": "object",
        "properties": {"label": {"type": "string"}, "colour": {"type": "string", "writeOnly": True}},
    }
    await run_in_database(lambda: Tool.objects.filter(name="server_wait").update(input_schema=schema))
    await refresh_catalogue()
    if why == "busy":
        settings.MAX_CALLS_PER_USER = 0
    else:
        monkeypatch.setattr(server().requests, "_accepting", False)
    client = modern(await token(tools))
    given = {"label": "x", "colour": "four two", "password": "hunter22"}
    for name in ("server_wait", "server_absent"):
        assert why in (await client.call(name, given))["error"]["message"].lower()
        call = await run_in_database(lambda: Call.objects.order_by("-started_at", "-id").first())
        assert (call.name, call.outcome, json.loads(call.arguments)["label"]) == (name, "refused", "x")
        assert "hunter22" not in call.arguments
        assert ("four two" in call.arguments) == (name == "server_absent")
    await client.error("resources/read", {"uri": "docs://x?access_token=hunter22"})
    call = await run_in_database(lambda: Call.objects.order_by("-started_at", "-id").first())
    assert call.method == "resources/read" and "hunter22" not in call.name
    await client.call("server_wait", {"label": "y" * 100_000})
    call = await run_in_database(lambda: Call.objects.order_by("-started_at", "-id").first())
    assert json.loads(call.arguments) == {"$redacted": "too large to record"}


async def test_a_stop_waits_for_a_call_that_finishes(tools: User) -> None:
    client = modern(await token(tools))
    running = [client.start("tools/call", {"name": "server_add", "arguments": {"a": n, "b": 1}}) for n in range(5)]
    await asyncio.sleep(0)
    assert await server().requests.drain(30) == 0
    assert ["result" in await one for one in running] == [True] * 5


async def test_unknown_methods_and_notifications_count_for_the_rate_of_requests(
    tools: User, bob: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, other = await handshake(await token(tools)), await handshake(await token(bob))
    settings.REQUESTS_RATE = "1/h"
    server().rates = RequestRates()
    published: list[Any] = []

    async def publish(kind: str, payload: Any) -> None:
        published.append((kind, payload))

    monkeypatch.setattr(server().requests._bus, "publish", publish)
    for number in range(3):
        await client.tell("notifications/cancelled", {"requestId": number})
        await other.send("no/such/method")
    assert len(published) == 1, "the others are dropped"
    assert (await other.error("no/such/method"))["data"][RETRY_AFTER] > 0
    assert (await other.error("tools/list"))["data"][RETRY_AFTER] > 0
    assert server().refusals.counts["requests"] >= 4


@pytest.mark.parametrize("why", ["unknown", "busy", "flood"])
async def test_a_refused_request_is_freed_with_its_answer(tools: User, settings: Any, why: str) -> None:
    client = modern(await token(tools))
    if why == "busy":
        settings.MAX_CALLS_PER_USER = 0
    elif why == "flood":
        settings.REQUESTS_RATE = "1/h"
        server().rates = RequestRates()
    method, params = ("tools/list", {}) if why == "flood" else ("tools/call", {"name": "nothing", "arguments": {}})
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for _ in range(20):
            await client.send(method, params)
        gc.collect()
        assert not [found for found in gc.garbage if isinstance(found, jsonrpc.Request)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
