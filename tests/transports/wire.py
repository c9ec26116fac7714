"""Talk to the ASGI application directly: every header and byte is the test's own, and nothing is between the two."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from toolhub.hub import Hub
from toolhub.routing import Router

WAIT_SECONDS = 60.0
Pairs = Iterable[tuple[str, str]] | Mapping[str, str]


async def nobody(scope: Any, receive: Any, send: Any) -> None:
    """In place of Django."""
    await send({"type": "http.response.start", "status": 418, "headers": []})
    await send({"type": "http.response.body", "body": b"django"})


class Parts(list[bytes]):
    """A body that arrives in parts."""


class Request:
    """One HTTP request in flight."""

    def __init__(self, method: str, headers: Pairs, body: bytes | Parts, path: str, address: str) -> None:
        pairs = list(headers.items()) if isinstance(headers, Mapping) else list(headers)
        self.scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "root_path": "/from-a-header",
            "query_string": b"",
            "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in pairs],
            "client": [address, 5],
            "server": ["127.0.0.1", 80],
        }
        self._parts = list(body) if isinstance(body, Parts) else [body]
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        self.body = b""
        self.chunks: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.started, self.ended = asyncio.Event(), asyncio.Event()
        self._left = asyncio.Event()
        self.watched = asyncio.Event()
        """Set while the application would notice that the client leaves."""
        self.task: asyncio.Future[None]

    async def receive(self) -> dict[str, Any]:
        if self._parts:
            part = self._parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(self._parts)}
        self.watched.set()
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Mapping[str, Any]) -> None:
        if self._left.is_set():
            return
        if message["type"] == "http.response.start":
            assert not self.started.is_set(), "two answers to one request"
            self.status = message["status"]
            self.headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in message["headers"]]
            self.started.set()
            return
        assert self.started.is_set() and not self.ended.is_set()
        self.body += message.get("body", b"")
        self.chunks.put_nowait(message.get("body", b""))
        if not message.get("more_body"):
            self.chunks.put_nowait(None)
            self.ended.set()

    def leave(self) -> None:
        """The client closes its connection."""
        self._left.set()

    async def answer(self) -> Request:
        """Wait for the whole answer."""
        await asyncio.wait_for(asyncio.shield(self.task), WAIT_SECONDS)
        return self

    async def wait_for_text(self, text: bytes) -> None:
        """Wait until this was sent."""
        while text not in self.body:
            assert await asyncio.wait_for(self.chunks.get(), WAIT_SECONDS) is not None, (
                f"ended without {text!r}: {self.body!r}"
            )

    def header(self, name: str) -> str | None:
        found = [value for key, value in self.headers if key == name]
        assert len(found) < 2, f"{name} was sent twice"
        return found[0] if found else None

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """The JSON-RPC error in the body, if that is what it is."""
        with contextlib.suppress(ValueError, AttributeError):
            found = self.json.get("error")
            return found if isinstance(found, dict) else {}
        return {}


class Wire:
    def __init__(self, hub: Hub) -> None:
        self.application = Router(nobody, hub)

    def begin(
        self,
        method: str = "POST",
        headers: Pairs = (),
        body: Any = b"",
        *,
        path: str = "/mcp",
        address: str = "192.0.2.7",
    ) -> Request:
        raw = body if isinstance(body, bytes | Parts) else json.dumps(body).encode()
        request = Request(method, headers, raw, path, address)
        request.task = asyncio.ensure_future(self.application(request.scope, request.receive, request.send))
        return request

    async def send(self, *args: Any, **options: Any) -> Request:
        return await self.begin(*args, **options).answer()
