"""Daphne as toolhub runs it: bounded connections, flow control, and a stop that lets running calls finish.

Stock Daphne never slows an application down for a slow reader, and on SIGTERM cancels running applications (a half-sent
request even breaks its shutdown). `toolhub.edge` bounds what a client can send.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import time
from functools import partial
from typing import Any

from autobahn.util import encode_truncate
from daphne.http_protocol import HTTPFactory
from daphne.server import Server
from daphne.ws_protocol import WebSocketProtocol
from twisted.internet import defer, reactor
from twisted.internet.tcp import Port

from toolhub.edge.channel import EdgeChannel
from toolhub.edge.connections import Connections
from toolhub.edge.limits import Limits
from toolhub.edge.request import EdgeRequest
from toolhub.edge.websocket_protocol import MAX_REASON_BYTES, EdgeWebSocketProtocol
from toolhub.management.event_loop import survive_exits
from toolhub.transports.asgi import CONNECTION

log = logging.getLogger("toolhub.serving")

PIECE_BYTES = 131_072
"""An answer is written in pieces of this size, each when the one before it has left: no more waits in a buffer."""
SWEEP_SECONDS = 1.0
MAX_ACCEPTS = 32
"""New connections in one turn of the event loop."""
TCP_NOTSENT_LOWAT = getattr(socket, "TCP_NOTSENT_LOWAT", 25)
USER_TIMEOUT_MS = 120_000
"""A client whose machine has not answered for this long is gone."""
CLOSING_STATES = (WebSocketProtocol.STATE_CLOSING, WebSocketProtocol.STATE_CLOSED)


class EdgePort(Port):
    """A listening socket that takes a bounded number of new connections before it lets others be served.

    Twisted takes 20 more each time that more are waiting. Those that make room for them are closed in the next turn of
    the event loop, so their descriptors, too, are among the spare ones.
    """

    numberAccepts = property(lambda _: MAX_ACCEPTS, lambda _, __: None)


class EdgeFactory(HTTPFactory):  # type: ignore[misc]
    """Makes the channels of new connections, as far as there is room."""

    protocol = EdgeChannel

    def __init__(self, server: HubServer) -> None:
        super().__init__(server)
        self.connections = server.edge
        self.timeOut = None

    def log(self, request: Any) -> None:
        """Log nothing: Twisted would format an access log line for every request and discard it."""

    def buildProtocol(self, addr: Any) -> Any:
        peer = getattr(addr, "host", "")
        if not self.connections.may_come(peer):
            return None
        channel = super().buildProtocol(addr)
        channel.requestFactory = EdgeRequest
        self.connections.add(channel, peer)
        return channel


class HubServer(Server):  # type: ignore[misc]
    """The server of one worker; `stopping` is set from the first signal on, and a second signal ends it at once."""

    def __init__(
        self,
        *args: Any,
        on_start: Any,
        on_stop: Any,
        supervisor: int | None = None,
        connections: Connections | None = None,
        **options: Any,
    ) -> None:
        # `toolhub.routing` reads the headers of proxies; Daphne's own options believe everybody.
        if any(name.startswith("proxy_") for name in options):
            raise TypeError("Daphne's proxy options believe every sender: set TOOLHUB_TRUSTED_PROXIES instead.")
        super().__init__(*args, signal_handlers=False, **options)
        self.on_start, self.on_stop, self.supervisor = on_start, on_stop, supervisor
        self.edge = connections or Connections(Limits())
        self.stopping = False
        self.exit_status = 0
        self.ports: list[Any] = []
        self.background: set[asyncio.Task[None]] = set()

    def run(self) -> None:
        reactor.callWhenRunning(self.on_running)
        super().run()

    def on_running(self) -> None:
        loop = asyncio.get_event_loop()
        survive_exits(loop)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop_gracefully)
        self.spawn(self.on_start())
        self.sweep(loop)
        if self.supervisor is not None:
            self.watch_supervisor(loop)

    def watch_supervisor(self, loop: asyncio.AbstractEventLoop) -> None:
        if os.getppid() == self.supervisor:
            loop.call_later(1.0, self.watch_supervisor, loop)
        elif not self.stopping:
            log.error("The supervisor is gone; this worker stops")
            self.stop_gracefully()

    def sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.call_later(SWEEP_SECONDS, self.sweep, loop)
        self.edge.sweep(time.monotonic())

    def listen_success(self, port: Any) -> None:
        super().listen_success(port)
        self.ports.append(port)
        limit_kernel_buffers(port.socket)
        # Server.run built the stock factory; its ports now pass every new connection to this one.
        factory = EdgeFactory(self)
        factory.doStart()
        port.factory = factory
        port.__class__ = EdgePort  # Daphne makes its ports from a description in text, which names no class
        self.http_factory = factory
        self.ws_factory.protocol = EdgeWebSocketProtocol

    def listen_error(self, failure: Any) -> None:
        self.exit_status = 1
        super().listen_error(failure)

    def spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self.background.add(task)
        task.add_done_callback(self.on_task_end)

    def on_task_end(self, task: asyncio.Task[None]) -> None:
        self.background.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("A background task of the server failed", exc_info=error)

    def stop_gracefully(self) -> None:
        if self.stopping:
            log.warning("Stopping at once: a second signal came")
            self.exit_status = 1
            self.stop()
            return
        self.stopping = True
        self.spawn(self.drain())

    async def drain(self) -> None:
        started = time.monotonic()
        for port in self.ports:
            port.stopListening()
        try:
            await self.on_stop()
        except Exception:
            log.exception("The stop did not go as planned")
            self.exit_status = 1
        log.info("Stopped after %.1f s", time.monotonic() - started)
        self.stop()

    def kill_all_applications(self) -> Any:
        """Cancel the open applications (idle streams, half-sent requests) and wait for them, 2 s at most."""
        running = [
            instance
            for details in self.connections.values()
            if (instance := details.get("application_instance")) is not None and not instance.done()
        ]
        for instance in running:
            instance.cancel()
        if not running:
            return None
        return defer.Deferred.fromFuture(asyncio.ensure_future(asyncio.wait(running, timeout=2)))

    async def handle_reply(self, protocol: Any, message: dict[str, Any]) -> None:
        # Daphne's own version, with one coroutine less per message and with flow control.
        details = self.connections.get(protocol)
        if details is None or "disconnected" in details:
            return
        try:
            self.check_headers_type(message)
        except ValueError:
            protocol.basic_error(500, b"Server Error", "Server Error")
            raise
        if message["type"] == "websocket.close" and protocol.state == WebSocketProtocol.STATE_OPEN:
            # Daphne's own way rejects all codes but 1000 and 3000 to 4999: none of 1001, 1008, 1009 and 1013.
            reason = encode_truncate(message["reason"], MAX_REASON_BYTES) if message.get("reason") else None
            protocol.sendCloseFrame(code=message.get("code") or 1000, reasonUtf8=reason)
            return
        if message["type"] == "websocket.send" and protocol.state in CLOSING_STATES:
            # The client is disconnecting and the event for that is under way: no reader is there for this message.
            return
        if message["type"] == "http.response.start":
            # Of a request that came before the answer to the one before it: its answer waits for that one's reader.
            await self.wait_for_reader(protocol)
            if not self.is_open(protocol):
                return
        if message["type"] == "http.response.body" and len(message.get("body", b"")) > PIECE_BYTES:
            await self.write_in_pieces(protocol, message)
            return
        protocol.handle_reply(message)
        if message.get("more_body") or message["type"] == "websocket.send":
            await self.wait_for_reader(protocol)

    async def write_in_pieces(self, protocol: Any, message: dict[str, Any]) -> None:
        body, more = memoryview(message["body"]), message.get("more_body", False)
        channel = protocol.channel
        try:
            for start in range(0, len(body), PIECE_BYTES):
                if not self.is_open(protocol):
                    return
                rest = len(body) - start - PIECE_BYTES
                piece = bytes(body[start : start + PIECE_BYTES])
                protocol.handle_reply({"type": message["type"], "body": piece, "more_body": more or rest > 0})
                if more or rest > 0:
                    channel.hold(max(rest, 0))
                    await self.wait_for_reader(protocol)
        finally:
            channel.hold(0)

    async def wait_for_reader(self, protocol: Any) -> None:
        """Wait until the client has read what the transport buffers; `Connections` drops one that takes too long."""
        if self.is_open(protocol) and (drained := protocol.channel.drained) is not None:
            # Not awaited itself: a cancelled writer would cancel it for all others.
            await asyncio.wait((drained,))

    def is_open(self, protocol: Any) -> bool:
        details = self.connections.get(protocol)
        return details is not None and "disconnected" not in details and not getattr(protocol, "finished", False)

    def protocol_disconnected(self, protocol: Any) -> None:
        # Daphne's own version fails on a protocol that it has cleaned up: one that was answered before its end.
        details = self.connections.get(protocol)
        if details is not None:
            details.setdefault("disconnected", time.time())

    def create_application(self, protocol: Any, scope: dict[str, Any], queue: Any = None) -> Any:
        """Start the application of a request or WebSocket and return the queue of what it receives."""
        queue = asyncio.Queue() if queue is None else queue
        scope.setdefault("asgi", {"version": "3.0"})
        scope[CONNECTION] = protocol.channel
        work = self.application(scope=scope, receive=queue.get, send=partial(self.handle_reply, protocol))
        self.connections[protocol]["application_instance"] = asyncio.ensure_future(work)
        return queue


def limit_kernel_buffers(listener: socket.socket) -> None:
    """Bound what the kernel holds for a client that reads slowly or is gone; connections inherit it from the listener.

    The kernel would take megabytes for each, which no memory figure of this process shows.
    """
    with contextlib.suppress(AttributeError, OSError):
        listener.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, PIECE_BYTES)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT_MS)
