"""The HTTP channel of Twisted with deadlines for senders, limits for addresses, and a signal for slow readers.

Twisted closes a connection that is silent for a minute, and every byte begins that minute again. Here the headers of a
request, and each piece of its body, have a deadline. The events of the transport's producer, which Twisted uses to stop
reading from a client that does not read, also let whoever writes an answer wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import struct
import termios
import time
from math import inf
from typing import TYPE_CHECKING, Any

from django.conf import settings
from twisted.internet.protocol import connectionDone
from twisted.protocols.basic import LineReceiver
from twisted.web.http import HTTPChannel

from toolhub.client_address import HEADERS
from toolhub.edge.connections import Phase

if TYPE_CHECKING:
    from toolhub.edge.connections import Connections

PROBES = frozenset({b"/healthz", b"/readyz"})
"""Paths that are answered however many connections there are."""
WEBSOCKET_PREFIX = b"/ws/"
LINGER_SECONDS = 2.0
"""How long a client may keep sending after an early answer: a socket closed with unread bytes is reset, and the reset
can overtake the answer."""
RETRY_AFTER_SECONDS = 5
MAX_PIPELINED_BYTES = 16_384
"""Bytes of later requests that wait for the answer to the one before them."""
MAX_TRAILER_BYTES = 4096
UPLOAD_BUFFER_BYTES = 65_536
"""Bytes of a body that wait for the application; then the client has to wait, too."""


class TooManyChunks(Exception):
    """The body was refused; nothing more of it is decoded."""


class EdgeChannel(HTTPChannel):
    """One connection of a client, until it is closed; after an upgrade to WebSocket only its place in the table."""

    timeOut = None
    """No timers: `Connections.sweep` looks at `due`."""

    factory: Any
    transport: Any
    _networkProducer: Any
    _path: Any
    requests: list[Any]
    groups: tuple[str, ...] = ()
    """What the connection counts for, as `Connections` sets it."""
    address = ""
    """The counted address of the peer; "" for a trusted proxy."""
    is_proxy = False
    client = ""
    """The address of the client behind a trusted proxy, of the latest request."""
    user_id: int | None = None
    """Who sent the latest request that was identified."""
    since = 0.0
    """Unix seconds."""
    socket: Any = None
    """The WebSocket, after an upgrade."""
    over_limit = ""
    phase = Phase.FRESH
    due = inf
    """When the client is overdue, in monotonic seconds."""
    waiting_since = 0.0
    drained: asyncio.Future[None] | None = None
    """Set while the client has more to read than the transport buffers; done when it has read that, or is gone."""

    received_bytes = 0
    _window_bytes = 0
    """What had been received of this body at the start of the current window."""
    _discarded_bytes = 0
    stalled_since = 0.0
    _unsent_bytes = 0
    _rest_bytes = 0
    """What the transport has not got yet of an answer."""
    _expects_continue = False
    _has_begun = False
    """Its first request has waited for the rate of new connections."""
    _uploading_paused_at = 0.0

    @property
    def connections(self) -> Connections:
        found: Connections = self.factory.connections
        return found

    @property
    def source(self) -> str:
        """The address that this connection comes from: of the client behind a trusted proxy, else of the peer."""
        return self.client or self.address

    def refuse(self, reason: str) -> None:
        """Count what a bound did to this connection."""
        self.connections.refusals.add(reason, self.source or self._proxy())

    def _proxy(self) -> str:
        """Return words for the trusted proxy whose connection has not brought the address of a client yet."""
        host = self._peer
        return f"the proxy {host}" if host else ""

    @property
    def _peer(self) -> str:
        """The IP address of the peer; "" when it has none, or is gone."""
        return getattr(self.transport.getPeer(), "host", "") if self.transport is not None else ""

    # --- the phases of a request --------------------------------------------------------------------------------------

    def connectionMade(self) -> None:
        self.since = time.time()
        self._wait_for_headers()
        super().connectionMade()

    def dataReceived(self, data: bytes) -> None:
        phase = self.phase
        if phase is Phase.CLOSING:
            self._discarded_bytes += len(data)
            if self._discarded_bytes > settings.MAX_BODY_BYTES:
                self.transport.abortConnection()
            elif not self.connections.may_discard(len(data)):
                self.transport.pauseProducing()
            return
        if phase is Phase.IDLE:
            self.phase = Phase.HEADERS
            self.client = ""  # a proxy may send the request of another one
            self._wait_for_headers()
        LineReceiver.dataReceived(self, data)
        if self.phase is Phase.BODY:
            self._start_before_body()

    def _start_before_body(self) -> None:
        """Start the application while the body is arriving; one that came with its headers, as most do, has ended."""
        request = self.requests[-1]
        if not request.started:
            self._wait(self.connections.limits.header_seconds)
            request.start_before_body(self._command, self._path, self._version)

    def allHeadersReceived(self) -> None:
        if self.phase is Phase.FRESH:
            self.connections.on_headers(self)
        self.phase = Phase.BODY
        self.received_bytes = self._window_bytes = 0
        self._expects_continue = False
        if self.is_proxy and not self.over_limit and not self._is_probe:
            self._count_for_client()
        super().allHeadersReceived()
        if self._transferDecoder is not None and hasattr(self._transferDecoder, "_maxTrailerHeadersSize"):
            self._transferDecoder._maxTrailerHeadersSize = MAX_TRAILER_BYTES
        if self.over_limit and self.phase is Phase.BODY:
            self._answer_over_limit()

    @property
    def _is_probe(self) -> bool:
        return self._path.partition(b"?")[0] in PROBES

    def _count_for_client(self) -> None:
        """Count this request of a trusted proxy for its client."""
        every = self.requests[-1].requestHeaders
        headers = tuple((name, value) for name in HEADERS for value in every.getRawHeaders(name, ()))
        self.client = self.connections.find_client(self._peer, headers)
        if self.client:
            self.connections.begin_request(self, self.client)

    def _send100Continue(self) -> None:
        # The application first decides whether it wants the body.
        self._expects_continue = True

    def allContentReceived(self) -> None:
        if self.phase is Phase.CLOSING:
            return
        self.phase, self.due = Phase.ANSWERING, inf
        super().allContentReceived()

    def _finishRequestBody(self, data: bytes) -> None:
        super()._finishRequestBody(data)
        self._bound_pipeline()

    def lineReceived(self, line: bytes) -> None:
        if self.phase is Phase.CLOSING:
            self.clearLineBuffer()  # answered already: blank lines would end the same headers again and again
            return
        if line[:1] in (b" ", b"\t"):
            # A folded header (RFC 9112, 5.2): nobody sends one, and thousands of these lines would be one header.
            self._respondToBadRequestAndDisconnect()
            return
        if not line and self.phase is Phase.FRESH and self.requests and not self._may_begin():
            return
        super().lineReceived(line)

    def _may_begin(self) -> bool:
        """Return whether the first request, whose headers have ended, may begin; if not, it waits for `begin`."""
        if self._has_begun or self._is_probe or self.connections.may_begin(self):
            return True
        self._buffer = self.delimiter + self._buffer
        self.paused, self.due = True, inf
        self._networkProducer.pauseProducing()
        return False

    def may_upgrade(self) -> bool:
        """Return whether the WebSocket that the latest request asks for may be opened; if not, it waits for `begin`.

        One that comes directly has waited before, with the other first requests.
        """
        return not self.is_proxy or self.connections.may_begin(self)

    def begin(self) -> None:
        """Pass on the first request, or open the WebSocket, which has waited."""
        if self not in self.connections.open:
            return
        if self.phase is Phase.ANSWERING:
            self.requests[-1].upgrade()
            return
        self._has_begun, self.paused = True, False
        self._wait(self.connections.limits.header_seconds)
        self._networkProducer.resumeProducing()
        self.dataReceived(b"")

    def rawDataReceived(self, data: bytes) -> None:
        if self.phase is Phase.CLOSING:
            return  # answered already: nobody wants the body, and tiny chunks take long to decode
        if self.requests:
            self.requests[-1].chunks -= 1  # a client may send bytes one by one, if it does not send them at once
        with contextlib.suppress(TooManyChunks):
            super().rawDataReceived(data)
        self._bound_pipeline()

    def _bound_pipeline(self) -> None:
        """Read nothing more while so much of later requests waits.

        Twisted looks at that neither when it comes with the end of a body nor while an answer waits for its reader:
        each answered request then let 64 kB more in (measured, Twisted 26.10: 300 MB a second).
        """
        if self._handlingRequest and sum(map(len, self._dataBuffer)) > MAX_PIPELINED_BYTES:
            self._networkProducer.pauseProducing()

    def requestDone(self, request: Any) -> None:
        if self.phase is Phase.ANSWERING:
            self.phase = Phase.IDLE
            self._wait(self.connections.limits.keepalive_seconds)
            if self.is_proxy:
                self.connections.end_request(self)
        super().requestDone(request)
        if self.phase is Phase.BODY:  # of a request that came before the answer to the one before it
            self._start_before_body()
        if self.drained is not None and self.phase is not Phase.CLOSING:
            # Twisted does not pause for a reader that stalled while an answer was under way.
            self._networkProducer.pauseProducing()

    def identify(self, user_id: int) -> None:
        """Note who sent the request that is being answered, or opened the WebSocket."""
        self.user_id = user_id

    def on_message_begun(self) -> None:
        """Note that the application works on one more message of the WebSocket."""
        if self.socket is not None:
            self.socket.on_message_begun()

    def on_upgrade(self) -> None:
        """Become a WebSocket, which has deadlines of its own."""
        self.phase, self.due = Phase.UPGRADED, inf

    def loseConnection(self) -> Any:
        if self.phase is Phase.BODY:
            self.linger()
            return None
        if self.phase is not Phase.CLOSING:
            self.phase = Phase.CLOSING
            self._wait(self.connections.limits.slow_reader_seconds)
        return super().loseConnection()

    def connectionLost(self, reason: Any = connectionDone) -> None:
        self.on_lost()
        super().connectionLost(reason)
        self.forget_requests()

    def on_lost(self) -> None:
        """Give the place free. Twisted does not tell the channel itself about the end of a WebSocket."""
        self.connections.remove(self)
        self.due, self.socket = inf, None
        self._wake_writers()
        if self.transport is not None:
            # The transport is in a cycle with its channel: what it holds would wait for the garbage collector.
            self.transport.dataBuffer, self.transport.offset = b"", 0
            self.transport._tempDataBuffer, self.transport._tempDataLen = [], 0

    def forget_requests(self) -> None:
        """Let go of the requests and the decoder of a body, which know their channel."""
        self.requests, self._transferDecoder = [], None

    # --- answers of the edge itself -----------------------------------------------------------------------------------

    def reject(self, status: bytes, sentence: str, headers: bytes = b"") -> None:
        """Answer and close: the request is not passed on, or has not arrived in time."""
        path = getattr(self, "_path", b"")
        if path.startswith((b"/mcp", WEBSOCKET_PREFIX)):
            kind = b"application/json"
            body = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"%s"}}' % sentence.encode()
        else:
            kind, body = b"text/plain; charset=utf-8", sentence.encode() + b"\n"
        self.transport.write(
            b"HTTP/1.1 %s\r\nContent-Type: %s\r\nCache-Control: no-store\r\n%sConnection: close\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (status, kind, headers, len(body), body)
        )
        self.linger()

    def _answer_over_limit(self) -> None:
        self.persistent = False
        if self._is_probe:
            return
        self.refuse(self.over_limit)
        self.requests[-1].rejected = True
        delay = self.connections.refusal_delays.find(self.source, time.monotonic()) if self.is_proxy else 0.0
        if delay:
            self.phase = Phase.CLOSING
            self._wait(inf)
            self.transport.pauseProducing()
            asyncio.get_running_loop().call_later(delay, self._reject_late)
        else:
            self._reject_over_limit()

    def _reject_late(self) -> None:
        if self in self.connections.open:
            self._reject_over_limit()

    def _reject_over_limit(self) -> None:
        retry = b"Retry-After: %d\r\n" % RETRY_AFTER_SECONDS
        if self.over_limit == "per_address":
            most = self.connections.limits.max_connections_per_address
            held = "requests and WebSockets in progress" if self.is_proxy else "connections"
            sentence = f"Your address has {most:,} {held} here. Close some"
        else:
            sentence = "This server has no free connection. Wait"
        self.reject(b"503 Service Unavailable", f"{sentence}, and try again in {RETRY_AFTER_SECONDS} s.", retry)

    def linger(self) -> None:
        """Close after what is written, and discard what the client still sends, for a short time."""
        self.phase = Phase.CLOSING
        self._wait(LINGER_SECONDS)
        self.transport.unregisterProducer()
        self.transport.resumeProducing()
        self.transport.loseWriteConnection()

    def has_unread(self) -> bool:
        """Return whether the client has sent something that this process, being busy, has not read yet.

        False while nothing is read from a client because it does not read itself.
        """
        if self.drained is not None:
            return False
        try:
            waiting = fcntl.ioctl(self.transport.fileno(), termios.FIONREAD, b"\0\0\0\0")
        except (OSError, ValueError):  # closed meanwhile
            return False
        return bool(struct.unpack("i", waiting)[0])

    def evict(self) -> None:
        """Close at once: another connection needs the place.

        An answer that waits for the next round of the event loop is handed to the system before. One that the system
        does not take is lost: nothing may wait for a reader without having a place.
        """
        transport, answered = self.transport, self.phase is Phase.IDLE or self.transport.disconnecting
        if answered and self._count_buffered_bytes():
            transport.doWrite()
        if answered and not self._count_buffered_bytes():
            transport.loseConnection()  # in order: its client may not have read the answer yet
            transport.startWriting()  # one that was to close after its answer has stopped writing with that
        else:
            transport.abortConnection()

    def on_due(self, now: float) -> None:
        """Answer 408 to a request that has begun and is overdue, and close."""
        limits = self.connections.limits
        if self.phase is Phase.BODY:
            if self._uploading_paused_at:
                self._wait(limits.header_seconds)  # the application is slow, not the client
            elif self.received_bytes - self._window_bytes >= limits.min_bytes_per_second * limits.header_seconds:
                self._window_bytes = self.received_bytes
                self._wait(limits.header_seconds)
            else:
                self.refuse("slow_body")
                self.requests[-1].time_out(
                    f"The body came slower than {limits.min_bytes_per_second:,} bytes a second. "
                    "Send it again on a faster connection."
                )
        elif self.phase in {Phase.FRESH, Phase.HEADERS}:
            due = self.waiting_since + limits.header_seconds
            if now < due and not self._may_be_websocket():
                self.due = due
                return
            if not (self.requests or self._buffer):
                # Nothing was asked: browsers open connections in advance, and would show an answer to the next request.
                self.refuse("silent")
                self.loseConnection()
                return
            is_websocket = self._may_be_websocket()
            self.refuse("websocket_headers" if is_websocket else "headers")
            seconds = limits.websocket_header_seconds if is_websocket else limits.header_seconds
            sentence = f"The headers took longer than {seconds:g} s. Send the request again."
            if self.requests:
                self.requests[-1].time_out(sentence)
            else:
                self.reject(b"408 Request Timeout", sentence)
        elif self.phase is Phase.IDLE:
            self.loseConnection()
        elif self.phase is Phase.UPGRADED:
            self.socket.on_message_due()
        else:
            self.transport.abortConnection()

    def _may_be_websocket(self) -> bool:
        return bytes(getattr(self, "_path", b"")).startswith(WEBSOCKET_PREFIX)

    def _wait_for_headers(self) -> None:
        """Begin the time for headers; for a WebSocket's it is shorter, as nobody types them."""
        self._wait(self.connections.limits.websocket_header_seconds)

    def wait_for_message(self) -> None:
        """Begin the time for a piece of a WebSocket message."""
        self._wait(self.connections.limits.header_seconds)

    def _wait(self, seconds: float) -> None:
        self.waiting_since = now = time.monotonic()
        self.due = now + seconds

    # --- uploads ------------------------------------------------------------------------------------------------------

    def continue_upload(self) -> None:
        """Take more of the body, because the application wants it."""
        if self._expects_continue:
            self._expects_continue = False
            if self.phase is Phase.BODY and not self.requests[-1].startedWriting:
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if self._uploading_paused_at:
            self._uploading_paused_at = 0.0
            self._window_bytes = self.received_bytes
            if self.phase is Phase.BODY:
                self._wait(self.connections.limits.header_seconds)
            self._networkProducer.resumeProducing()

    def pause_upload(self) -> None:
        """Take nothing more of the body until the application has read what waits for it."""
        if not self._uploading_paused_at:
            self._uploading_paused_at = time.monotonic()
            self._networkProducer.pauseProducing()

    # --- slow readers -------------------------------------------------------------------------------------------------

    def pauseProducing(self) -> None:
        super().pauseProducing()
        if self.drained is None:
            self.drained = asyncio.get_running_loop().create_future()
            self.stalled_since, self._unsent_bytes = time.monotonic(), self.count_unsent_bytes()
            self.connections.waiting_for_reader[self] = None
            self._count_held()

    def resumeProducing(self) -> None:
        super().resumeProducing()
        self._wake_writers()
        if self.transport.disconnecting or self.transport._writeDisconnecting:
            # A transport that has just resumed its producer would not close by itself any more.
            self.transport.unregisterProducer()
            self.transport.startWriting()

    def stopProducing(self) -> None:
        super().stopProducing()
        self._wake_writers()

    def _wake_writers(self) -> None:
        drained, self.drained = self.drained, None
        if drained is not None:
            self.connections.waiting_for_reader.pop(self, None)
            self.connections.hold(self, 0)
            if not drained.done():
                drained.set_result(None)

    def hold(self, rest_bytes: int) -> None:
        """Count what a large answer still has to write, beside what the transport buffers, while its reader stalls."""
        self._rest_bytes = rest_bytes
        self._count_held()

    def _count_held(self) -> None:
        held = self._rest_bytes + self._count_buffered_bytes() if self.drained is not None else 0
        self.connections.hold(self, held)

    def _count_buffered_bytes(self) -> int:
        transport = self.transport
        return int(len(transport.dataBuffer) - transport.offset + transport._tempDataLen)

    def check_reader(self, now: float) -> None:
        """Drop a reader that has taken less than the minimum since the last check; called while it has to read."""
        limits = self.connections.limits
        if now - self.stalled_since < limits.slow_reader_seconds:
            return
        unsent = self.count_unsent_bytes()
        if self._unsent_bytes - unsent >= limits.min_bytes_per_second * (now - self.stalled_since):
            self.stalled_since, self._unsent_bytes = now, unsent
            return
        self.refuse("slow_reader")
        self.transport.abortConnection()

    def count_unsent_bytes(self) -> int:
        """Return the bytes that the client's machine has not acknowledged, those in the system's buffer included.

        The buffer of the system can be larger than all that a slow reader takes in a minute.
        """
        waiting = self._count_buffered_bytes()
        try:
            queued = fcntl.ioctl(self.transport.fileno(), termios.TIOCOUTQ, b"\0\0\0\0")
        except OSError:
            return waiting
        return int(waiting + struct.unpack("i", queued)[0])
