"""Whatever a tool raises, wherever it raises it: one status, a result that says so, and a hub that goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.client import HttpClient, HttpRefusal, RpcError, WebSocketClient
from tests.e2e import raising_functions
from tests.e2e.raising_functions import PROTOCOL, WAYS, WITH_WAY
from tests.pages.try_person import Person
from tests.polling import wait_until_async
from tests.real_servers import Hub

MODERN, HANDSHAKE = "2026-07-28", "2025-11-25"
TASKS: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
CLOSES = ("raise_child", "generator exit")
"""What asyncio answers by closing the coroutines of the whole request."""
QUICK = [name for name in WITH_WAY if name != "raise_isolated"]


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(seed=raising_functions.seed, env={"TOOLHUB_TOOL_MODULES": raising_functions.MODULES}) as hub:
        hub.may_log_tracebacks = True
        yield hub


def connect(hub: Hub, transport: str, revision: str) -> Any:
    token = hub.seeded["alice"]
    if transport == "HTTP":
        return HttpClient(hub.mcp_url, token, revision)
    return WebSocketClient(hub.ws_url, token, revision)


class Statuses:
    """The calls that were logged since the last look."""

    def __init__(self, hub: Hub) -> None:
        self.hub, self.seen = hub, len(hub.call(raising_functions.list_statuses))

    async def new(self) -> list[list[str]]:
        rows: list[list[str]] = await asyncio.to_thread(self.hub.call, raising_functions.list_statuses)
        found, self.seen = rows[self.seen :], len(rows)
        return found


def assert_failed(result: dict[str, Any], what: Any) -> None:
    assert result["isError"], what
    text = result["content"][0]["text"]
    said = ("failed", "cannot be written as JSON", "ended its process", "exited", "exceeded its memory limit")
    assert any(words in text for words in said), (what, text)
    assert "hunter2" not in text


async def call_all(client: Any, names: list[str]) -> list[str]:
    called = []
    for name in names:
        for way in WAYS:
            if (name, way) == CLOSES or (name == "raise_several" and way.startswith("cancelled")):
                continue  # a task group takes a task that was cancelled for one that has ended
            called.append(name)
            try:
                result = await client.call(name, {"way": way})
            except RpcError as error:
                if error.code != -32603 or way not in PROTOCOL:
                    raise AssertionError(f"{name} {way}") from error
            else:
                assert_failed(result, (name, way))
    return called


@pytest.mark.parametrize("transport", ["HTTP", "WebSocket"])
@pytest.mark.parametrize("revision", [MODERN, HANDSHAKE])
async def test_whatever_a_tool_raises_is_one_tool_error(hub: Hub, transport: str, revision: str) -> None:
    statuses = Statuses(hub)
    token = hub.seeded["alice"]
    made = (
        HttpClient(hub.mcp_url, token, revision)
        if transport == "HTTP"
        else WebSocketClient(hub.ws_url, token, revision)
    )
    async with made as client:
        called = await call_all(client, QUICK)
        assert await client.text("raise_nothing") == "here"
    logged = await statuses.new()
    assert [[name, outcome] for name, outcome, _ in logged] == [
        *([name, "tool_error"] for name in called),
        ["raise_nothing", "ok"],
    ]
    assert hub.process is not None and hub.process.poll() is None


async def test_whatever_an_isolated_tool_raises_is_one_tool_error(hub: Hub) -> None:
    statuses = Statuses(hub)
    async with HttpClient(hub.mcp_url, hub.seeded["alice"], MODERN) as client:
        called = await call_all(client, ["raise_isolated"])
    assert [[name, outcome] for name, outcome, _ in await statuses.new()] == [[name, "tool_error"] for name in called]


async def test_whatever_a_tool_raises_as_a_task_ends_the_task_and_the_call(hub: Hub) -> None:
    statuses = Statuses(hub)
    names = ["raise_async", "raise_child", "raise_thread"]
    async with HttpClient(hub.mcp_url, hub.seeded["alice"], MODERN, capabilities=TASKS) as client:
        for name in names:
            for way in WAYS:
                if (name, way) == CLOSES:
                    continue
                made = await client.call(name, {"way": way})

                async def ended(number: str = made["taskId"]) -> dict[str, Any] | None:
                    found = await client.request("tasks/get", {"taskId": number})
                    return found if found["status"] != "working" else None

                task = await wait_until_async(ended)
                if way in PROTOCOL:
                    assert task["status"] == "failed", (name, way, task)
                else:
                    assert task["status"] == "completed", (name, way, task)
                    assert_failed(task["result"], (name, way))
    assert [outcome for _, outcome, _ in await statuses.new()] == ["tool_error"] * (len(names) * len(WAYS) - 1)


def test_whatever_a_tried_tool_raises_is_shown_in_the_page(hub: Hub) -> None:
    with Person(hub, "root") as root:
        for name in ("raise_async", "raise_thread", "raise_model"):
            for way in WAYS:
                state = root.outcome(root.try_tool(hub.seeded["rows"][name], way=way))
                if way in PROTOCOL and name != "raise_model":
                    assert "Internal error" in state["outcome"], (name, way, state)
                else:
                    assert "failed" in state["outcome"] or "cannot be written" in state["outcome"], (name, way, state)
    tried = hub.call(raising_functions.list_statuses)[-3 * len(WAYS) :]
    assert {outcome for _, outcome, _ in tried} == {"tool_error"}


@pytest.mark.parametrize("transport", ["HTTP", "WebSocket"])
async def test_a_tool_that_cancels_its_own_task_has_failed(hub: Hub, transport: str) -> None:
    statuses = Statuses(hub)
    async with connect(hub, transport, MODERN) as client:
        try:
            answer = await client.call("cancel_self")
        except (RpcError, HttpRefusal) as refused:
            raise AssertionError(f"it is no result of the tool: {refused}") from refused
        assert_failed(answer, "cancel_self")
        assert await client.text("cancel_self_and_return") == "returned"
    assert await statuses.new() == [
        ["cancel_self", "tool_error", "CancelledError"],
        ["cancel_self_and_return", "ok", ""],
    ]


async def test_a_task_of_a_tool_that_closes_the_request_leaves_one_status(hub: Hub) -> None:
    statuses = Statuses(hub)
    arguments = {"way": "generator exit"}
    async with HttpClient(hub.mcp_url, hub.seeded["alice"], MODERN, capabilities=TASKS) as client:
        made = await client.call("raise_child", arguments)

        async def ended() -> dict[str, Any] | None:
            found = await client.request("tasks/get", {"taskId": made["taskId"]})
            return found if found["status"] != "working" else None

        assert (await wait_until_async(ended))["status"] == "failed"
    async with HttpClient(hub.mcp_url, hub.seeded["alice"], MODERN) as client:
        with pytest.raises((RpcError, HttpRefusal), match="Internal error"):
            await client.call("raise_child", arguments)
        assert await client.text("raise_nothing") == "here"
    assert await statuses.new() == [
        ["raise_child", "tool_error", "GeneratorExit"],
        ["raise_child", "tool_error", "GeneratorExit"],
        ["raise_nothing", "ok", ""],
    ]


async def test_a_cancellation_by_the_client_stays_one_whatever_the_tool_makes_of_it(hub: Hub) -> None:
    statuses = Statuses(hub)
    async with WebSocketClient(hub.ws_url, hub.seeded["alice"], HANDSHAKE) as client:
        running = client.background(client.request("tools/call", {"name": "wait_and_hide"}, request_id="mine"))

        async def begun() -> bool:
            return ["wait_and_hide", "running", ""] in await asyncio.to_thread(
                hub.call, raising_functions.list_statuses
            )

        await wait_until_async(begun)
        await client.notify("notifications/cancelled", {"requestId": "mine"})
        await wait_until_async(lambda: statuses_ended(statuses))
        running.cancel()
    assert hub.call(raising_functions.list_statuses)[-1] == ["wait_and_hide", "cancelled", ""]


async def statuses_ended(statuses: Statuses) -> bool:
    rows = await asyncio.to_thread(statuses.hub.call, raising_functions.list_statuses)
    return bool(rows[-1][1] != "running")


async def test_values_that_run_code_when_they_are_read_are_sent_as_plain_data(hub: Hub) -> None:
    statuses = Statuses(hub)
    async with HttpClient(hub.mcp_url, hub.seeded["alice"], MODERN) as client:
        assert_failed(await client.call("raise_text"), "raise_text")
        sly = await client.call("raise_sly")
        assert sly["content"] == [{"type": "text", "text": "sly"}]
        assert await client.text("end_from_callback") == "still here"
    assert [row[:2] for row in await statuses.new()] == [
        ["raise_text", "tool_error"],
        ["raise_sly", "ok"],
        ["end_from_callback", "ok"],
    ]
