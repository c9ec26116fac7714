"""What was refused or cut, counted by reason, with one line in the log per address and minute."""

from __future__ import annotations

import logging
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
    "held": "answers that nobody reads held more than TOOLHUB_MAX_UNREAD_MB",
    "large": "a request was larger than TOOLHUB_MAX_BODY_BYTES",
    "evicted": "an idle connection made room for a new one",
    "per_address": "the address has TOOLHUB_MAX_CONNECTIONS_PER_ADDRESS connections",
    "total": "the server has TOOLHUB_MAX_CONNECTIONS connections",
}
"""What happened, by reason."""


class Refusals:
    """Counts since the start of the process, and the lines about the current interval."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._waiting: dict[str, Counter[str]] = {}
        """By address that has had its line in this interval: what came after that line."""
        self._ends_at: float | None = None

    def add(self, reason: str, address: str) -> None:
        """Count one connection that was refused or cut; `address` is the counted one ("" for an unknown one)."""
        self.counts[reason] += 1
        name = address or UNKNOWN
        waiting = self._waiting.get(name)
        if waiting is not None:
            waiting[reason] += 1
            return
        if len(self._waiting) >= MAX_ADDRESSES:
            self._waiting.setdefault(FROM_OTHERS, Counter())[reason] += 1
            return
        self._waiting[name] = Counter()
        log.warning("Cut a connection from %s: %s", name, SENTENCES[reason])

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
            for reason, count in counts.items():
                log.warning("Cut %d more connections from %s: %s", count, name, SENTENCES[reason])
