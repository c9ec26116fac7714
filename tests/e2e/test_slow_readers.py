"""Clients that read slowly or not at all, through a real Daphne and a real TCP connection."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from tests.client import HttpClient, WebSocketClient
from tests.e2e import seed
from tests.polling import wait_until_async
from tests.real_servers import Hub

MODERN = "2026-07-28"
LOUD = {"io.modelcontextprotocol/logLevel": "debug"}
CHATTER_BYTES = 80_000_000
"""What `chatter` sends in all."""
CALLS = 30


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub(env={"TOOLHUB_TOOL_MODULES": "tests.e2e.functions"}, seed=seed.seed_examples) as hub:
        yield hub


def memory(hub: Hub) -> int:
    """Bytes of the server's resident memory."""
    assert hub.process is not None
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{hub.process.pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


async def test_a_stream_that_nobody_reads_is_ended_before_it_fills_the_memory(hub: Hub) -> None:
    async with HttpClient(hub.mcp_url, hub.seeded["bob"], MODERN) as bob:
        assert await bob.text("echo", {"text": "warm"}) == "warm"
        before = memory(hub)
        client = HttpClient(hub.mcp_url, hub.seeded["alice"], MODERN)
        call = client.message("tools/call", {"name": "chatter", "arguments": {}}, **LOUD)
        body = json.dumps(call).encode()
        headers = {
            **client.headers(call),
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Host": "localhost",
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        with socket.socket() as stuck:
            stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stuck.connect(("127.0.0.1", hub.port))
            stuck.sendall(f"POST /mcp HTTP/1.1\r\n{lines}\r\n".encode() + body)
            await wait_until_async(lambda: "TOOLHUB_MAX_QUEUED_KB" in hub.log(), 120)
            assert await bob.text("echo", {"text": "quick"}) == "quick"
            assert memory(hub) - before < CHATTER_BYTES / 2
            await wait_until_async(lambda: hub.call(seed.count_calls, name="chatter", outcome="cancelled") == 1, 60)


async def test_a_socket_that_is_read_late_gets_everything_within_the_bound(hub: Hub) -> None:
    """The answers wait in the server, which holds a bounded number of bytes for a connection."""
    client = WebSocketClient(hub.ws_url, hub.seeded["alice"], MODERN)
    async with connect(
        hub.ws_url,
        subprotocols=[Subprotocol("mcp")],
        additional_headers={"Authorization": f"Bearer {hub.seeded['alice']}"},
        open_timeout=60,
        ping_interval=None,
        max_queue=1,
        max_size=None,
        proxy=None,
    ) as reader:
        text = "x" * 200_000
        calls = [client.message("tools/call", {"name": "echo", "arguments": {"text": text}}) for _ in range(CALLS)]
        for call in calls:
            await reader.send(json.dumps(call))
        await wait_until_async(lambda: hub.call(seed.count_calls, name="echo", outcome="ok") == CALLS, 120)
        answers = [json.loads(await asyncio.wait_for(reader.recv(), 60)) for _ in calls]
    assert sorted(answer["id"] for answer in answers) == [call["id"] for call in calls]
    assert all(answer["result"]["content"][0]["text"] == text for answer in answers)
