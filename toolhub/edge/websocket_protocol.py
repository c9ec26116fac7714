"""Daphne's WebSocket protocol with bounds for frames and messages, and an orderly end for clients that break the rules.

A client that sends frames faster than its user may, or messages faster than the application begins them, has to wait:
nothing more is read from it, and its connection ends when that goes on. Pings have no honest reason to come in floods:
they end the connection at once, and so does a message that stalls.

Autobahn drops the connection at the first invalid byte, so that the client learns only that it is gone (1006). Here a
close frame says why (RFC 6455, 7.1.7), and what the client still sends is discarded until it answers, or its time is
up: a socket that is closed with unread bytes is reset, and the reset can overtake the close frame.
"""

from __future__ import annotations

import asyncio
import time
from math import inf
from typing import TYPE_CHECKING, Any

from autobahn.util import encode_truncate
from daphne.ws_protocol import WebSocketProtocol

from toolhub.rates import Rates
from toolhub.transports.uploads import FREE_BYTES, TooManyUploads, Upload

if TYPE_CHECKING:
    from toolhub.edge.channel import EdgeChannel

CLOSE_SECONDS = 5.0
"""How long a client may take to answer a close frame. Autobahn's second is too short for a busy or distant one."""
MAX_EARLY_BYTES = 65_536
"""What a client may send before its handshake is answered."""
MAX_REASON_BYTES = 123
"""The most that fits beside the code into a control frame (RFC 6455, 5.5)."""
MAX_WAITING_MESSAGES = 32
"""Messages that wait for the application; above it nothing more is read. They are begun within a millisecond each."""
MAX_WAITING_BYTES = 262_144
FRAME_BYTES = 64
"""What a fragment of an unfinished message costs beside its content."""
PAUSE_SECONDS = 0.1
"""The shortest wait of a client that sends frames too fast: waking it for each single frame would cost more."""
WAKES_PER_SECOND = 100
"""How many waiting WebSockets of one user are woken in a second: each takes one frame, whatever the rate says."""
WAITS_PER_SECOND, MAX_WAITS_AT_ONCE = 1.0, 50
"""How often a client may have to wait for a tenth of a second; one that goes on is closed after six seconds. It is not
read while it waits, so that its end would not be seen before all that it has sent.
"""
PING_BURST_SECONDS = 2
"""The pings of so many seconds may come at once."""
INVALID_PAYLOAD, POLICY_VIOLATION, MESSAGE_TOO_BIG, TRY_AGAIN_LATER = 1007, 1008, 1009, 1013


