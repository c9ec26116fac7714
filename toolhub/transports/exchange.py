"""One HTTP request and its response, and the execution of its JSON-RPC request."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from audit.types import Credential
from catalog.errors import CLIENT_GONE, Cancellation
from toolhub.server import dispatch
from toolhub.server.errors import ScopeError
from toolhub.server.peer import Outlet, Peer
from toolhub.server.process import ServerRole
from toolhub.server.request_rates import TooManyRequests
from toolhub.transports.asgi import JSON, SAFE, ClientConnection, Headers, Receive, Send, respond
from toolhub.transports.resume import StreamLog, StreamLogs
from toolhub.transports.stream import EventStream
from toolhub.transports.uploads import Upload, Uploads
from toolhub.wire import errors, jsonrpc
from toolhub.wire.errors import McpError

log = logging.getLogger(__name__)

WATCH_AFTER_SECONDS = 0.05
"""Seconds after which a running request gets a watcher that notices the client's disconnect."""
STREAM_AFTER_SECONDS = 5.0
"""Seconds after which the answer becomes an event stream, whose heartbeats keep proxies and clients from timing out."""


class Exchange:
    __slots__ = (
        "address",
        "body",
        "connection",
        "cors",
        "credential",
        "events",
        "headers",
        "json",
        "opened",
        "receive",
        "send",
        "server",
        "started",
        "streams",
        "upload",
        "uploads",
    )

    def __init__(
        self, server: ServerRole, streams: StreamLogs, uploads: Uploads, receive: Receive, send: Send, address: str
    ) -> None:
        self.server, self.streams, self.uploads = server, streams, uploads
        self.receive, self.send, self.address = receive, send, address
        self.connection: ClientConnection | None = None
        self.headers: dict[str, str] = {}
        self.cors: Headers = []
        self.credential: Credential
        self.body = b""
        self.started = False
        """Whether an answer was begun, so that no second one may follow."""
        self.opened: EventStream | None = None
        self.upload: Upload | None = None
        """What a larger body counts, until the request is answered."""
        self.json = self.events = True
        """The response types that the client accepts."""

    def count_body(self, size: int) -> None:
        """Count a body of this size. Raises TooManyUploads."""
        if self.upload is None:
            self.upload = Upload(self.uploads, f"user:{self.credential.user_id}")
        self.upload.grow(size)

    def release(self) -> None:
        """Let go of what a request in progress needs.

        The exchange and its stream know each other: all that a request has left would wait for the garbage collector,
        which looks for cycles among older objects only after a few thousand requests.
        """
        if self.upload is not None:
            self.upload.release()
        if self.opened is not None:
            self.opened.on_slow = None
            self.opened = None

    async def reply(
        self, message: dict[str, Any] | list[Any], status: int = 200, headers: Headers | None = None
    ) -> None:
        self.started = True
        await respond(self.send, status, [*JSON, *self.cors, *(headers or ())], jsonrpc.encode(message))

    async def reject(self, error: McpError, status: int, headers: Headers | None = None) -> None:
        await self.reply(jsonrpc.error(error.request_id, error), status, headers)

    def refuse(self, bound: str) -> None:
        """Count what a bound did to this request of an identified client."""
        self.server.refuse(bound, self.address, self.credential.username)

    def stream(self, log: StreamLog | None = None) -> EventStream:
        """Open an answer that may become a stream; from here on, only the stream answers."""
        self.started = True
        self.opened = EventStream(
            self.send,
            self.cors,
            events=self.events,
            json=self.json,
            log=log,
            refuse=self.refuse,
        )
        return self.opened

    async def fail(self) -> None:
        """Answer with an internal error as far as nothing else was answered; the caller logs the cause."""
        error = McpError(errors.INTERNAL_ERROR, "Internal error")
        if self.opened is not None:
            await self.opened.finish(jsonrpc.error(None, error), 500)
        elif not self.started:
            await self.reject(error, 500)

    async def accept(self) -> None:
        """Answer 202: a notification or a response was accepted."""
        self.started = True
        await respond(self.send, 202, [*SAFE, *self.cors], b"")


class Watch:
    """Detects that the client of a running request disconnects; costs a timer while the request is quick."""

    __slots__ = ("_on_disconnect", "_receive", "_stream", "_task", "_timer")

    def __init__(self, receive: Receive, stream: EventStream, on_disconnect: Callable[[], None]) -> None:
        self._receive, self._stream, self._on_disconnect = receive, stream, on_disconnect
        self._task: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(WATCH_AFTER_SECONDS, self._begin)

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._wait())
        self._timer = loop.call_later(STREAM_AFTER_SECONDS, self._stream.commit)

    async def _wait(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._on_disconnect()

    def stop(self) -> None:
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            self._task = None  # its error has a traceback with this watcher


def cancel_on_disconnect(stream: EventStream) -> Callable[[], None]:
    """Return the callback for `Watch` that cancels the running request of this task on a disconnect."""
    task = asyncio.current_task()

    def on_disconnect() -> None:
        stream.leave()
        if task is not None:
            CLIENT_GONE.cancel(task)

    return on_disconnect


async def answer(request: jsonrpc.Request, peer: Peer, outlet: Outlet, server: ServerRole) -> dict[str, Any] | None:
    """Return the complete JSON-RPC answer, errors included; None when the client cancelled the request.

    This is the boundary for unforeseen errors: the server log gets the error, the client gets -32603.
    """
    try:
        return jsonrpc.result(request.id, await dispatch.answer(request, peer, outlet, server))
    except TooManyRequests as error:
        outlet.refuse(error.retry_after)
        return jsonrpc.error(request.id, error)
    except ScopeError as error:
        outlet.challenge(error.scope)
        return jsonrpc.error(request.id, error)
    except McpError as error:
        return jsonrpc.error(request.id, error)
    except dispatch.RequestCancelled:
        return None
    except asyncio.CancelledError as error:
        if not _undo_cancellation(error):
            raise  # by the transport, which has nobody left to answer
        return jsonrpc.error(request.id, McpError(errors.INTERNAL_ERROR, "The request was cancelled"))
    except Exception:
        log.exception("A request failed: %s", request.method)
        return jsonrpc.error(request.id, McpError(errors.INTERNAL_ERROR, "Internal error"))


def _undo_cancellation(error: asyncio.CancelledError) -> bool:
    """Undo a cancellation of this task that no part of the hub asked for; return whether it was one."""
    task = asyncio.current_task()
    if task is None or Cancellation.given_to(task) or any(isinstance(it, Cancellation) for it in error.args):
        return False
    task.uncancel()
    return True
