"""ASGI types, and answers to HTTP requests with little overhead."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol, TypeAlias

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers: TypeAlias = list[tuple[bytes, bytes]]

SAFE: Headers = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]
JSON: Headers = [(b"content-type", b"application/json"), *SAFE]
TEXT: Headers = [(b"content-type", b"text/plain; charset=utf-8"), *SAFE]
HTML: Headers = [
    (b"content-type", b"text/html; charset=utf-8"),
    (b"content-security-policy", b"default-src 'none'; style-src 'self'; img-src 'self'; frame-ancestors 'none'"),
    *SAFE,
]
EVENTS: Headers = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-store"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
]


CONNECTION = "toolhub.connection"
"""The key of a scope's `ClientConnection`; absent when something else than `toolhub.edge` serves."""


class ClientConnection(Protocol):
    """The connection that a request or WebSocket came through."""

    client: str
    """The address of the client behind a trusted proxy."""

    def identify(self, user_id: int) -> None:
        """Note who sent the request that is being answered, or opened the WebSocket."""

    def on_message_begun(self) -> None:
        """Note that the application works on one more message of the WebSocket: the next ones may come."""


async def respond(send: Send, status: int, headers: Headers, body: bytes) -> None:
    """Send one complete response."""
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [*headers, (b"content-length", b"%d" % len(body))],
        }
    )
    await send({"type": "http.response.body", "body": body})
