"""What a bound refused, cut or slowed down, counted by reason, with one line in the log per address and minute.

Each bound of connections and requests calls `add`; the page *Sessions* shows the counts of every process. The bounds of
a user have a line for each user at an address: behind one address there may be a whole office.
"""

from __future__ import annotations

import logging
import time
from collections import Counter

log = logging.getLogger("toolhub.edge")

INTERVAL_SECONDS = 60.0
MAX_NAMES = 1_000
"""Maximum number of addresses and users that get lines of their own in one interval; the others share one line."""

FROM_OTHERS = "others"
UNKNOWN = "an unknown address"

SENTENCES = {
    "silent": "a new connection sent nothing for TOOLHUB_HEADER_SECONDS",
    "headers": "the headers of a request took longer than TOOLHUB_HEADER_SECONDS",
    "websocket_headers": "a WebSocket handshake took longer than TOOLHUB_WEBSOCKET_HEADER_SECONDS",
    "slow_body": "a body came slower than TOOLHUB_MIN_BYTES_PER_SECOND",
    "slow_reader": "an answer was read slower than TOOLHUB_MIN_BYTES_PER_SECOND",
    "unread": "answers that nobody reads held more than TOOLHUB_MAX_UNREAD_MB",
    "queue": "more than TOOLHUB_MAX_QUEUED_KB or 1,024 messages waited for the reader of a stream or WebSocket",
    "chunks": "a body came in too many small chunks",
    "large": "a request was larger than TOOLHUB_MAX_BODY_BYTES",
    "uploads": "large requests in transit held more than TOOLHUB_MAX_UPLOADS_MB",
    "evicted": "an idle connection made room for a new one",
    "evicted_busy": "a request that was still arriving made room for a new connection",
    "per_address": "the address has its maximum of connections (TOOLHUB_MAX_CONNECTIONS_PER_ADDRESS)",
    "arrivals": "new connections came faster than TOOLHUB_CONNECTIONS_RATE and had to wait",
    "total": "the worker has its maximum of connections (TOOLHUB_MAX_CONNECTIONS)",
    "streams": "the user has the maximum of open streams and WebSockets (TOOLHUB_MAX_STREAMS_PER_USER)",
    "all_streams": "the worker has 10,000 open streams and WebSockets",
    "requests": "the user sent requests faster than TOOLHUB_REQUESTS_RATE",
    "calls": "the user has the maximum of running calls (TOOLHUB_MAX_CALLS_PER_USER)",
    "in_progress": "a session or WebSocket has the maximum of requests in progress (TOOLHUB_MAX_REQUESTS_PER_SESSION)",
    "frames": "WebSocket frames came faster than TOOLHUB_WEBSOCKET_FRAMES_RATE and had to wait",
    "frames_cut": "WebSocket frames kept coming faster than TOOLHUB_WEBSOCKET_FRAMES_RATE",
    "pings": "WebSocket pings came faster than TOOLHUB_WEBSOCKET_PINGS_RATE",
    "messages": "a WebSocket brought more messages than can wait",
    "invalid_tokens": "invalid tokens came faster than TOOLHUB_BAD_TOKENS_RATE",
    "lookups": "too many tokens waited for the database",
    "pages": "requests of pages had to wait (TOOLHUB_MAX_PAGES_PER_ADDRESS, TOOLHUB_MAX_PAGES)",
    "log_queue": "too many calls waited for the audit log",
}
"""What happened, by reason."""
ORDINARY = frozenset({"silent", "pages"})
"""Reasons that honest browsers give, too: they are counted, and logged as information only."""


class Refusals:
    """Counts since the start of the process, and the lines about the current interval."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.last: dict[str, float] = {}
        """Unix seconds of the latest event, by reason."""
        self._waiting: dict[str, Counter[str]] = {}
        """By name of the sender that has had its line in this interval: what came after that line."""
        self._ends_at: float | None = None

    def add(self, reason: str, address: str, user: str = "") -> None:
        """Count one event of a bound.

        `address` is the one that counts ("" for an unknown one), `user` the name of the user whose bound it is.
        """
        self.counts[reason] += 1
        self.last[reason] = time.time()
        if reason in ORDINARY and not log.isEnabledFor(logging.INFO):
            return
        name = address or UNKNOWN
        if user:
            name = f"{user} ({name})"
        waiting = self._waiting.get(name)
        if waiting is not None:
            waiting[reason] += 1
            return
        if len(self._waiting) >= MAX_NAMES:
            self._waiting.setdefault(FROM_OTHERS, Counter())[reason] += 1
            return
        self._waiting[name] = Counter()
        log.log(_level({reason}), "Limit reached by %s: %s", name, SENTENCES[reason])

    def write_due(self, now: float) -> None:
        """Write what has happened since the first lines, once their interval is over.

        To be called every second (`now`: monotonic seconds).
        """
        if not self._waiting:
            return
        if self._ends_at is None:
            self._ends_at = now + INTERVAL_SECONDS
        if now < self._ends_at:
            return
        waiting, self._waiting, self._ends_at = self._waiting, {}, None
        for name, counts in waiting.items():
            if counts:
                reasons = ", ".join(f"{SENTENCES[reason]} ({_times(count)})" for reason, count in counts.most_common())
                log.log(_level(set(counts)), "Limits reached %s more by %s: %s", _times(counts.total()), name, reasons)


def _level(reasons: set[str]) -> int:
    return logging.INFO if reasons <= ORDINARY else logging.WARNING


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"
