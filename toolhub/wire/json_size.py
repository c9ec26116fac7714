"""How many values JSON has, counted before it is decoded.

Decoding takes as long as there are values, not bytes: a megabyte of empty objects takes 0.1 s with `json` and 0.25 s
with pydantic (measured), a megabyte of one text almost nothing. No other thread runs meanwhile. A value is counted by
the comma or the opening bracket in front of it.
"""

from __future__ import annotations

import re
from typing import Final

MAX_VALUES: Final = 200_000
"""Maximum number of values in one message, or in one answer of a tool's server or process."""

# Ends at the closing quote or at the end of the body, and never backtracks: linear on any input.
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
# The same in one piece of JSON that arrives in several: a string ends with its line at the latest.
_LINE_STRING: Final = re.compile(rb'"(?:[^"\\\r\n]++|\\[^\r\n])*+(?:"|\\?(?=[\r\n]|\Z))')
_STRING_REST: Final = re.compile(rb'(?:[^"\\\r\n]++|\\[^\r\n])*+')
_OUTSIDE_AT_END: Final = re.compile(rb'(?:[^"\\]++|"(?:[^"\\]++|\\.)*+"|\\.)*+\Z', re.DOTALL)
_END_OF_EVENT: Final = re.compile(rb"\n\n|\r\r|\r\n\r\n")


def strip_strings(body: bytes) -> bytes:
    """Return the JSON without its strings."""
    return _STRING.sub(b"", body)


def has_many_strings(body: bytes) -> bool:
    """Return whether there are so many strings that looking at each would take longer than decoding."""
    return body.count(b'"') - body.count(b'\\"') > 2 * MAX_VALUES


def count_values(bare: bytes) -> int:
    """Return the number of values in JSON without its strings."""
    return bare.count(b"{") + bare.count(b"[") + bare.count(b",")


def has_too_many_values(body: bytes) -> bool:
    """Return whether the JSON has more than MAX_VALUES values."""
    if len(body) <= MAX_VALUES or count_values(body) <= MAX_VALUES:
        return False
    return has_many_strings(body) or count_values(strip_strings(body)) > MAX_VALUES


class ValueCounter:
    """Counts the values of JSON that arrives in pieces: of one body, or of each event of an event stream (SSE)."""

    def __init__(self, *, events: bool = False) -> None:
        self._events = events
        self._values = 0
        self._in_string = False
        self._rest = b""
        """The end of the last piece, if more is needed to understand it."""

    def add(self, piece: bytes) -> tuple[int, int]:
        """Return the number of values in this piece, and the most that a message has in it or has had so far."""
        data, self._rest = self._rest + piece, b""
        if self._in_string:
            end = _STRING_REST.match(data).end()  # type: ignore[union-attr]
            if data[end:] in {b"", b"\\"}:
                self._rest = data[end:]
                return 0, self._values
            self._in_string = False
            data = data[end + 1 :] if data[end : end + 1] == b'"' else data[end:]
        bare = _LINE_STRING.sub(b"", data)
        line = data[max(data.rfind(b"\n"), data.rfind(b"\r")) + 1 :]
        if b'"' in line and not _OUTSIDE_AT_END.match(line):
            self._in_string = True
            self._rest = b"\\" * ((len(line) - len(line.rstrip(b"\\"))) % 2)
        elif self._events:
            # The end of an event may be in two pieces.
            lines = bare.rstrip(b"\r\n")
            bare, self._rest = lines, bare[len(lines) :][-4:]
        messages = _END_OF_EVENT.split(bare) if self._events else [bare]
        found = [count_values(message) for message in messages]
        most = max(self._values + found[0], *found[1:], 0)
        self._values = found[-1] + (self._values if len(found) == 1 else 0)
        return sum(found), most
