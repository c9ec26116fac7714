"""The official Python client against a real server: connect, list, call, be asked, hear of changes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from tests.e2e import seed
from tests.real_servers import ROOT, Hub

WAIT_SECONDS = 60
HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(env={"TOOLHUB_TOOL_MODULES": "tests.e2e.functions"}, seed=seed.seed_examples) as running:
        yield running


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that takes longer than this to answer would be taken for one that knows no discovery."""
    monkeypatch.setattr("mcp.client.session.DISCOVER_TIMEOUT_SECONDS", 120.0)


@asynccontextmanager
async def connect(hub: Hub, mode: str, user: str = "alice", **options: Any) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {hub.seeded[user]}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=WAIT_SECONDS, trust_env=False) as http,
        Client(streamable_http_client(hub.mcp_url, http_client=http), mode=mode, **options) as client,
    ):
        yield client


async def use(client: Client) -> None:
    names = [tool.name for tool in (await client.list_tools()).tools]
    assert names == ["add", "ask_name", "chatter", "come_back", "echo", "prints", "steps", "touch", "wait"]
    result = await client.call_tool("add", {"a": 1, "b": 2})
    assert text(result) == "3"
    seen: list[float] = []

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    assert text(await client.call_tool("steps", {"count": 4}, progress_callback=heard)) == "4 steps"
    assert seen == [1, 2, 3, 4]
    with pytest.raises(MCPError, match="Unknown tool: nothing"):
        await client.call_tool("nothing", {})


def text(result: Any) -> str:
    block = result.content[0]
    assert isinstance(block, types.TextContent)
    return block.text


@pytest.mark.parametrize("mode", ["auto", "2026-07-28"])
async def test_the_stateless_revision(hub: Hub, mode: str) -> None:
    async with connect(hub, mode) as client:
        assert client.protocol_version == "2026-07-28"
        await use(client)


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_every_revision_with_a_handshake(hub: Hub, revision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp.client.session.LATEST_HANDSHAKE_VERSION", revision)
    async with connect(hub, "legacy") as client:
        assert client.protocol_version == revision
        await use(client)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_person_is_asked_and_answers(hub: Hub, mode: str) -> None:
    async def answer(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": "Ann"})

    async with connect(hub, mode, elicitation_callback=answer) as client:
        assert "Ann" in text(await client.call_tool("ask_name", {}))


async def test_a_stream_that_the_server_ends_early_is_resumed(hub: Hub) -> None:
    async with connect(hub, "legacy") as client:
        assert text(await client.call_tool("come_back", {})) == "welcome back"


async def test_a_change_reaches_a_session_and_a_subscription(hub: Hub) -> None:
    heard = asyncio.Event()

    async def message(incoming: Any) -> None:
        if isinstance(incoming, types.ToolListChangedNotification):
            heard.set()

    async with (
        connect(hub, "legacy", "bob", message_handler=message) as session,
        connect(hub, "auto", "bob") as modern,
    ):
        assert [tool.name for tool in (await session.list_tools()).tools] == ["echo"]
        async with modern.listen(tools_list_changed=True) as changes:
            await asyncio.to_thread(hub.call, seed.grant_tool, name="late", function="add", users=["bob"])
            await asyncio.wait_for(heard.wait(), WAIT_SECONDS)
            await asyncio.wait_for(anext(aiter(changes)), WAIT_SECONDS)
        assert [tool.name for tool in (await session.list_tools()).tools] == ["echo", "late"]
        assert [tool.name for tool in (await modern.list_tools()).tools] == ["echo", "late"]


async def test_an_approved_request_reaches_the_client_of_the_person(hub: Hub) -> None:
    request = await asyncio.to_thread(hub.call, seed.request_tool, name="asked_for", function="add", user="bob")
    async with connect(hub, "auto", "bob") as session, session.listen(tools_list_changed=True) as changes:
        assert "asked_for" not in [tool.name for tool in (await session.list_tools()).tools]
        await asyncio.to_thread(hub.call, seed.approve_request, key=request)
        await asyncio.wait_for(anext(aiter(changes)), WAIT_SECONDS)
        assert "asked_for" in [tool.name for tool in (await session.list_tools()).tools]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_command_that_speaks_stdio(hub: Hub, mode: str) -> None:
    command = StdioServerParameters(
        command=sys.executable,
        args=["manage.py", "mcpstdio"],
        cwd=str(ROOT),
        env={**hub.environment(), "TOOLHUB_TOKEN": hub.seeded["alice"]},
    )
    async with Client(command, mode=mode) as client:
        await use(client)
