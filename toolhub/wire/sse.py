"""Server-sent events: one JSON-RPC message is one `data` line, because the encoder never emits a line break."""

from __future__ import annotations

COMMENT = b":\n\n"


def event(data: bytes, id: str | None = None, retry: int | None = None) -> bytes:
    """Encode one event with one message. `retry` is in milliseconds."""
    return b"%sevent: message\ndata: %s\n\n" % (_head(id, retry), data)


def priming(id: str, retry: int | None = None) -> bytes:
    """Encode an event without content.

    It gives the client an id to resume from, and the delay before it does. `retry` is in milliseconds.
    """
    return _head(id, retry) + b"data: \n\n"


def comment() -> bytes:
    """Encode a line that clients ignore and that keeps a quiet connection open."""
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
