"""Rates that are checked before anything else happens, in memory, in a microsecond.

Not django-ratelimit, which counts the calls of tools: it asks a cache for each request (Redis, in a thread) and begins
a new window with its whole rate at once. These come before each WebSocket frame, and spread evenly.

Generic cell rate algorithm (ITU-T I.371): one number for each key, the time at which its bucket would be full again.
"""

from __future__ import annotations

from collections.abc import Hashable

MAX_KEYS = 10_000
PERIODS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def per_second(rate: str) -> float:
    """Return the number per second of a rate such as 60/m or 100/10s."""
    number, _, period = rate.partition("/")
    return int(number) / (int(period[:-1] or 1) * PERIODS[period[-1]])


class Rates:
    """Who has used how much of one rate; a rate of 0 has no limit."""

    __slots__ = ("_full_at", "_interval", "_tolerance")

    def __init__(self, per_second: float, burst: int) -> None:
        """Allow `per_second` of each key, and `burst` at once."""
        self._interval = 1 / per_second if per_second else 0.0
        self._tolerance = self._interval * (max(burst, 1) - 1)
        self._full_at: dict[Hashable, float] = {}

    def take(self, key: Hashable, now: float) -> float:
        """Use one of this key and return 0.0; or use none, and return the seconds until there is one.

        `now` is in monotonic seconds.
        """
        full_at = self._full_at.get(key, now)
        if full_at < now:
            full_at = now
        wait = full_at - now - self._tolerance
        if wait > 1e-9:
            return wait
        if key not in self._full_at and len(self._full_at) >= MAX_KEYS:
            self._forget(now)
        self._full_at[key] = full_at + self._interval
        return 0.0

    def _forget(self, now: float) -> None:
        """Drop the keys that have all of their burst again; if there are none, the one that was added first."""
        self._full_at = {key: at for key, at in self._full_at.items() if at > now}
        while len(self._full_at) >= MAX_KEYS:
            del self._full_at[next(iter(self._full_at))]
