"""Attacks on a server, each in a process of its own until it is told to stop, and the honest client beside them.

    async with running("header drip", Target(port, token, sender="127.0.0.66"), 200):
        await canary.run(10.0)

An attacker speaks bytes, and has an address of its own: by the source address of its sockets, or, as the proxy in front
would say it, by X-Forwarded-For.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import random

from tests.real_servers import ROOT, Hub

DESCRIPTORS = 1024
DRIP_SECONDS = 0.5
PAUSE_SECONDS = 0.05
HUGE = 4_000_000
WINDOW_BYTES = 4096
META = "io.modelcontextprotocol/"
KEY = "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mcp\r\n"


class SmallHub(Hub):
    """A server that may have 1,024 descriptors, and cannot raise that."""

    def launch(self) -> None:
        super().launch()
        assert self.process is not None
        resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))

    def memory(self) -> dict[int, int]:
        """Bytes by process id of the workers."""
        pages = {pid: Path(f"/proc/{pid}/statm").read_text().split()[1] for pid in self.worker_pids()}
        return {pid: int(count) * resource.getpagesize() for pid, count in pages.items()}

    def descriptors(self) -> dict[int, int]:
        return {pid: len(os.listdir(f"/proc/{pid}/fd")) for pid in self.worker_pids()}


@dataclass(frozen=True)
class Target:
    """Where an attack goes, and who it comes from."""

    port: int
    token: str
    """A valid token of the attacker's own, who may use some tools."""
    sender: str = "127.0.0.1"
    forwarded_for: str = ""

    def head(self, first_line: str, *headers: str, token: str = "") -> bytes:
        """A request line and headers, without the empty line at their end."""
        lines = [first_line, f"Host: 127.0.0.1:{self.port}", *headers]
        if self.forwarded_for:
            lines.append(f"X-Forwarded-For: {self.forwarded_for}")
        if token:
            lines.append(f"Authorization: Bearer {token}")
        return ("\r\n".join(lines) + "\r\n").encode()

    def post(self, *headers: str, token: str = "", path: str = "/mcp") -> bytes:
        kind = "Content-Type: application/json"
        return self.head(f"POST {path} HTTP/1.1", kind, "MCP-Protocol-Version: 2026-07-28", *headers, token=token)

    def call(self, name: str, arguments: dict[str, object], **meta: object) -> bytes:
        """A whole `tools/call` with the attacker's token."""
        body = json.dumps(message("tools/call", {"name": name, "arguments": arguments}, **meta)).encode()
        length, more = f"Content-Length: {len(body)}", ("Mcp-Method: tools/call", f"Mcp-Name: {name}")
        return self.post(length, *more, token=self.token) + b"\r\n" + body

    def post_message(self, method: str, params: dict[str, object] | None = None) -> bytes:
        """A whole request that is not a call, with the attacker's token."""
        body = json.dumps(message(method, params)).encode()
        head = self.post(f"Content-Length: {len(body)}", f"Mcp-Method: {method}", token=self.token)
        return head + b"\r\n" + body

    def upgrade(self) -> bytes:
        upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\n" + KEY.rstrip()
        return self.head("GET /ws/mcp HTTP/1.1", upgrade, token=self.token) + b"\r\n"

    async def connect(self, window: int = 0) -> Line:
        """One connection; a small `window` makes the kernel take little for a reader that does not read."""
        import socket

        opened = socket.socket()
        try:
            opened.setblocking(False)
            if window:
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
            opened.bind((self.sender, 0))
            await asyncio.get_running_loop().sock_connect(opened, ("127.0.0.1", self.port))
            return Line(*await asyncio.open_connection(sock=opened, limit=WINDOW_BYTES))
        except BaseException:
            opened.close()
            raise


def message(method: str, params: dict[str, object] | None = None, **meta: object) -> dict[str, object]:
    known = {
        f"{META}protocolVersion": "2026-07-28",
        f"{META}clientInfo": {"name": "attacker", "version": "1"},
        f"{META}clientCapabilities": {},
        **{META + name: value for name, value in meta.items()},
    }
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**(params or {}), "_meta": known}}


