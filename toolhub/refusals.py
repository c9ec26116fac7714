"""What a bound refused, cut or slowed down, counted by reason, with one line in the log per address and minute.

Each bound of connections and requests calls `add`; the page *Sessions* shows the counts of every process.
"""

from __future__ import annotations

import logging
import time
from collections import Counter

log = logging.getLogger("toolhub.edge")

INTERVAL_SECONDS = 60.0
MAX_ADDRESSES = 1_000
"""Maximum number of addresses that get lines of their own in one interval; what the others did is one line."""

FROM_OTHERS = "other addresses"
UNKNOWN = "an unknown address"

SENTENCES = {
    "headers": "the headers of a request took longer than TOOLHUB_HEADER_SECONDS",
    "websocket_headers": "a WebSocket handshake took longer than TOOLHUB_WEBSOCKET_HEADER_SECONDS",
    "slow_body": "a body came slower than TOOLHUB_MIN_BYTES_PER_SECOND",
    "slow_reader": "an answer was read slower than TOOLHUB_MIN_BYTES_PER_SECOND",
    "unread": "answers that nobody reads held more than TOOLHUB_MAX_UNREAD_MB",
    "queue": "more messages than TOOLHUB_MAX_QUEUED_KB waited for the reader of a stream or WebSocket",
    "large": "a request was larger than TOOLHUB_MAX_BODY_BYTES",
    "uploads": "large requests in transit held more than TOOLHUB_MAX_UPLOADS_MB",
    "evicted": "an idle connection made room for a new one",
    "per_address": "the address has TOOLHUB_MAX_CONNECTIONS_PER_ADDRESS connections",
    "total": "the server has TOOLHUB_MAX_CONNECTIONS connections",
    "streams": "the user has TOOLHUB_MAX_STREAMS_PER_USER streams and WebSockets",
    "requests": "a user sent requests faster than TOOLHUB_REQUESTS_RATE",
    "calls": "a user has TOOLHUB_MAX_CALLS_PER_USER running calls",
    "in_progress": "a session or WebSocket has TOOLHUB_MAX_REQUESTS_PER_SESSION requests in progress",
    "frames": "WebSocket frames came faster than TOOLHUB_WEBSOCKET_FRAMES_RATE and have to wait",
    "pings": "WebSocket pings came faster than TOOLHUB_WEBSOCKET_PINGS_RATE",
    "messages": "a WebSocket brought more messages than can wait",
    "invalid_tokens": "invalid tokens came faster than TOOLHUB_BAD_TOKENS_RATE",
    "log_queue": "too many calls waited for the audit log",
}
"""What happened, by reason."""


class Refusals:
    """Counts since the start of the process, and the lines about the current interval."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.last: dict[str, float] = {}
        """Unix seconds of the latest event, by reason."""
        self._waiting: dict[str, Counter[str]] = {}
        """By address that has had its line in this interval: what came after that line."""
        self._ends_at: float | None = None

    def add(self, reason: str, address: str) -> None:
        """Count one event of a bound; `address` is the one that counts ("" for an unknown one)."""
        self.counts[reason] += 1
        self.last[reason] = time.time()
        name = address or UNKNOWN
        waiting = self._waiting.get(name)
        if waiting is not None:
            waiting[reason] += 1
            return
        if len(self._waiting) >= MAX_ADDRESSES:
            self._waiting.setdefault(FROM_OTHERS, Counter())[reason] += 1
            return
        self._waiting[name] = Counter()
        log.warning("Limit reached by %s: %s", name, SENTENCES[reason])

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
                reasons = ", ".join(f"{SENTENCES[reason]} ({count} times)" for reason, count in counts.most_common())
                log.warning("Limits reached %d more times by %s: %s", counts.total(), name, reasons)