class EdgeWebSocketProtocol(WebSocketProtocol):  # type: ignore[misc]
    """A connection that fails in order.

    With 1002 (invalid frame), 1007 (invalid UTF-8), 1008 (a flood of pings, a stalled message), 1009 (too large), or
    1013 (too many large messages at once).
    """

    failed = False
    closeHandshakeTimeout = CLOSE_SECONDS
    utf8validateIncoming = False
    """Whole messages are checked: Autobahn's validator took 40 % of a process that large ones flooded (measured)."""
    channel: EdgeChannel
    """The channel that the handshake came through. It stays the producer of the transport."""
    _upload: Upload | None = None
    """The unfinished message, as far as it is larger than FREE_BYTES."""
    _unfinished_bytes = 0
    """Bytes of the unfinished message, with what its fragments cost."""
    _checked_bytes = 0
    """What these were when the current period began in which some must arrive."""
    _too_fast: asyncio.TimerHandle | None = None
    """Set while the client has to wait for its frames."""
    _waiting_bytes = 0

    def makeConnection(self, transport: Any) -> None:
        self.channel = transport.producer
        self.channel.socket = self
        self._waiting: list[int] = []
        """The sizes of the messages that the application has not begun."""
        limit = self.channel.connections.limits.pings_per_second
        self._waits = Rates(WAITS_PER_SECOND, MAX_WAITS_AT_ONCE)
        self._pings = Rates(limit, int(limit * PING_BURST_SECONDS))
        super().makeConnection(transport)

    def connectionLost(self, reason: Any) -> None:
        if self._too_fast is not None:
            self._too_fast.cancel()
            self._end_wait()
        self._end_message()
        self.channel.on_lost()
        super().connectionLost(reason)
        # What is in a cycle would wait for the garbage collector; these futures have the protocol as their result.
        self.is_closed = None
        self.__dict__.pop("handshake_deferred", None)
        self.channel.forget_requests()

    # --- the rates of frames ------------------------------------------------------------------------------------------

    @property
    def is_paused(self) -> bool:
        is_full = len(self._waiting) >= MAX_WAITING_MESSAGES or self._waiting_bytes >= MAX_WAITING_BYTES
        return is_full or self._too_fast is not None

    def processData(self) -> bool:
        # The loop of Autobahn ends with False; what was received stays in `data`.
        if self.failed or self.is_paused:
            return False
        more: bool = super().processData()
        return more

    def onFrameBegin(self) -> None:
        channel, now = self.channel, time.monotonic()
        if self.current_frame.opcode > 7 and self._pings.take(None, now):
            channel.refuse("pings")
            most = channel.connections.limits.pings_per_second
            self._fail_connection(POLICY_VIOLATION, f"Too many pings: at most {most:g} a second")
            return
        sender = self._sender
        if wait := channel.connections.frames.take(sender, now):
            waiting = channel.connections.waiting_for_frames
            pause = max(wait, PAUSE_SECONDS, (waiting[sender] + 1) / WAKES_PER_SECOND)
            if any(self._waits.take(None, now) for _ in range(round(pause / PAUSE_SECONDS))):
                channel.refuse("frames_cut")
                most = channel.connections.limits.frames_per_second
                self._fail_connection(POLICY_VIOLATION, f"Too many frames: at most {most:,g} a second")
                return
            channel.refuse("frames")
            loop = asyncio.get_running_loop()
            waiting[sender] += 1
            self._too_fast = loop.call_later(pause, self._on_waited)
            self.transport.pauseProducing()
        super().onFrameBegin()

    @property
    def _sender(self) -> str:
        """Whose frames and uploads these are: of the user, once there is one, else of the address."""
        channel = self.channel
        return channel.source if channel.user_id is None else f"user:{channel.user_id}"

    def _on_waited(self) -> None:
        self._end_wait()
        self._resume()

    def _end_wait(self) -> None:
        self._too_fast = None
        waiting, sender = self.channel.connections.waiting_for_frames, self._sender
        waiting[sender] -= 1
        if not waiting[sender]:
            del waiting[sender]

    def _resume(self) -> None:
        """Read again, unless the client still has to wait for something."""
        if self.is_paused or self.failed:
            return
        if self.data:
            self.consumeData()
            self._watch_message()
        if self.channel.drained is not None:
            return  # the channel resumes, when its client has read
        if not self.is_paused:
            self.transport.resumeProducing()

    # --- the messages that wait for the application -------------------------------------------------------------------

    def onMessage(self, payload: bytes, isBinary: bool) -> None:
        self._end_message()
        if self.state != self.STATE_OPEN:
            return
        if not isBinary:
            try:
                payload.decode()
            except UnicodeDecodeError:
                self._fail_connection(INVALID_PAYLOAD, "The message is not UTF-8")
                return
        self._waiting.append(len(payload))
        self._waiting_bytes += len(payload)
        if self.is_paused:
            self.transport.pauseProducing()
        super().onMessage(payload, isBinary)

    def on_message_begun(self) -> None:
        """Note that the application works on the message that has waited for longest."""
        was_paused = self.is_paused
        self._waiting_bytes -= self._waiting.pop(0)
        if was_paused and not self.is_paused:
            # Not from here: the message would be begun inside of the turn of another one.
            asyncio.get_running_loop().call_soon(self._resume)

    # --- unfinished messages ------------------------------------------------------------------------------------------

    def onMessageFrameData(self, payload: bytes) -> None:
        if self.state != self.STATE_OPEN:
            return  # nobody reads it any more, and until the client has answered the close frame it may send much
        self._unfinished_bytes += len(payload)
        super().onMessageFrameData(payload)

    def onMessageFrameEnd(self) -> None:
        super().onMessageFrameEnd()
        if self.current_frame.fin:
            return
        self._unfinished_bytes += FRAME_BYTES
        self._count_unfinished()

    def _count_unfinished(self) -> None:
        if self._unfinished_bytes <= FREE_BYTES or self.state != self.STATE_OPEN:
            return
        if self._upload is None:
            self._upload = Upload(self.channel.connections.uploads, self._sender)
        try:
            self._upload.grow(self._unfinished_bytes)
        except TooManyUploads as full:
            self.channel.refuse("uploads")
            self._end_message()
            self._fail_connection(TRY_AGAIN_LATER, full.sentence)

    def _end_message(self) -> None:
        self._unfinished_bytes = self._checked_bytes = 0
        upload, self._upload = self._upload, None
        if upload is not None:
            upload.release()

    def _watch_message(self) -> None:
        """Begin or end the time in which a piece of an unfinished message must arrive."""
        channel = self.channel
        unfinished = self.current_frame is not None or self.inside_message or bool(self.data)
        if not unfinished:
            channel.due = inf
        elif channel.due == inf and not self.failed:
            self._checked_bytes = self._count_received()
            channel.wait_for_message()
        if unfinished:
            self._count_unfinished()

    def _count_received(self) -> int:
        return self._unfinished_bytes + len(self.data)

    def on_message_due(self) -> None:
        """End the connection when the unfinished message is slower than the minimum."""
        limits, received = self.channel.connections.limits, self._count_received()
        slow = received - self._checked_bytes < limits.min_bytes_per_second * limits.header_seconds
        if slow and not self.is_paused and self.state == self.STATE_OPEN:
            self.channel.due = inf
            self.channel.refuse("slow_body")
            rate = limits.min_bytes_per_second
            self._fail_connection(POLICY_VIOLATION, f"The message came slower than {rate:,} bytes a second")
            return
        self._checked_bytes = received
        self.channel.wait_for_message()

    # --- the end ------------------------------------------------------------------------------------------------------

    def sendCloseFrame(self, *args: Any, **options: Any) -> None:
        super().sendCloseFrame(*args, **options)
        if self.state != self.STATE_OPEN:
            self._end_message()
            for name in ("message_data", "frame_data"):
                if pieces := getattr(self, name, None):
                    pieces.clear()

    def _fail_connection(self, code: int = 1001, reason: str = "going away") -> None:
        if self.failed:
            return  # a second mistake, in bytes that came with the first one
        if self.state != self.STATE_OPEN:
            super()._fail_connection(code, reason)
            return
        if code == MESSAGE_TOO_BIG:
            self.channel.refuse("large")
        self.failed = self.failedByMe = True
        self.wasClean, self.wasNotCleanReason = False, reason
        self.sendCloseFrame(code=code, reasonUtf8=encode_truncate(reason, MAX_REASON_BYTES), isReply=False)
        self.transport.loseWriteConnection()

    def dataReceived(self, data: bytes) -> Any:
        if self.failed:
            if not self.channel.connections.may_discard(len(data)):
                self.transport.pauseProducing()
            return None
        if self.state == self.STATE_CONNECTING and len(self.data) > MAX_EARLY_BYTES:
            # Autobahn would keep all that is sent while the token is looked up.
            self.dropConnection(abort=True)
            return None
        done = super().dataReceived(data)
        if self.state == self.STATE_OPEN:
            self._watch_message()
            if self.is_paused:
                self.transport.pauseProducing()  # again: the channel resumes when a slow reader has read
        return done
