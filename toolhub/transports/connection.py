"""A connection with many messages both ways (WebSocket, stdio): all protocol versions, parallel calls, bounded.

A message with the stateless envelope is served by itself; `initialize` begins a session that lives as long as the
connection. `receive` never waits: every message is handled in its own task, and outgoing messages wait in one queue,
so that neither a slow call nor a slow reader delays the others.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from django.conf import settings

from audit.types import Credential
from catalog.errors import ACCESS_REVOKED, CLIENT_GONE, SERVER_STOPPING, Cancellation
from toolhub import deadline
from toolhub.access.token_errors import BadToken, CheckUnavailable
from toolhub.server import dispatch, sessions, subscribers
from toolhub.server import peer as peers
from toolhub.server.methods import lifecycle
from toolhub.server.process import ServerRole
from toolhub.server.request_rates import TooManyRequests
from toolhub.transports.exchange import answer
from toolhub.transports.outgoing import OutgoingQueue
from toolhub.wire import envelope, errors, jsonrpc, versions
from toolhub.wire.errors import McpError

log = logging.getLogger(__name__)

FLOODED = Cancellation("cancelled.too_many")
TOO_LARGE = Cancellation("cancelled.too_large")
UPLOADS = Cancellation("cancelled.uploads")
BINARY_FRAME = Cancellation("cancelled.binary_frame")
UNCHECKED = Cancellation("cancelled.unchecked")
SLOW_READER = Cancellation("cancelled.slow_reader")
FAILED = Cancellation("cancelled.internal")

MAX_CONCURRENT_MESSAGES = 256
"""Maximum messages in progress; far more than the server role runs at once, so that it can reject each one itself."""
MAX_INCOMING_BYTES = 33_554_432
PROGRESS_DROP_MESSAGES = 64
MAX_OUTGOING_MESSAGES = 1024
OUTGOING_STREAMS = 8
"""A connection has the messages of many requests: so many times the waiting bytes of a stream are allowed."""

# Close codes of RFC 6455.
NORMAL, GOING_AWAY, UNSUPPORTED, POLICY, TOO_BIG, INTERNAL, TRY_LATER = 1000, 1001, 1003, 1008, 1009, 1011, 1013


class Connection:
    """One connection: `write` sends one encoded message and may wait.

    `close` is called at most once, with a code of RFC 6455 and the reason.
    """

    def __init__(
        self,
        server: ServerRole,
        credential: Credential,
        token: str,
        transport: str,
        address: str,
        write: Callable[[bytes], Awaitable[None]],
        close: Callable[[int, str], Awaitable[None]],
    ) -> None:
        self.server = server
        self.credential, self._token, self._transport, self.address = credential, token, transport, address
        self._write, self._close = write, close
        self.id = secrets.token_hex(8)
        self._peer = self._unidentified_peer()
        """Until `initialize`, the peer has only its identity."""
        self._initializing: asyncio.Future[None] | None = None
        self._working: set[asyncio.Task[None]] = set()
        self._bytes_in = 0
        self._out: OutgoingQueue[bytes] = OutgoingQueue(
            MAX_OUTGOING_MESSAGES, OUTGOING_STREAMS * settings.MAX_QUEUED_BYTES
        )
        self._closing: int | None = None
        self._closing_reason = ""
        self._stopping = False
        self._listener = server.subscribers.attach(self._peer, self.notify, self._on_close_requested, kinds=frozenset())
        self._writer = asyncio.get_running_loop().create_task(self._send_queued())

    # --- incoming messages ---------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> asyncio.Task[None] | None:
        """Handle one message of the client; return the task that works on it, or None."""
        if self._closing is not None:
            return None
        if len(self._working) >= MAX_CONCURRENT_MESSAGES or self._bytes_in + len(data) > MAX_INCOMING_BYTES:
            self.refuse("messages")
            self.end(TRY_LATER, FLOODED)
            return None
        self._bytes_in += len(data)
        task = asyncio.get_running_loop().create_task(self._work(data))
        self._working.add(task)
        task.add_done_callback(self._on_work_done)
        return task

    def _on_work_done(self, task: asyncio.Task[None]) -> None:
        self._working.discard(task)
        if not self._working:
            self._out.wake()

    async def _work(self, data: bytes) -> None:
        """Process one message; this is the boundary for its errors."""
        asyncio.current_task().arrived = time.monotonic()  # type: ignore[union-attr]
        try:
            message = await self._serve(data)
            if message is not None:
                self._put(jsonrpc.encode(message))
        except McpError as error:
            self._put(jsonrpc.encode(jsonrpc.error(error.request_id, error)))
        except CheckUnavailable:
            self.end(TRY_LATER, UNCHECKED)
        except BadToken:
            self.end(POLICY, ACCESS_REVOKED)
        except asyncio.CancelledError:
            raise
        except BaseException:
            log.exception("A message over %s failed", self._transport)
            self.end(INTERNAL, FAILED)
        finally:
            self._bytes_in -= len(data)

    async def _serve(self, data: bytes) -> dict[str, Any] | list[Any] | None:
        messages = jsonrpc.parse(data, batches=self._peer.revision in versions.BATCHING_REVISIONS)
        credential = self.server.authenticator.cached(self._token) or await self.server.authenticator.authenticate(
            self._token, self.address
        )
        if credential is not self.credential:
            if credential.toolset_ids != self.credential.toolset_ids:
                # Running calls, subscriptions and the session belong to the old restriction.
                self.end(POLICY, ACCESS_REVOKED)
                return None
            self._renew(credential)
        if isinstance(messages, list):
            answers = await asyncio.gather(
                *(deadline.hand_over(asyncio.ensure_future(self._handle(one))) for one in messages)
            )
            return [one for one in answers if one is not None] or None
        return await self._handle(messages)

    async def _handle(self, message: jsonrpc.Message) -> dict[str, Any] | None:
        if isinstance(message, jsonrpc.Request):
            if self._stopping:
                stopping = McpError(errors.INTERNAL_ERROR, "The server is stopping")
                await dispatch.log_rejected(message, self._peer, stopping, self.server)
                return jsonrpc.error(message.id, stopping)
            if is_modern(message):
                return await self._modern(message)
            if message.method == "initialize":
                return await self._initialize(message)
        if self._initializing is not None:
            await self._initializing
        peer = self._peer
        if isinstance(message, jsonrpc.Notification):
            await dispatch.handle_notification(message, peer, self.server)
        elif isinstance(message, jsonrpc.Response):
            await dispatch.handle_response(message, peer, self.server)
        elif peer.session is None and message.method != "ping":
            reason = "Invalid request: begin with `initialize`, or send the envelope of 2026-07-28 in `_meta`"
            return jsonrpc.error(message.id, McpError(errors.INVALID_REQUEST, reason))
        else:
            return await answer(message, peer, Outlet(self), self.server)
        return None

    async def _modern(self, request: jsonrpc.Request) -> dict[str, Any] | None:
        try:
            found = envelope.check(None, request, versions.MODERN)
        except McpError as error:
            self.server.connect_check.report_invalid(self.credential, error)
            return jsonrpc.error(request.id, error)
        peer = peers.modern(found, self.credential, self._transport, self.address, self.id)
        return await answer(request, peer, Outlet(self), self.server)

    async def _initialize(self, request: jsonrpc.Request) -> dict[str, Any]:
        if self._initializing is not None or self._peer.session is not None:
            return jsonrpc.error(request.id, McpError(errors.INVALID_REQUEST, "Invalid request: already initialized"))
        initializing = self._initializing = asyncio.get_running_loop().create_future()
        try:
            session, result = await lifecycle.initialize(request, self.credential, self.server)
            self._peer = peers.handshake(session, self.credential, self._transport, self.address, self.id)
            self._listen(subscribers.KINDS)
        except McpError as error:
            self.server.count_refusal(error, self.address, self.credential.username)
            return jsonrpc.error(request.id, error)
        finally:
            self._initializing = None
            initializing.set_result(None)
        return jsonrpc.result(request.id, result)

    def _renew(self, credential: Credential) -> None:
        """Use the newly looked-up credential: the token's rights may have changed."""
        self.credential = credential
        session = self._peer.session
        self._peer = (
            self._unidentified_peer()
            if session is None
            else peers.handshake(session, credential, self._transport, self.address, self.id)
        )

    def _unidentified_peer(self) -> peers.Peer:
        nothing = envelope.Envelope(versions.LATEST_MODERN, "", "", {}, None, None)
        return peers.modern(nothing, self.credential, self._transport, self.address, self.id)

    def _listen(self, kinds: frozenset[str]) -> None:
        self._listener.detach()
        with suppress(TooManyRequests):
            self._listener = self.server.subscribers.attach(
                self._peer, self.notify, self._on_close_requested, kinds=kinds
            )

    def refuse(self, bound: str) -> None:
        """Count what a bound did to this connection."""
        self.server.refuse(bound, self.address, self.credential.username)

    # --- outgoing messages ---------------------------------------------------------------------------------------

    def notify(self, message: dict[str, Any]) -> None:
        if len(self._out) < PROGRESS_DROP_MESSAGES or message.get("method") != "notifications/progress":
            self._put(jsonrpc.encode(message))

    def _put(self, data: bytes) -> None:
        if self._closing is None and not self._out.put(data, len(data)):
            self.refuse("queue")
            self.end(POLICY, SLOW_READER)
            self._out.clear()

    async def _send_queued(self) -> None:
        try:
            await self._out.run(self._write, self._idle)
        except Exception:
            log.exception("Writing to a client over %s failed", self._transport)
            self.end(INTERNAL, CLIENT_GONE)

    async def _idle(self) -> bool:
        """Close the connection if that was requested and everything is sent."""
        if self._closing is None and self._stopping and not self._working:
            self.end(GOING_AWAY, SERVER_STOPPING)
        if self._closing is None:
            return False
        await self._close(self._closing, self._closing_reason)
        return True

    # --- the end -------------------------------------------------------------------------------------------------

    def _on_close_requested(self, reason: Cancellation) -> None:
        """Start the close after a revocation, a disconnect or a server stop: running calls may still answer."""
        if reason == SERVER_STOPPING:
            self._stopping = True
            self._out.wake()
        else:
            self.end(POLICY, reason)

    def end(self, code: int, reason: Cancellation) -> None:
        """Close after the queued messages are sent, and cancel running work."""
        if self._closing is not None:
            return
        self._closing, self._closing_reason = code, str(reason)
        if code not in {NORMAL, GOING_AWAY}:
            # Not above this level: a line for each would let a client that reconnects fill the disk.
            log.debug("A connection of %s over %s was closed: %d %s", self.credential.id, self._transport, code, reason)
        self._listener.detach()
        current = asyncio.current_task()
        for task in list(self._working):
            if task is not current:
                reason.cancel(task)
        self._out.wake()

    async def drain(self, seconds: float) -> None:
        """Accept no more messages, let running work answer for at most `seconds`, then close."""
        deadline = time.monotonic() + seconds
        while self._working and (remaining := deadline - time.monotonic()) > 0:
            await asyncio.wait(set(self._working), timeout=remaining)
        self.end(NORMAL, SERVER_STOPPING)
        await self.wait_closed()

    async def wait_closed(self) -> None:
        """Wait until everything is sent and done; the session ends with its connection."""
        await asyncio.wait({self._writer})
        while self._working:
            await asyncio.wait(set(self._working))
        if self._peer.session is not None:
            with suppress(sessions.UnknownSession):
                await self.server.sessions.close(self._peer.session.id, self.credential)

    async def on_disconnect(self) -> None:
        """Handle the disconnect of the client: nothing can be sent any more."""
        self._out.clear()
        self.end(NORMAL, CLIENT_GONE)
        await self.wait_closed()


class Outlet:
    """The outlet of one request: its messages go to the connection, which it shares with all others."""

    __slots__ = ("_connection",)
    streaming = True

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def notify(self, message: dict[str, Any]) -> None:
        self._connection.notify(message)

    def close(self) -> None:
        """Do nothing: a request on a connection has no stream of its own."""

    def refuse(self, seconds: int) -> None:
        """Do nothing: a message has no status."""

    def challenge(self, scope: str) -> None:
        """Do nothing: a message has no status; its error names the scope."""


def is_modern(request: jsonrpc.Request) -> bool:
    meta = request.params.get("_meta")
    return type(meta) is dict and envelope.PROTOCOL_VERSION in meta
