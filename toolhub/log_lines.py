"""Lines of the server log: what a tool or a client sent can neither begin a line nor control a terminal.

Every record is one line. The lines of a traceback follow it, each behind a mark that no record begins with.
"""

from __future__ import annotations

import logging
import re
import time

CONTINUATION = "  | "
"""Begins each further line of a record: the lines of a traceback or stack."""
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
"""Controls (tab and newline too), all line separators of Unicode, and characters that turn the direction of a line."""
_LINK_TOKEN = re.compile(r"(/invitation/|/password/new/[\w-]+/)[\w-]+")
"""The token of a link to an invitation or to a new password, in the address that Django logs with an error."""
EXPECTED_STATUSES = range(400, 500)
MAX_EXPECTED_LINES, INTERVAL_SECONDS = 60, 60.0
"""Lines about such answers in each interval: with one for each request, a flood of them would fill the disk."""
MAX_EXPECTED_CHARACTERS = 500
"""Of such a line, which may have the address that the client sent."""


def escape(text: str) -> str:
    r"""Return `text` as one line, with `\n`, `\x1b` or `\u2028` for each such character."""
    return _CONTROL.sub(_escape_match, text)


def hide_tokens(text: str) -> str:
    """Return `text` without the tokens of links that are sent to people."""
    return _LINK_TOKEN.sub(r"\1[hidden]", text)


class LineFormatter(logging.Formatter):
    """A formatter that escapes control characters wherever they come from: message, traceback, stack, or logger."""

    def format(self, record: logging.LogRecord) -> str:
        record.message = record.getMessage()
        if self.usesTime():
            record.asctime = self.formatTime(record, self.datefmt)
        lines = [hide_tokens(escape(self.formatMessage(record)))]
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        for part in (record.exc_text, record.stack_info and self.formatStack(record.stack_info)):
            lines += [CONTINUATION + hide_tokens(escape(line)) for line in part.split("\n")] if part else []
        return "\n".join(lines)


class ExpectedErrors(logging.Filter):
    """A filter for answers below status 500: without tracebacks, and so many lines a minute.

    A wrong host or a missing permission is no bug, and anybody can ask for pages that are not there.
    """

    def __init__(self) -> None:
        super().__init__()
        self._passed = self._left_out = 0
        self._ends_at = float("-inf")

    def filter(self, record: logging.LogRecord) -> bool:
        expected = getattr(record, "status_code", None) in EXPECTED_STATUSES
        if not expected and not record.name.startswith("django.security"):
            return True
        record.exc_info, record.exc_text, record.stack_info = None, None, None
        now = time.monotonic()
        if now >= self._ends_at:
            left_out, self._passed, self._left_out = self._left_out, 0, 0
            self._ends_at = now + INTERVAL_SECONDS
            if left_out:
                record.msg, record.args = "(%d lines were left out) %s", (left_out, record.getMessage())
        self._passed += 1
        if self._passed > MAX_EXPECTED_LINES:
            self._left_out += 1
            return False
        message = record.getMessage()
        if len(message) > MAX_EXPECTED_CHARACTERS:
            record.msg, record.args = "%s…", (message[:MAX_EXPECTED_CHARACTERS],)
        return True


def _escape_match(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape", "surrogatepass").decode("ascii")
