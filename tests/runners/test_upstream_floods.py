"""An upstream server that sends more than is good costs its own calls, and nobody else's."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from catalog.errors import ToolError
from catalog.message_load import MESSAGE_VALUES, VALUES_PER_SECOND
from catalog.runners.upstream_mcp.connection import parse
from catalog.runners.upstream_mcp.link import Link, QuestionHandler
from catalog.runners.upstream_mcp.pool import current_pool
from tests.polling import wait_until_async
from tests.process import replace_part
from tests.runners.harness import RecordingChannel, run
from toolhub.egress import NameResolver
from toolhub.wire.json_size import MAX_VALUES

LOCAL = ["127.0.0.0/8"]
EVENT_STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


def make_notification(data: bytes) -> bytes:
    message = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%s}}'
    return b"data: " + message % data + b"\n\n"


class FloodingServer:
    """A server of 2025-06-18 whose tool sends `flood` so many `times` before its result, or the body `answer`."""

    def __init__(self) -> None:
        self.flood = self.answer = b""
        self.times = 1
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with await asyncio.start_server(self.handle, "127.0.0.1", 0) as server:
            self.port = server.sockets[0].getsockname()[1]
            yield

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
                await self.reply(json.loads(await reader.readexactly(length) or b"{}"), writer)
        writer.close()

    async def reply(self, message: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        method = message.get("method")
        result: dict[str, Any] = {"tools": []}
        if "id" not in message:
            head = b"HTTP/1.1 202 Accepted" if method else b"HTTP/1.1 405 Method Not Allowed"
            writer.write(head + b"\r\nContent-Length: 0\r\n\r\n")
            return
        if method == "tools/call" and self.flood:
            writer.write(EVENT_STREAM)
            for _ in range(self.times):
                writer.write(self.flood)
                await writer.drain()
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": {"content": []}}
            writer.write(b"data: " + json.dumps(answer).encode() + b"\n\n")
            return
        if method == "initialize":
            info = {"name": "flood", "version": "1"}
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        if method == "tools/call":
            body = self.answer
        kind = b"application/json\r\nContent-Length: %d" % len(body)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: " + kind + b"\r\n\r\n" + body)


class Lines(QuestionHandler):
    def __init__(self) -> None:
        self.count = 0

    async def log(self, level: str, data: Any, name: str | None) -> None:
        self.count += 1


@pytest.fixture
async def server(settings: Any, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FloodingServer]:
    settings.ALLOW_PRIVATE_NETWORKS = LOCAL
    replace_part(monkeypatch, NameResolver())
    made = FloodingServer()
    async with made.running():
        yield made


@contextlib.asynccontextmanager
async def connected(server: FloodingServer) -> AsyncIterator[Link]:
    reached = {"upstream": 1, "name": "flood", "url": server.url, "timeout": 60, "allowed_networks": LOCAL}
    link = Link(parse(reached), {})
    await link.open()
    try:
        yield link
    finally:
        await link.wait_closed()


@pytest.mark.parametrize("kind", ["event", "body"])
async def test_a_message_with_too_many_values_is_not_decoded(
    server: FloodingServer, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    many = b"[" + b"{}," * MAX_VALUES + b"{}]"
    if kind == "event":
        server.flood = make_notification(many)
    else:
        server.answer = b'{"jsonrpc":"2.0","id":99,"result":{"content":[],"x":%s}}' % many
    connection = {"upstream": 1, "name": "flood", "url": server.url, "timeout": 60, "allowed_networks": LOCAL}
    channel = RecordingChannel()
    try:
        with pytest.raises(ToolError, match="sent too much: the response has more than 200000 values"):
            await run("upstream_mcp", {"upstream": "flood", "tool": "x", "connection": connection}, {}, channel=channel)
    finally:
        await current_pool().close()
    assert channel.lines == []
    assert "flood sent a message with more than 200000 values" in caplog.text


async def test_a_flood_of_small_messages_is_read_at_a_rate(server: FloodingServer) -> None:
    server.flood, server.times = make_notification(b"1") * 500, 1_000_000
    async with connected(server) as link:
        link.questions = lines = Lines()
        begun = time.monotonic()
        call = asyncio.create_task(link.session.call_tool("x", {}))
        burst = MAX_VALUES // MESSAGE_VALUES
        await wait_until_async(lambda: lines.count > burst, 60, "the burst is read")
        seconds = time.monotonic() - begun
        # Of what is read at once, one piece of the stream may be above.
        assert lines.count <= burst + VALUES_PER_SECOND / MESSAGE_VALUES * seconds + 1500
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
