"""Daphne's WebSocket protocol with an orderly end for clients that break the protocol.

Autobahn drops the connection at the first invalid byte, so that the client learns only that it is gone (1006). Here a
close frame says why (RFC 6455, 7.1.7), and what the client still sends is discarded until it answers, or its time is
up: a socket that is closed with unread bytes is reset, and the reset can overtake the close frame.
"""

from __future__ import annotations

from typing import Any

from autobahn.util import encode_truncate
from daphne.ws_protocol import WebSocketProtocol

CLOSE_SECONDS = 5.0
"""How long a client may take to answer a close frame. Autobahn's second is too short for a busy or distant one."""
MAX_REASON_BYTES = 123
"""The most that fits beside the code into a control frame (RFC 6455, 5.5)."""


class OrderlyWebSocketProtocol(WebSocketProtocol):  # type: ignore[misc]
    """A connection that fails with 1002 (invalid frame), 1007 (invalid UTF-8), or 1009 (too large)."""

    failed = False
    closeHandshakeTimeout = CLOSE_SECONDS

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
        return None if self.failed else super().dataReceived(data)
