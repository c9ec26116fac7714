"""How a server ends, and what is left: killed, stopped, without Redis, with readers that do not read."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from tests.client import HttpClient, RpcError, WebSocketClient
from tests.e2e import seed
from tests.polling import wait_until, wait_until_async
from tests.real_servers import Hub

MODERN = "2026-07-28"
ENV = {"TOOLHUB_TOOL_MODULES": "tests.e2e.functions"}


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub(env={**ENV, "TOOLHUB_STOP_SECONDS": "20"}, seed=seed.seed_examples) as running:
        yield running


async def begin(client: HttpClient, folder: Path, seconds: float) -> asyncio.Task[Any]:
    """A call that is running when this returns."""
    started = folder / f"started-{seconds}"
    task = client.background(client.text("wait", {"seconds": seconds, "started": str(started)}))
    await wait_until_async(started.exists)
    return task


async def test_a_call_of_a_killed_server_becomes_unknown_after_the_restart(hub: Hub, tmp_path: Path) -> None:
    client = HttpClient(hub.mcp_url, hub.seeded["alice"], MODERN)
    await begin(client, tmp_path, 100)
    assert hub.call(seed.count_calls, name="wait", outcome="running") == 1
    hub.kill()
    await client._cancel_background()
    await client.http.aclose()
    hub.start()
    wait_until(lambda: hub.call(seed.count_calls, name="wait", outcome="unknown") == 1, 60)
    async with HttpClient(hub.mcp_url, hub.seeded["alice"], MODERN) as again:
        assert await again.text("add", {"a": 1, "b": 2}) == "3"


async def test_a_stopping_server_lets_calls_finish_and_ends_open_streams(hub: Hub, tmp_path: Path) -> None:
    assert hub.process is not None
    client = HttpClient(hub.mcp_url, hub.seeded["alice"], MODERN)
    subscription = await client.subscribe(toolsListChanged=True)
    session = HttpClient(hub.mcp_url, hub.seeded["alice"], "2025-11-25")
    await session.initialize()
    await session.listen()
    async with WebSocketClient(hub.ws_url, hub.seeded["alice"], "2025-11-25") as socket:
        call = await begin(client, tmp_path, 2)
        over_socket = asyncio.ensure_future(socket.text("wait", {"seconds": 2, "started": str(tmp_path / "ws")}))
        await wait_until_async((tmp_path / "ws").exists)
        hub.process.send_signal(signal.SIGTERM)
        assert (await subscription)["resultType"] == "complete"
        await wait_until_async(lambda: not session._background)
        assert await call == "slept 2"
        assert await over_socket == "slept 2"
        assert await socket.closed() == 1001
    assert await asyncio.to_thread(hub.process.wait, 60) == 0
    assert hub.call(seed.count_calls, name="wait", outcome="ok") == 2
    for one in (client, session):
        await one._cancel_background()
        await one.http.aclose()


async def test_calls_that_do_not_finish_in_time_are_cancelled_and_logged(tmp_path: Path) -> None:
    with Hub(env={**ENV, "TOOLHUB_STOP_SECONDS": "1"}, seed=seed.seed_examples) as hub:
        client = HttpClient(hub.mcp_url, hub.seeded["alice"], MODERN)
        call = await begin(client, tmp_path, 25)
        assert await asyncio.to_thread(hub.stop) == 0
        with pytest.raises(RpcError, match="stopping"):
            await call
        client._failures.clear()
        await client.http.aclose()
        assert hub.call(seed.count_calls, name="wait", outcome="cancelled") == 1


@pytest.mark.redis
async def test_without_redis_calls_go_on_are_logged_and_nobody_sees_more(tmp_path: Path) -> None:
    with Hub(env=ENV, redis=True, seed=seed.seed_examples) as hub:
        assert hub.redis is not None
        async with (
            HttpClient(hub.mcp_url, hub.seeded["alice"], "2025-11-25") as session,
            HttpClient(hub.mcp_url, hub.seeded["alice"], MODERN) as modern,
            HttpClient(hub.mcp_url, hub.seeded["bob"], MODERN) as bob,
        ):
            done = 0

            async def load(rounds: int) -> None:
                nonlocal done
                for _ in range(rounds):
                    for client in (session, modern):
                        assert await client.text("add", {"a": 1, "b": 2}) == "3"
                        done += 1
                    assert set(await bob.tools()) <= {"echo", "late"}

            await load(5)
            await asyncio.to_thread(hub.redis.stop)
            await load(20)
            await wait_until_async(lambda: "Redis" in hub.log(), what="the log says what degraded")
            async with HttpClient(hub.mcp_url, hub.seeded["alice"], "2025-11-25") as new:
                assert await new.text("steps", {"count": 2}, meta={"progressToken": 1}) == "2 steps"
            await asyncio.to_thread(hub.call, seed.grant_tool, name="late", function="add", users=["bob"])

            async def sees() -> bool:
                return "late" in await bob.tools()

            await wait_until_async(sees, 60)
            await asyncio.to_thread(hub.redis.start)
            await load(20)
        assert hub.call(seed.count_calls, name="add", outcome="ok") == done


async def test_a_socket_that_is_not_read_is_closed_and_others_are_served(hub: Hub) -> None:
    headers = {"Authorization": f"Bearer {hub.seeded['alice']}"}
    client = WebSocketClient(hub.ws_url, hub.seeded["alice"], MODERN)
    call = client.message(
        "tools/call", {"name": "chatter", "arguments": {}}, **{"io.modelcontextprotocol/logLevel": "debug"}
    )
    async with asyncio.timeout(180):
        socket = await connect(
            hub.ws_url,
            subprotocols=[Subprotocol("mcp")],
            additional_headers=headers,
            open_timeout=60,
            ping_interval=None,  # it reads nothing, so it would miss the answer
            max_queue=1,
            proxy=None,
        )
        await socket.send(json.dumps(call))
        async with HttpClient(hub.mcp_url, hub.seeded["bob"], MODERN) as bob:
            await wait_until_async(lambda: "TOOLHUB_MAX_QUEUED_KB" in hub.log())
            assert await bob.text("echo", {"text": "quick"}) == "quick"
        socket.transport.abort()


async def test_the_end_of_a_grant_is_announced_and_takes_effect_at_that_time(hub: Hub) -> None:
    async with (
        HttpClient(hub.mcp_url, hub.seeded["bob"], "2025-11-25") as session,
        WebSocketClient(hub.ws_url, hub.seeded["bob"], "2025-11-25") as socket,
        HttpClient(hub.mcp_url, hub.seeded["bob"], MODERN) as modern,
    ):
        await session.listen()
        subscription = await modern.subscribe(toolsListChanged=True)
        await asyncio.to_thread(hub.call, seed.grant_tool, name="short", function="add", users=["bob"])
        for client in (session, socket, modern):
            await client.wait_for_message("notifications/tools/list_changed")
        # Only now: a machine that stands still for a moment must not let it end before it was ever seen.
        await asyncio.to_thread(hub.call, seed.end_grants, name="short", seconds=2)
        for client in (session, socket, modern):
            await client.wait_for_message("notifications/tools/list_changed", 2)
            assert await client.tools() == ["echo"]
            with pytest.raises(RpcError, match="Unknown tool: short"):
                await client.call("short", {"a": 1, "b": 2})
        subscription.cancel()
