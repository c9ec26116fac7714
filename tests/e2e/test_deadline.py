"""PostgreSQL hangs beneath a real server: whatever a request waits for, the refusal comes by one deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.audit.stores import Cluster
from tests.client import HttpClient, HttpRefusal, RpcError, WebSocketClient
from tests.e2e import hanging_tools
from tests.real_servers import Hub

MODERN, HANDSHAKE = "2026-07-28", "2025-11-25"
TASKS: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
RECORD_SECONDS = 6.0
"""Longer than usual: two waits that are added up take more than ten seconds, however slow the machine is."""
MAX_SECONDS = RECORD_SECONDS + 3.0
ENV = {"TOOLHUB_TOOL_MODULES": hanging_tools.MODULES, "TOOLHUB_RECORD_TIMEOUT_MS": f"{RECORD_SECONDS * 1000:.0f}"}


async def refusal(work: Awaitable[Any]) -> str:
    try:
        found = await work
    except RpcError as error:
        return f"{error.code} {error.message}"
    except HttpRefusal as error:
        return f"HTTP {error.status}"
    return f"answered {sorted(found)}"


@pytest.mark.postgres
async def test_while_postgresql_hangs_every_request_is_answered_by_one_deadline() -> None:
    cluster = Cluster()
    try:
        cluster.sql("CREATE DATABASE hub")
        with Hub(env={**ENV, "TOOLHUB_DATABASE_URL": cluster.url("hub")}, seed=hanging_tools.seed) as hub:
            await check_hanging(hub, cluster)
    finally:
        cluster.remove()


async def check_hanging(hub: Hub, cluster: Cluster) -> None:
    alice = hub.seeded["alice"]
    async with (
        HttpClient(hub.mcp_url, alice, MODERN, capabilities=TASKS) as tasks,
        HttpClient(hub.mcp_url, alice, MODERN) as modern,
        HttpClient(hub.mcp_url, alice, HANDSHAKE) as stateful,
        HttpClient(hub.mcp_url, hub.seeded["fresh"], MODERN) as unseen,
        WebSocketClient(hub.ws_url, alice, MODERN) as socket,
        WebSocketClient(hub.ws_url, alice, HANDSHAKE) as session,
        WebSocketClient(hub.ws_url, alice, MODERN, capabilities=TASKS) as task_socket,
    ):
        task = await tasks.call("hang_hello")
        stored = await modern.call("hang_large")
        uri = next(block["uri"] for block in stored["content"] if block["type"] == "resource_link")
        for client in (stateful, socket, session):
            assert await client.text("hang_hello") == "hello"
        away = "-32603 calls cannot be logged now: the database does not answer"
        database = "-32603 The server's database does not answer. Try again in a minute."
        number = {"taskId": task["taskId"]}
        wanted: list[tuple[str, Callable[[], Awaitable[Any]], str]] = [
            ("call", lambda: modern.call("hang_hello"), away),
            ("task", lambda: tasks.call("hang_hello"), away),
            ("unknown tool", lambda: modern.call("nothing"), away),
            ("invalid arguments", lambda: modern.call("hang_hello", {"x": 1}), away),
            ("prompt", lambda: modern.request("prompts/get", {"name": "nothing"}), away),
            ("resource", lambda: modern.request("resources/read", {"uri": "none://x"}), away),
            ("stored result", lambda: modern.request("resources/read", {"uri": uri}), database),
            ("tasks/get", lambda: tasks.request("tasks/get", number), database),
            ("tasks/cancel", lambda: tasks.request("tasks/cancel", number), database),
            ("stateful call", lambda: stateful.call("hang_hello"), away),
            ("socket call", lambda: socket.call("hang_hello"), away),
            ("session call", lambda: session.call("hang_hello"), away),
            ("socket tasks/get", lambda: task_socket.request("tasks/get", number), database),
            ("unknown token", lambda: unseen.call("hang_hello"), "HTTP 503"),
            ("tools/list", lambda: modern.request("tools/list"), "answered"),
            ("session tools/list", lambda: session.request("tools/list"), "answered"),
        ]
        with cluster.freeze():
            began = time.monotonic()

            async def measure(work: Callable[[], Awaitable[Any]]) -> tuple[str, float]:
                return await refusal(work()), time.monotonic() - began

            found = await asyncio.gather(*(measure(work) for _, work, _ in wanted))
        expected = {name: beginning for name, _, beginning in wanted}
        answers = dict(zip(expected, found, strict=True))
        assert {name: text for name, (text, _) in answers.items() if not text.startswith(expected[name])} == {}
        assert {name: seconds for name, (_, seconds) in answers.items() if seconds > MAX_SECONDS} == {}
