"""Which application answers a connection: the two MCP endpoints, the pages' own socket, the two probes, or Django."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from toolhub.hub import Hub
from toolhub.transports.asgi import Application, Receive, Scope, Send
from toolhub.transports.http import StreamableHttpConsumer
from toolhub.transports.live import LiveConsumer
from toolhub.transports.probes import healthz, readyz
from toolhub.transports.websocket import McpWebsocketConsumer

MCP_PATHS = frozenset({"/mcp", "/mcp/"})
"""Both are answered: a redirect would turn a POST into a GET."""
WEBSOCKET_PATHS = frozenset({"/ws/mcp", "/ws/mcp/"})
LIVE_PATH = "/ws/live"


class Router:
    """Hands each connection to its application, and to each application the parts of the hub that it needs."""

    def __init__(self, django: Application, hub: Hub) -> None:
        self.django = django
        self.http = StreamableHttpConsumer.as_asgi(server=hub.server, streams=hub.streams)
        self.websocket = McpWebsocketConsumer.as_asgi(server=hub.server)
        self.live = LiveConsumer.as_asgi(sockets=hub.sockets)
        self.running: set[asyncio.Task[None]] = set()

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        # A client may set Daphne-Root-Path and would then decide what counts as the path.
        scope["root_path"] = ""
        kind, path = scope["type"], scope["path"]
        if kind == "http":
            if path in MCP_PATHS:
                return self.ours(self.http(scope, receive, send))
            if path == "/healthz":
                return healthz(scope, receive, send)
            if path == "/readyz":
                return readyz(scope, receive, send)
            return self.django(scope, receive, send)
        if kind == "websocket":
            if path in WEBSOCKET_PATHS:
                return self.ours(self.websocket(scope, receive, send))
            if path == LIVE_PATH:
                return self.ours(self.live(scope, receive, send))
            return refuse(scope, receive, send)
        raise ValueError(f"no application for {kind!r}")

    def ours(self, work: Any) -> Awaitable[None]:
        """Run it in a task of our own. Daphne gets a future to wait for, and cancelling that cancels nothing.

        Daphne cancels an application ten seconds after its client has left, and at shutdown; a call of the handshake
        era goes on without its connection, and what ends a running call is `toolhub.server`, with a reason.
        """
        task = asyncio.get_running_loop().create_task(work)
        self.running.add(task)
        task.add_done_callback(self.running.discard)
        return asyncio.shield(task)


async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
    """No such WebSocket: the handshake is refused."""
    await receive()
    await send({"type": "websocket.close"})
