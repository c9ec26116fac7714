"""Daphne as toolhub runs it: bounded requests, flow control, and a stop that lets running calls finish.

Stock Daphne buffers a request of any size before the application sees a byte of it, never slows a sender down for a
slow reader, and on SIGTERM cancels running applications (a half-sent request even breaks its shutdown).
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from typing import Any

from daphne.http_protocol import HTTPFactory, WebRequest
from daphne.server import Server
from daphne.ws_protocol import WebSocketProtocol
from django.conf import settings
from twisted.internet import defer, reactor

from catalog.openapi import document
from toolhub.management.event_loop import survive_exits
from toolhub.management.websocket_protocol import OrderlyWebSocketProtocol

log = logging.getLogger("toolhub.serving")

MAX_BUFFERED_BYTES = 1_048_576
"""Maximum bytes in a connection's buffer before a streaming sender has to wait."""
MAX_STALLED_SECONDS = 60.0
UPLOAD_PATH = b"/admin/catalog/importeddocument/"
MAX_UPLOAD_BYTES = document.MAX_BYTES + 65_536
"""Maximum bytes of a request that uploads an OpenAPI document: the document, and the form around it."""
CLOSING_STATES = (WebSocketProtocol.STATE_CLOSING, WebSocketProtocol.STATE_CLOSED)


class BoundedRequest(WebRequest):  # type: ignore[misc]
    """A request that is rejected with 413 as soon as it announces, or sends, more than the settings allow."""

    rejected = False
    received = 0
    application_queue: asyncio.Queue[dict[str, Any]] | None

    def __init__(self, *args: Any, **options: Any) -> None:
        # Twisted would parse forms that Django parses again, and spend a fifth of a small request's time on reading the
        # Content-Type with the e-mail parser (measured, Twisted 26.10).
        super().__init__(*args, parsePOSTFormSubmission=False, **options)

    @property
    def max_bytes(self) -> int:
        """The setting, and at the addresses of uploads at least the largest document that they take."""
        path = getattr(self.channel, "_path", b"") or b""
        return (
            max(settings.MAX_BODY_BYTES, MAX_UPLOAD_BYTES) if path.startswith(UPLOAD_PATH) else settings.MAX_BODY_BYTES
        )

    def gotLength(self, length: int | None) -> None:
        if length is not None and length > self.max_bytes:
            self.reject()
        else:
            super().gotLength(length)

    def handleContentChunk(self, data: bytes) -> None:
        if self.rejected:
            return
        self.received += len(data)
        if self.received > self.max_bytes:
            self.reject()
        else:
            super().handleContentChunk(data)

    def reject(self) -> None:
        self.rejected = True
        channel = self.channel
        body = b'{"jsonrpc":"2.0","error":{"code":-32600,"message":"Request body too large"}}'
        channel.transport.write(
            b"HTTP/1.1 413 Content Too Large\r\nContent-Type: application/json\r\nConnection: close\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
        )
        channel.loseConnection()

    def process(self) -> Any:
        if self.rejected:
            return None
        # A client must not choose the root path of the site; Daphne answers non-ASCII bytes in it with a 500.
        self.requestHeaders.removeHeader(b"daphne-root-path")
        if not (self.method.isascii() and self.clientproto.isascii()):
            self.basic_error(400, b"Bad Request", "Invalid characters in the request line")
            return None
        return super().process()

    def connectionLost(self, reason: Any) -> None:
        # Daphne's own version fails on a request that is dropped while its headers are still arriving.
        if self.application_queue is not None:
            self.send_disconnect()
            self.application_queue = None
        super().connectionLost(reason)


class BoundedFactory(HTTPFactory):  # type: ignore[misc]
    def log(self, request: Any) -> None:
        """Log nothing: Twisted would format an access log line for every request and discard it."""

    def buildProtocol(self, addr: Any) -> Any:
        protocol = super().buildProtocol(addr)
        protocol.requestFactory = BoundedRequest
        return protocol


class HubServer(Server):  # type: ignore[misc]
    """The server of one worker; `stopping` is set from the first signal on, and a second signal ends it at once."""

    def __init__(self, *args: Any, on_start: Any, on_stop: Any, supervisor: int | None = None, **options: Any) -> None:
        # `toolhub.routing` reads the headers of proxies; Daphne's own options believe everybody.
        if any(name.startswith("proxy_") for name in options):
            raise TypeError("Daphne's proxy options believe every sender: set TOOLHUB_TRUSTED_PROXIES instead.")
        super().__init__(*args, signal_handlers=False, **options)
        self.on_start, self.on_stop, self.supervisor = on_start, on_stop, supervisor
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
        if self.supervisor is not None:
            self.watch_supervisor(loop)

    def watch_supervisor(self, loop: asyncio.AbstractEventLoop) -> None:
        if os.getppid() == self.supervisor:
            loop.call_later(1.0, self.watch_supervisor, loop)
        elif not self.stopping:
            log.error("The supervisor is gone; this worker stops")
            self.stop_gracefully()

    def listen_success(self, port: Any) -> None:
        super().listen_success(port)
        self.ports.append(port)
        # Server.run built the stock factory; its ports now pass every new connection to this one.
        factory = BoundedFactory(self)
        factory.doStart()
        port.factory = factory
        self.http_factory = factory
        self.ws_factory.protocol = OrderlyWebSocketProtocol

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
            protocol.sendCloseFrame(code=message.get("code") or 1000)
            return
        if message["type"] == "websocket.send" and protocol.state in CLOSING_STATES:
            # The client is disconnecting and the event for that is under way: no reader is there for this message.
            return
        protocol.handle_reply(message)
        if message.get("more_body") or message["type"] == "websocket.send":
            await self.wait_for_reader(protocol)

    async def wait_for_reader(self, protocol: Any) -> None:
        """Wait while the connection buffers more than MAX_BUFFERED_BYTES; drop a stalled reader."""
        waited_since, lowest = time.monotonic(), None
        while self.is_open(protocol) and (waiting := count_unsent_bytes(protocol)) > MAX_BUFFERED_BYTES:
            if lowest is None or waiting < lowest:
                lowest, waited_since = waiting, time.monotonic()
            elif time.monotonic() - waited_since > MAX_STALLED_SECONDS:
                log.info("Dropped a reader that took nothing for %d s", MAX_STALLED_SECONDS)
                if isinstance(protocol, WebSocketProtocol):
                    protocol.dropConnection(abort=True)
                else:
                    protocol.channel.forceAbortClient()
                return
            await asyncio.sleep(0.02)

    def is_open(self, protocol: Any) -> bool:
        details = self.connections.get(protocol)
        return details is not None and "disconnected" not in details and not getattr(protocol, "finished", False)


def count_unsent_bytes(protocol: Any) -> int:
    """Return the bytes of a request or WebSocket that the operating system has not accepted yet."""
    transport = getattr(getattr(protocol, "channel", protocol), "transport", None)
    transport = getattr(transport, "_channel", transport)
    transport = getattr(transport, "transport", transport)
    if transport is None or not hasattr(transport, "dataBuffer"):
        return 0
    return int(len(transport.dataBuffer) - transport.offset + transport._tempDataLen)