@dataclass(frozen=True)
class Line:
    """One connection of an attacker."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def drip(self, piece: bytes) -> None:
        """Send this every half second, for ever."""
        while True:
            await self.send(piece)
            await asyncio.sleep(DRIP_SECONDS)

    async def wait(self) -> None:
        """Do nothing until the server closes the connection; nothing is read before."""
        while not self.reader.at_eof() and not self.writer.transport.is_closing():
            await asyncio.sleep(DRIP_SECONDS)

    async def read_and_drop(self) -> None:
        while await self.reader.read(65_536):
            pass

    def close(self) -> None:
        self.writer.transport.abort()


One = Callable[[Target], Awaitable[None]]
"""What one connection of an attacker does, once; it is done again when it ends."""
ATTACKS: dict[str, One] = {}
FEW = {"answers that nobody reads": 4}
"""How many connections are enough for an attack with answers of 30 MB."""


def attack(name: str) -> Callable[[Callable[[Target, Line], Awaitable[None]]], One]:
    def register(work: Callable[[Target, Line], Awaitable[None]], window: int = WINDOW_BYTES) -> One:
        async def one(target: Target) -> None:
            line = await target.connect(window)
            try:
                await work(target, line)
            finally:
                line.close()

        ATTACKS[name] = one
        return one

    return register


@contextlib.asynccontextmanager
async def running(name: str, target: Target, connections: int) -> AsyncIterator[None]:
    """So many connections that attack at the same time, each again when the server has ended it."""
    arguments = [name, str(connections), json.dumps(asdict(target))]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, *arguments, cwd=ROOT, stdin=PIPE, stdout=PIPE
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        assert await process.stdout.readline() == b"attacking\n"
        yield
    finally:
        process.kill()
        await process.wait()


async def repeat(one: One, target: Target) -> None:
    while True:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            await one(target)
        await asyncio.sleep(PAUSE_SECONDS)


async def main() -> None:
    name, connections, target = sys.argv[1:]
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    tasks = [asyncio.create_task(repeat(ATTACKS[name], Target(**json.loads(target)))) for _ in range(int(connections))]
    await asyncio.sleep(PAUSE_SECONDS)
    sys.stdout.write("attacking\n")
    sys.stdout.flush()
    await asyncio.gather(*tasks)


# --- senders ----------------------------------------------------------------------------------------------------------


@attack("header drip")
async def header_drip(target: Target, line: Line) -> None:
    await line.send(target.head("POST /mcp HTTP/1.1"))
    await line.send(b"X-Padding: ")
    await line.drip(b"x")


@attack("silent connections")
async def silent(target: Target, line: Line) -> None:
    await line.wait()


@attack("request line drip")
async def request_line_drip(target: Target, line: Line) -> None:
    await line.send(b"POST /")
    await line.drip(b"x")


@attack("second header drip")
async def second_header_drip(target: Target, line: Line) -> None:
    await line.send(target.head("GET /healthz HTTP/1.1") + b"\r\n")
    await line.reader.readuntil(b"ok\n")
    await line.send(target.head("POST /mcp HTTP/1.1"))
    await line.drip(b"x")


@attack("body drip without a token")
async def body_drip(target: Target, line: Line) -> None:
    await line.send(target.post(f"Content-Length: {HUGE}") + b"\r\n")
    await line.drip(b" ")


@attack("body drip with a token")
async def body_drip_with_token(target: Target, line: Line) -> None:
    await line.send(target.post(f"Content-Length: {HUGE}", token=target.token) + b"\r\n")
    await line.drip(b" ")


@attack("chunk drip with a token")
async def chunk_drip(target: Target, line: Line) -> None:
    await line.send(target.post("Transfer-Encoding: chunked", token=target.token) + b"\r\n")
    await line.drip(b"1\r\n \r\n")


@attack("body drip to a page")
async def page_drip(target: Target, line: Line) -> None:
    await line.send(target.post(f"Content-Length: {HUGE}", path="/sign-in/") + b"\r\n")
    await line.drip(b" ")


@attack("half WebSocket handshakes")
async def half_handshake(target: Target, line: Line) -> None:
    await line.send(target.head("GET /ws/mcp HTTP/1.1", "Upgrade: websocket", "Connection: Upgrade"))
    await line.wait()


@attack("body to a page at the minimum rate")
async def slow_page_body(target: Target, line: Line) -> None:
    await line.send(target.post("Content-Length: 4000000", path="/sign-in/") + b"\r\n")
    await line.drip(b" " * 600)


@attack("chunks of one byte")
async def small_chunks(target: Target, line: Line) -> None:
    await line.send(target.post("Transfer-Encoding: chunked", path="/sign-in/") + b"\r\n" + b"1\r\nx\r\n" * 60_000)
    await line.wait()


@attack("unfinished large bodies without a token")
async def large_bodies(target: Target, line: Line) -> None:
    await line.send(target.post(f"Content-Length: {HUGE}") + b"\r\n" + b" " * (HUGE - 1))
    await line.wait()


@attack("unfinished large bodies with a token")
async def large_bodies_with_token(target: Target, line: Line) -> None:
    await line.send(target.post(f"Content-Length: {HUGE}", token=target.token) + b"\r\n" + b" " * (HUGE - 1))
    await line.wait()


@attack("unfinished large bodies to a page")
async def large_page_bodies(target: Target, line: Line) -> None:
    await line.send(target.post(f"Content-Length: {HUGE}", path="/sign-in/") + b"\r\n" + b" " * (HUGE - 1))
    await line.wait()


@attack("expectations without a body")
async def expectations(target: Target, line: Line) -> None:
    await line.send(
        target.post(f"Content-Length: {HUGE}", "Expect: 100-continue", token=target.token) + b"\r\n",
    )
    await line.wait()


@attack("new connections as fast as possible")
async def churn(target: Target, line: Line) -> None:
    await line.send(target.head("POST /mcp HTTP/1.1"))


@attack("random bytes")
async def random_bytes(target: Target, line: Line) -> None:
    await line.send(b"\x16\x03\x01" + os.urandom(500))
    await line.wait()


@attack("many header lines")
async def many_headers(target: Target, line: Line) -> None:
    await line.send(target.head("GET /healthz HTTP/1.1"))
    for number in range(100_000):
        await line.send(b"X-%d: %s\r\n" % (number, b"x" * 50))


@attack("folded header lines")
async def folded_headers(target: Target, line: Line) -> None:
    await line.send(target.head("GET /healthz HTTP/1.1", "X-Folded: x") + b" \r\n" * 16_000 + b"\r\n")
    await line.reader.readuntil(b"\r\n\r\n")


@attack("pages that do not exist")
async def missing_pages(target: Target, line: Line) -> None:
    await send_for_ever(line, target.head(f"GET /{'x' * 8000} HTTP/1.1") + b"\r\n")


@attack("invented tokens")
async def invented_tokens(target: Target, line: Line) -> None:
    await line.send(target.post("Content-Length: 2", token="thp_" + os.urandom(22).hex()[:43]) + b"\r\n{}")
    await line.reader.readuntil(b"\r\n\r\n")


# --- readers ----------------------------------------------------------------------------------------------------------


@attack("answers that nobody reads")
async def unread_answers(target: Target, line: Line) -> None:
    await line.send(target.call("large", {}))
    await line.wait()


@attack("streams that nobody reads")
async def unread_streams(target: Target, line: Line) -> None:
    await line.send(target.call("chatter", {}, logLevel="debug"))
    await line.wait()


@attack("pipelined requests that nobody reads")
async def pipeline(target: Target, line: Line) -> None:
    page = target.head("GET /sign-in/ HTTP/1.1") + b"\r\n"
    for _ in range(10_000):
        await line.send(page * 10)


@attack("pipelined files that nobody reads")
async def file_pipeline(target: Target, line: Line) -> None:
    file = target.head("GET /static/unfold/fonts/inter/Inter-Bold.woff2 HTTP/1.1") + b"\r\n"
    for _ in range(10_000):
        await line.send(file * 10)


@attack("pipelined errors that nobody reads")
async def error_pipeline(target: Target, line: Line) -> None:
    for _ in range(10_000):
        await line.send((target.head("GET / HTTP/1.1", "X Y: 1") + b"\r\n") * 100)


# --- WebSockets -------------------------------------------------------------------------------------------------------


async def open_socket(target: Target, line: Line) -> None:
    await line.send(target.upgrade())
    await line.reader.readuntil(b"\r\n\r\n")


@attack("idle WebSockets")
async def idle_sockets(target: Target, line: Line) -> None:
    await open_socket(target, line)
    await line.wait()


async def send_for_ever(line: Line, data: bytes) -> None:
    """Send as fast as the server takes it, and read what it answers."""
    reading = asyncio.create_task(line.read_and_drop())
    try:
        while not reading.done():
            await line.send(data)
    finally:
        reading.cancel()


def frame(opcode: int, payload: bytes, *, last: bool = True, masked: bool = True) -> bytes:
    """One WebSocket frame (RFC 6455, 5.2), masked with zeros."""
    size, mask = len(payload), 128 if masked else 0
    if size < 126:
        length = bytes([mask | size])
    elif size < 65_536:
        length = bytes([mask | 126]) + size.to_bytes(2, "big")
    else:
        length = bytes([mask | 127]) + size.to_bytes(8, "big")
    return bytes([128 * last | opcode]) + length + bytes(4 * masked) + payload


def encode(*messages: dict[str, object]) -> bytes:
    """These JSON-RPC messages, one text frame each."""
    return b"".join(frame(1, json.dumps(one).encode()) for one in messages)


@attack("WebSocket pings as fast as possible")
async def socket_pings(target: Target, line: Line) -> None:
    await open_socket(target, line)
    await send_for_ever(line, frame(9, b"") * 500)


@attack("WebSocket fragments of one byte")
async def socket_fragments(target: Target, line: Line) -> None:
    await open_socket(target, line)
    await line.send(frame(1, b"[", last=False))
    await send_for_ever(line, frame(0, b" ", last=False) * 500)


@attack("WebSocket messages as fast as possible")
async def socket_messages(target: Target, line: Line) -> None:
    await open_socket(target, line)
    await send_for_ever(line, encode({"jsonrpc": "2.0", "id": 1, "method": "nothing"}) * 100)


@attack("lists over WebSockets as fast as possible")
async def socket_lists(target: Target, line: Line) -> None:
    await open_socket(target, line)
    await send_for_ever(line, encode(*({**message("tools/list"), "id": number} for number in range(100))))


@attack("calls over WebSockets as fast as possible")
async def socket_calls(target: Target, line: Line) -> None:
    await open_socket(target, line)
    call = message("tools/call", {"name": "echo", "arguments": {"text": "x"}})
    await send_for_ever(line, encode(*({**call, "id": number} for number in range(100))))


@attack("cancellations over WebSockets as fast as possible")
async def socket_cancellations(target: Target, line: Line) -> None:
    await open_socket(target, line)
    asked = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "attacker", "version": "1"}}
    await line.send(encode({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": asked}))
    cancelled: dict[str, object] = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
    await send_for_ever(line, encode(*[{**cancelled, "params": {"requestId": n}} for n in range(20)]))


@attack("unfinished large WebSocket messages")
async def large_socket_messages(target: Target, line: Line) -> None:
    await open_socket(target, line)
    await line.send(frame(1, b" " * HUGE)[:-1])
    await line.wait()


@attack("invalid WebSocket frames")
async def invalid_frames(target: Target, line: Line) -> None:
    await open_socket(target, line)
    await line.send(frame(1, b"{}", masked=False))
    await line.reader.read(-1)


# --- floods of requests -----------------------------------------------------------------------------------------------


@attack("lists as fast as possible")
async def lists(target: Target, line: Line) -> None:
    await send_for_ever(line, target.post_message("tools/list") * 10)


@attack("calls as fast as possible")
async def calls(target: Target, line: Line) -> None:
    await send_for_ever(line, target.call("echo", {"text": "x"}) * 10)


@attack("calls of tools that do not exist")
async def unknown_tools(target: Target, line: Line) -> None:
    await send_for_ever(line, target.call("nothing", {}) * 10)


@attack("calls that all run at once")
async def parallel_calls(target: Target, line: Line) -> None:
    await send_for_ever(line, target.call("dawdle", {"seconds": 0.5 + random() / 1000}))


@attack("slow functions in every thread")
async def slow_functions(target: Target, line: Line) -> None:
    await send_for_ever(line, target.call("block", {"seconds": 10 + random()}))


@attack("invalid JSON")
async def invalid_json(target: Target, line: Line) -> None:
    body = b"[" * 50_000
    await send_for_ever(line, target.post(f"Content-Length: {len(body)}", token=target.token) + b"\r\n" + body)


@attack("large JSON")
async def large_json(target: Target, line: Line) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[' + b"{}," * 1_300_000 + b"{}]}}"
    await send_for_ever(line, target.post(f"Content-Length: {len(body)}", token=target.token) + b"\r\n" + body)


@attack("as much JSON as is taken")
async def much_json(target: Target, line: Line) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[' + b"1.5," * 190_000 + b"{}]}}"
    await send_for_ever(line, target.post(f"Content-Length: {len(body)}", token=target.token) + b"\r\n" + body)


@attack("thousands of secrets")
async def many_secrets(target: Target, line: Line) -> None:
    arguments = {"password": [f"a{number:03x}" for number in range(4000)], "n": [1000 + n for n in range(4000)]}
    await send_for_ever(line, target.call("nothing", arguments))


@attack("sessions without end")
async def sessions(target: Target, line: Line) -> None:
    asked = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "attacker", "version": "1"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": asked}).encode()
    accept = "Accept: application/json, text/event-stream"
    head = target.head("POST /mcp HTTP/1.1", "Content-Type: application/json", accept, token=target.token)
    await send_for_ever(line, (head + b"Content-Length: %d\r\n\r\n" % len(body) + body) * 10)


@attack("streams that are left at once")
async def left_streams(target: Target, line: Line) -> None:
    await line.send(target.post_message("subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
    await line.reader.readuntil(b"\r\n\r\n")


# --- the honest client ------------------------------------------------------------------------------------------------


@dataclass
class Canary:
    """One person who calls a tool, over one connection at a time, and a probe that asks /healthz beside them."""

    target: Target
    seconds: list[float] = field(default_factory=list)
    probe_seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    pause: float = 0.1

    async def run(self, duration: float) -> None:
        """Call and probe for so many seconds, each time over a new connection."""
        await asyncio.gather(self.repeat(self.call, self.seconds, duration), self.probe(duration))

    async def probe(self, duration: float) -> None:
        await self.repeat(self.ask_health, self.probe_seconds, duration)

    async def repeat(self, ask: Callable[[], Awaitable[None]], seconds: list[float], duration: float) -> None:
        ends = time.monotonic() + duration
        while time.monotonic() < ends:
            begun = time.monotonic()
            try:
                async with asyncio.timeout(30):
                    await ask()
                seconds.append(time.monotonic() - begun)
            except (OSError, EOFError, TimeoutError, AssertionError) as error:
                self.failures.append(f"{ask.__name__}: {error!r}")
            await asyncio.sleep(self.pause)

    async def call(self) -> None:
        line = await self.target.connect()
        try:
            await line.send(self.target.call("echo", {"text": "canary"}))
            head = await line.reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 "), head
            found = head.lower().partition(b"content-length: ")[2]
            body = await line.reader.readexactly(int(found.partition(b"\r\n")[0]))
            assert b"canary" in body, body
        finally:
            line.close()

    async def ask_health(self) -> None:
        line = await self.target.connect()
        try:
            await line.send(self.target.head("GET /healthz HTTP/1.1") + b"\r\n")
            await line.reader.readuntil(b"\r\n\r\nok\n")
        finally:
            line.close()


if __name__ == "__main__":
    asyncio.run(main())
