"""The answer to one POST or GET: one JSON body, or an event stream after the first streamed message.

`EventStream` is the outlet that the server role writes to. Nothing is sent, and no task exists, until the first message
is queued; a call that only answers costs two sends. From then on one task per stream writes the queued messages in
order. It waits for slow readers, and keeps quiet connections open with comments. Over the stateful transport every
event is also stored in the session's event log. A client that lost its connection, or was asked to reconnect later,
then gets the remaining stream from any worker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from django.conf import settings

from toolhub.access import token_errors
from toolhub.transports.asgi import EVENTS, JSON, Headers, Send, respond
from toolhub.transports.outgoing import OutgoingQueue
from toolhub.transports.resume import StreamLog
from toolhub.wire import jsonrpc, sse

log = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 15.0
PROGRESS_DROP_MESSAGES = 64
"""Number of waiting messages from which progress is dropped."""
MAX_QUEUED_MESSAGES = 1024
"""Maximum waiting messages; a reader with more, or with more than MAX_QUEUED_BYTES, is disconnected as too slow."""
RETRY_MS = 500
"""Milliseconds that a client waits before it reconnects to a stream that the server ended early."""


class EventStream:
    """One response: `streaming`, `notify` and `close` form the outlet; the other members are for the transport."""

    __slots__ = (
        "_ending",
        "_headers",
        "_json",
        "_log",
        "_open",
        "_out",
        "_refuse",
        "_rejection",
        "_send",
        "_stopping_early",
        "_task",
        "connected",
        "on_slow",
        "streaming",
    )

    def __init__(
        self,
        send: Send,
        headers: Headers,
        *,
        events: bool = True,
        json: bool = True,
        log: StreamLog | None = None,
        refuse: Callable[[str], None] | None = None,
    ) -> None:
        """Open an answer to `send`; `refuse` counts the bound that it reached."""
        self.streaming = events
        self.connected = True
        """Whether the client still reads; later messages go to the log alone, if there is one."""
        self.on_slow: Callable[[], None] | None = None
        self._send, self._headers, self._json, self._log = send, headers, json, log
        self._out: OutgoingQueue[tuple[bytes, str | None]] = OutgoingQueue(
            MAX_QUEUED_MESSAGES, settings.MAX_QUEUED_BYTES
        )
        self._ending = self._open = self._stopping_early = False
        self._rejection: tuple[int, tuple[bytes, bytes]] | None = None
        """Status and header of an answer that is one error."""
        self._refuse = refuse
        self._task: asyncio.Task[None] | None = None

    @property
    def committed(self) -> bool:
        """Whether this has become an event stream."""
        return self._task is not None

    # --- the outlet ----------------------------------------------------------------------------------------------

    def notify(self, message: dict[str, Any]) -> None:
        if not self.streaming or self._ending or not (self.connected or self._log):
            return
        if len(self._out) >= PROGRESS_DROP_MESSAGES and message.get("method") == "notifications/progress":
            return
        self._put(jsonrpc.encode(message))

    def close(self) -> None:
        """End the response early; the client resumes the stream with Last-Event-ID."""
        if self.streaming and self.connected and not self._ending and self._log is not None and self._log.primes:
            self.commit()
            self._stopping_early = True
            self._out.wake()

    def refuse(self, seconds: int) -> None:
        self._rejection = 429, (b"retry-after", b"%d" % seconds)

    def challenge(self, scope: str) -> None:
        self._rejection = 403, (b"www-authenticate", token_errors.scope_challenge(scope).encode())

    # --- for the transport ---------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Become an event stream now, if that is possible."""
        if self._task is None and self.streaming:
            self._task = asyncio.get_running_loop().create_task(self._write())

    def leave(self) -> None:
        """Handle the client's disconnect; later messages are stored for its return, or dropped."""
        self.connected = False
        if self._log is None:
            self._out.clear()
        self._out.wake()

    def end(self) -> None:
        """End the stream after the queued messages, without an answer."""
        self._ending = True
        self._out.wake()

    def stop(self) -> None:
        """Stop a stream without an answer, because its reader has disconnected."""
        self.leave()
        self.end()

    def replay(self, event_id: str, data: bytes) -> None:
        """Queue an event of an earlier stream under its own id."""
        self._put(data, event_id)

    async def wait_written(self) -> None:
        """Wait until everything is written."""
        if self._task is not None:
            await self._task

    async def finish(self, message: dict[str, Any] | list[Any] | None, status: int = 200) -> None:
        """Send the answer, as one JSON body or as the last event; None ends the stream without one.

        The message is emptied as soon as it is encoded.
        """
        if self._task is None:
            if not self.connected:
                return
            if message is None:
                await respond(self._send, status, [*EVENTS, *self._headers], sse.comment())
                return
            headers = [*JSON, *self._headers]
            if self._rejection is not None and isinstance(message, dict):
                status, header = self._rejection
                headers.append(header)
            if self._json or status != 200:
                # What it was made of would wait for a slow reader, too.
                await respond(self._send, status, headers, jsonrpc.encode_and_empty(message))
                return
        if message is not None:
            for one in message if isinstance(message, list) else [message]:
                self._put(jsonrpc.encode(one))
        self.end()
        await self.wait_written()

    def _put(self, data: bytes, event_id: str | None = None) -> None:
        in_bounds = self._out.put((data, event_id), len(data))
        self.commit()
        if self.connected and not in_bounds:
            if self._refuse is not None:
                self._refuse("queue")
            self.leave()
            if self.on_slow is not None:
                self.on_slow()

    # --- the writing task ----------------------------------------------------------------------------------------

    async def _write(self) -> None:
        try:
            await self._start()
            await self._out.run(self._emit, self._idle, self._beat, HEARTBEAT_SECONDS)
        except Exception:
            log.exception("An event stream failed")
            self.leave()
        finally:
            if self._log is not None:
                await self._log.finish()
            await self._shut()

    async def _idle(self) -> bool:
        if self._stopping_early:
            self.connected = False
        if not self.connected:
            await self._shut()
        return self._ending

    async def _start(self) -> None:
        if not self.connected and self._log is None:
            return
        await self._send({"type": "http.response.start", "status": 200, "headers": [*EVENTS, *self._headers]})
        self._open = True
        if self._log is not None and self._log.primes:
            await self._body(sse.priming(await self._log.start(), RETRY_MS))
        elif not len(self._out):
            # Daphne delays the status and the headers until a body follows them.
            await self._body(sse.comment())

    async def _emit(self, event: tuple[bytes, str | None]) -> None:
        data, event_id = event
        if self._log is not None:
            event_id = await self._log.append(data)
        if self.connected:
            await self._body(sse.event(data, event_id))

    async def _beat(self) -> None:
        """Send a comment regularly, so that proxies keep the connection open."""
        if self.connected:
            await self._body(sse.comment())

    async def _body(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def _shut(self) -> None:
        """End the HTTP response; Daphne ignores it when the client has disconnected."""
        if self._open:
            self._open = False
            await self._send({"type": "http.response.body", "body": b""})
