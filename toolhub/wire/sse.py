"""Server-sent events, written. One JSON-RPC message is one `data` line: the encoder never emits a line break."""

from __future__ import annotations

COMMENT = b":\n\n"


def event(data: bytes, id: str | None = None, retry: int | None = None) -> bytes:
    """One event with one message. `retry` is in milliseconds."""
    return b"%sevent: message\ndata: %s\n\n" % (_head(id, retry), data)


def priming(id: str, retry: int | None = None) -> bytes:
    """An event without content that gives the client an id to come back with, and how long to wait before it does."""
    return _head(id, retry) + b"data: \n\n"


def comment() -> bytes:
    """A line that clients ignore and that keeps a quiet connection open."""
    return COMMENT


def _head(id: str | None, retry: int | None) -> bytes:
    head = b""
    if id is not None:
        if "\n" in id or "\r" in id or "\0" in id:
            raise ValueError("an event id is one line without NUL")
        head = b"id: %s\n" % id.encode()
    if retry is not None:
        head += b"retry: %d\n" % retry
    return head
