"""Routing of connections: to the two MCP endpoints, the pages' WebSocket, the two probes, or Django.

The probes /healthz (the process is up) and /readyz (it can take calls) are answered without Django.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from typing import Any

from django.conf import settings

from audit import recorder
from toolhub.hub import Hub
from toolhub.transports.asgi import JSON, TEXT, Application, Receive, Scope, Send, respond
from toolhub.transports.http import StreamableHttpConsumer
from toolhub.transports.live import LiveConsumer
from toolhub.transports.pages import BoundedPages, PageTurns
from toolhub.transports.websocket import McpWebsocketConsumer

MCP_PATHS = frozenset({"/mcp", "/mcp/"})
"""Both paths are served: a redirect would turn a POST into a GET."""
WEBSOCKET_PATHS = frozenset({"/ws/mcp", "/ws/mcp/"})
LIVE_PATH = "/ws/live"


class Router:
    """Passes each connection to its application, with the parts of the hub that the application needs."""

    def __init__(self, django: Application, hub: Hub) -> None:
        turns = PageTurns(settings.MAX_PAGES, settings.MAX_PAGES_PER_ADDRESS)
        self.django = BoundedPages(django, hub.page_uploads, turns, hub.server.refusals)
        # Not by `as_asgi`: its coroutine around the consumer would get errors that the consumer answers.
        self.http: Application = lambda *asgi: StreamableHttpConsumer(hub.server, hub.streams, hub.uploads)(*asgi)
        self.websocket = McpWebsocketConsumer.as_asgi(server=hub.server, uploads=hub.uploads)
        self.live = LiveConsumer.as_asgi(sockets=hub.sockets)
        self.proxies = hub.edge.proxies
        self.server = hub.server
        self.running: set[asyncio.Task[None]] = set()

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        # A client may send Daphne-Root-Path and would then decide which part of the URL counts as the path.
        scope["root_path"] = ""
        if self.proxies.networks:
            self.proxies.rewrite(scope)
        return self.route(scope, receive, send)

    def route(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        kind, path = scope["type"], scope["path"]
        if kind == "http":
            if path in MCP_PATHS:
                return self.run_detached(self.http(scope, receive, send))
            if self.server.pages.keys:
                client = scope.get("client")
                self.server.connect_check.report_path(client[0] if client else "", scope["method"], path)
            if path == "/healthz":
                return healthz(scope, receive, send)
            if path == "/readyz":
                return readyz(scope, receive, send)
            return self.django(scope, receive, send)
        if kind == "websocket":
            if path in WEBSOCKET_PATHS:
                return self.run_detached(self.websocket(scope, receive, send))
            if path == LIVE_PATH:
                return self.run_detached(self.live(scope, receive, send))
            return reject_websocket(scope, receive, send)
        raise ValueError(f"no application for {kind!r}")

    def run_detached(self, work: Any) -> Awaitable[None]:
        """Run `work` in a separate task; cancelling the future that Daphne receives cancels nothing.

        Daphne cancels an application ten seconds after its client has disconnected, and at shutdown. A call over the
        stateful transport continues without its connection; only `toolhub.server` ends a running call, with a reason.
        """
        task = asyncio.get_running_loop().create_task(work)
        self.running.add(task)
        task.add_done_callback(self.running.discard)
        return asyncio.shield(task)


async def reject_websocket(scope: Scope, receive: Receive, send: Send) -> None:
    """Reject the handshake of a WebSocket."""
    await receive()
    await send({"type": "websocket.close"})


async def healthz(scope: Scope, receive: Receive, send: Send) -> None:
    await respond(send, 200, TEXT, b"ok\n")


async def readyz(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer 200, or 503 with the reason; a load balancer stops sending calls here."""
    reason = await recorder.ready()
    body = json.dumps({"ready": reason is None, "reason": reason or ""}).encode() + b"\n"
    await respond(send, 200 if reason is None else 503, JSON, body)
