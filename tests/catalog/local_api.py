"""For tests of the HTTP API runner: a server that writes down what it was sent, and one call of the runner."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from uuid import uuid4

import pytest

from audit.types import Caller, Credential
from catalog.functions.context import Context
from catalog.runners import factory
from catalog.runners.http_api import resilience
from tests.catalog.pipeline import RecordingChannel
from tests.process import replace_part


class Api:
    """An API in this process: `answers` are (status, content type, body) by path, else the request comes back.

    `troubles` says how many requests to a path find the connection broken off first.
    """

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self.answers: dict[str, tuple[int, str, bytes]] = {}
        self.troubles: dict[str, int] = {}
        self.elsewhere = "/elsewhere"
        self.extra = ""
        """Header lines for every other answer."""
        self.held = asyncio.Event()
        self.left = asyncio.Event()
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := (await reader.readline()).decode().strip():
                method, target, _ = line.split(" ")
                headers: dict[str, str] = {}
                while header := (await reader.readline()).decode().strip():
                    name, _, value = header.partition(":")
                    headers[name.lower()] = value.strip()
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                parts = urlsplit(target)
                got = {"method": method, "path": parts.path, "query": parse_qsl(parts.query, keep_blank_values=True)}
                self.seen.append(got | {"headers": headers, "body": body.decode("utf-8", "replace")})
                self.bodies.append(body)
                if parts.path == "/hold":
                    self.held.set()
                    await reader.read()
                    self.left.set()
                    return
                if self.troubles.get(parts.path, 0) > 0:
                    self.troubles[parts.path] -= 1
                    return
                status, kind, answer = self.answers.get(
                    parts.path, (200, "application/json", json.dumps(self.seen[-1]).encode())
                )
                extra = f"Location: {self.elsewhere}\r\n" if 300 <= status < 400 else self.extra
                head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(answer)}\r\n{extra}\r\n"
                writer.write(head.encode() + (b"" if method == "HEAD" else answer))
                await writer.drain()
        finally:
            writer.close()


@pytest.fixture
async def api(settings: Any, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Api]:
    settings.ALLOW_PRIVATE_NETWORKS = ["127.0.0.0/8"]
    replace_part(monkeypatch, resilience.HostBreakers())
    made = Api()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield made
    server.close()


def context(**secrets: str) -> Context:
    credential = Credential(1, "alice", "token:1", "laptop", None, None)
    caller = Caller(credential, "http", "2025-11-25", "192.0.2.1")
    return Context(caller, RecordingChannel(), "x", uuid4(), secrets=secrets)


async def ask(settings: dict[str, Any], **arguments: Any) -> Any:
    return await factory.prepare("http_api", settings)(arguments, context())
