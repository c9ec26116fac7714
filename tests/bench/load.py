"""The load generator: runs as a process of its own (`python -m tests.bench.load`), speaks raw HTTP/1.1 or WebSocket.

Prints one JSON object: {"requests", "seconds", "per_second", "p50_ms", "p99_ms", "errors", "first_error"}.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import deque

UPGRADE = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mcp\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


class Connection(asyncio.Protocol):
    """One keep-alive connection that sends the next request when an answer is whole."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.buffer = b""
        self.sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.next()

    def next(self) -> None:
        if not self.run.more():
            self.transport.close()
            return
        self.sent = time.perf_counter()
        self.transport.write(self.run.request)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self.buffer[:end].lower()
        at = head.find(b"content-length:")
        if at < 0:
            if b"transfer-encoding: chunked" not in head or not self.buffer.endswith(b"0\r\n\r\n"):
                return
            body = self.buffer[end + 4 :]
        else:
            length = int(head[at + 15 : head.find(b"\r\n", at) if head.find(b"\r\n", at) > 0 else None])
            body = self.buffer[end + 4 :]
            if len(body) < length:
                return
        self.run.answered(time.perf_counter() - self.sent, self.buffer[:12].endswith(b" 200"), body)
        self.buffer = b""
        self.next()

    def connection_lost(self, error: Exception | None) -> None:
        self.run.lost()


class Socket(Connection):
    """The same over a WebSocket. A client library would cost more than the server that is measured."""

    upgraded = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]
        self.transport.write(self.run.upgrade)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if not self.upgraded:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            if b" 101 " not in self.buffer[:end]:
                self.run.answered(0.0, False, self.buffer)
                self.transport.close()
                return
            self.upgraded, self.buffer = True, self.buffer[end + 4 :]
            self.next()
        while len(self.buffer) >= 2:
            length, start = self.buffer[1], 2
            if length == 126:
                length, start = int.from_bytes(self.buffer[2:4], "big"), 4
            elif length == 127:
                length, start = int.from_bytes(self.buffer[2:10], "big"), 10
            if len(self.buffer) < start + length:
                return
            kind, body = self.buffer[0] & 15, self.buffer[start : start + length]
            self.buffer = self.buffer[start + length :]
            if kind == PING:
                self.transport.write(frame(body, PONG))
            elif kind == TEXT:
                self.run.answered(time.perf_counter() - self.sent, True, body)
                self.next()


TEXT, PING, PONG = 1, 9, 10


def frame(body: bytes, kind: int = TEXT) -> bytes:
    """A whole message of a client. Its mask is all zeros, which leaves the text as it is."""
    head = bytes([0x80 | kind])
    if len(body) < 126:
        return head + bytes([0x80 | len(body)]) + bytes(4) + body
    return head + b"\xfe" + len(body).to_bytes(2, "big") + bytes(4) + body


class Run:
    upgrade = b""
    """What opens a WebSocket."""

    def __init__(self, request: bytes, expect: bytes, seconds: float, total: int | None, warm: float) -> None:
        self.request, self.expect, self.total = request, expect, total
        self.latencies: deque[float] = deque()
        self.errors, self.first_error = 0, ""
        self.begun = time.perf_counter() + warm
        self.until = self.begun + seconds
        self.left = total
        self.open = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.last = self.begun

    def more(self) -> bool:
        if self.left is not None:
            self.left -= 1
            return self.left >= 0
        return time.perf_counter() < self.until

    def answered(self, took: float, good: bool, body: bytes) -> None:
        now = time.perf_counter()
        if not good or self.expect not in body:
            self.errors += 1
            self.first_error = self.first_error or body[:300].decode(errors="replace")
        elif now >= self.begun or self.total is not None:
            self.latencies.append(took)
            self.last = now

    def lost(self) -> None:
        self.open -= 1
        if not self.open and not self.done.done():
            self.done.set_result(None)

    def report(self) -> dict[str, object]:
        times = sorted(self.latencies)
        seconds = max(self.last - self.begun, 0.001)
        return {
            "requests": len(times),
            "seconds": round(seconds, 3),
            "per_second": round(len(times) / seconds, 1),
            "p50_ms": round(1000 * times[len(times) // 2], 2) if times else None,
            "p99_ms": round(1000 * times[min(len(times) - 1, len(times) * 99 // 100)], 2) if times else None,
            "errors": self.errors,
            "first_error": self.first_error,
        }


async def go(run: Run, kind: type[Connection], host: str, port: int, connections: int) -> None:
    loop = asyncio.get_running_loop()
    run.open = connections
    await asyncio.gather(*(loop.create_connection(lambda: kind(run), host, port) for _ in range(connections)))
    await run.done


async def main(arguments: argparse.Namespace) -> None:
    spec = json.load(sys.stdin)
    body = spec["body"].encode()
    method = "GET" if arguments.websocket else "POST"
    head = f"{method} {spec['path']} HTTP/1.1\r\nHost: {spec['host']}:{spec['port']}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in spec["headers"].items())
    if arguments.websocket:
        request = frame(body)
    else:
        request = head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body
    run = Run(request, spec["expect"].encode(), arguments.seconds, arguments.total, arguments.warm)
    run.upgrade = (head + UPGRADE).encode()
    await go(run, Socket if arguments.websocket else Connection, spec["host"], spec["port"], arguments.connections)
    sys.stdout.write(json.dumps(run.report()) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--warm", type=float, default=1.0)
    parser.add_argument("--total", type=int)
    parser.add_argument("--websocket", action="store_true")
    asyncio.run(main(parser.parse_args()))
