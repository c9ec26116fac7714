"""How often one user may ask for what is not a call, and how many refused calls get entries of their own in the log.

Calls have the limits of their tools, and so many may run at one time. Lists, completion and questions about tasks
cost the process as much as a small call, and nothing else bounds them.
"""

from __future__ import annotations

import math
import time

from django.conf import settings

from audit.types import Reason
from toolhub.rates import Rates, per_second
from toolhub.wire.errors import INTERNAL_ERROR, McpError
from toolhub.wire.meta import RETRY_AFTER

BURST_SECONDS = 10
"""The requests of so many seconds may come at once: a client lists everything when it connects."""
OWN_ENTRIES_PER_SECOND, MAX_OWN_ENTRIES_AT_ONCE = 10, 200
"""Refused calls of one user that get entries of their own; of those beyond, each entry counts many."""


class RequestRates:
    """The rates of each user in this process."""

    def __init__(self) -> None:
        rate = per_second(settings.REQUESTS_RATE)
        self._requests = Rates(rate, math.ceil(rate * BURST_SECONDS))
        self._own_entries = Rates(OWN_ENTRIES_PER_SECOND, MAX_OWN_ENTRIES_AT_ONCE)

    def count_request(self, user_id: int) -> None:
        """Count a request that is not a call. Raises TooManyRequests."""
        wait = self._requests.take(user_id, time.monotonic())
        if wait:
            sentence = f"Too many requests: one user may send {settings.REQUESTS_RATE} that are not calls"
            raise TooManyRequests("requests", sentence, wait)

    def takes_own_entry(self, user_id: int) -> bool:
        """Return whether one more refused call of this user gets an entry of its own in the audit log."""
        return not self._own_entries.take(user_id, time.monotonic())


class TooManyRequests(McpError):
    """A flood of one user, refused before anything was done about it; over HTTP with status 429."""

    def __init__(self, bound: str, sentence: str, seconds: float = 1.0, reason: Reason | None = None) -> None:
        self.retry_after = max(1, math.ceil(seconds))
        data = {RETRY_AFTER: self.retry_after}
        super().__init__(INTERNAL_ERROR, f"{sentence}. Try again in {self.retry_after} s.", data)
        self.bound = bound
        """Its name in `toolhub.refusals`."""
        self.reason = reason
        """For the audit log, where the method is logged."""
