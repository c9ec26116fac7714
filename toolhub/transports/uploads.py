"""Bounds of the bodies that a process holds at one time, for each sender and in all.

Small bodies are free: the number of connections bounds them. A larger one counts from its announced size on, until its
request is answered.
"""

from __future__ import annotations

from toolhub.transports.asgi import Headers

FREE_BYTES = 65_536
"""Up to this size a body counts for nothing."""
SENDER_SHARE = 0.5
"""The part of all bytes that one sender may hold."""
RETRY_AFTER_SECONDS = 2


class TooManyUploads(Exception):
    """No room for this body now: `status` is 429 for a sender with too many, 503 when all together are too many."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status

    @property
    def sentence(self) -> str:
        who = "You send" if self.status == 429 else "Others send"
        return f"{who} too many large requests at the same time. Try again in {RETRY_AFTER_SECONDS} s."

    def headers(self) -> Headers:
        return [(b"retry-after", b"%d" % RETRY_AFTER_SECONDS)]


class Uploads:
    """The bytes in flight by sender (a user or an address); belongs to one event loop."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes, self.max_sender_bytes = max_bytes, int(max_bytes * SENDER_SHARE)
        self.bytes = 0
        self.by_sender: dict[str, int] = {}

    def claim(self, sender: str, size: int, held: int = 0) -> None:
        """Count `size` more bytes of a body that holds `held`. Raises TooManyUploads, and then counts none.

        A body that is alone always has room.
        """
        mine = self.by_sender.get(sender, 0)
        if mine > held and mine + size > self.max_sender_bytes:
            raise TooManyUploads(429)
        if self.bytes > held and self.bytes + size > self.max_bytes:
            raise TooManyUploads(503)
        self.by_sender[sender] = mine + size
        self.bytes += size

    def release(self, sender: str, size: int) -> None:
        self.bytes -= size
        rest = self.by_sender[sender] - size
        if rest:
            self.by_sender[sender] = rest
        else:
            del self.by_sender[sender]


class Upload:
    """The body of one request."""

    __slots__ = ("_uploads", "bytes", "holder")

    def __init__(self, uploads: Uploads, holder: str = "") -> None:
        self._uploads, self.holder = uploads, holder
        self.bytes = 0

    def grow(self, size: int) -> None:
        """Count this body as one of `size` bytes. Raises TooManyUploads."""
        if size > self.bytes:
            self._uploads.claim(self.holder, size - self.bytes, self.bytes)
            self.bytes = size

    def release(self) -> None:
        if self.bytes:
            self._uploads.release(self.holder, self.bytes)
            self.bytes = 0
