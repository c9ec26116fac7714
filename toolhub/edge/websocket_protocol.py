"""Daphne's WebSocket protocol with an orderly end for clients that break the protocol.

Autobahn drops the connection at the first invalid byte, so that the client learns only that it is gone (1006). Here a
close frame says why (RFC 6455, 7.1.7), and what the client still sends is discarded until it answers, or its time is
up: a socket that is closed with unread bytes is reset, and the reset can overtake the close frame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autobahn.util import encode_truncate
from daphne.ws_protocol import WebSocketProtocol

if TYPE_CHECKING:
    from toolhub.edge.channel import EdgeChannel

CLOSE_SECONDS = 5.0
"""How long a client may take to answer a close frame. Autobahn's second is too short for a busy or distant one."""
MAX_EARLY_BYTES = 65_536
"""What a client may send before its handshake is answered."""
MAX_REASON_BYTES = 123
"""The most that fits beside the code into a control frame (RFC 6455, 5.5)."""


class OrderlyWebSocketProtocol(WebSocketProtocol):  # type: ignore[misc]
    """A connection that fails with 1002 (invalid frame), 1007 (invalid UTF-8), or 1009 (too large)."""

    failed = False
    closeHandshakeTimeout = CLOSE_SECONDS
    channel: EdgeChannel
    """The channel that the handshake came through. It stays the producer of the transport."""

    def makeConnection(self, transport: Any) -> None:
        self.channel = transport.producer
        super().makeConnection(transport)

    def connectionLost(self, reason: Any) -> None:
        self.channel.on_lost()
        super().connectionLost(reason)

    def _fail_connection(self, code: int = 1001, reason: str = "going away") -> None:
        if self.failed:
            return  # a second mistake, in bytes that came with the first one
        if self.state != self.STATE_OPEN:
            super()._fail_connection(code, reason)
            return
        self.failed = self.failedByMe = True
        self.wasClean, self.wasNotCleanReason = False, reason
        self.sendCloseFrame(code=code, reasonUtf8=encode_truncate(reason, MAX_REASON_BYTES), isReply=False)
        self.transport.loseWriteConnection()

    def dataReceived(self, data: bytes) -> Any:
        if self.failed:
            return None
        if self.state == self.STATE_CONNECTING and len(self.data) > MAX_EARLY_BYTES:
            # Autobahn would keep all that is sent while the token is looked up.
            self.dropConnection(abort=True)
            return None
        return super().dataReceived(data)
