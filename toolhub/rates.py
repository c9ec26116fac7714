"""Rates that are checked before anything else happens, in memory, in a microsecond.

Not django-ratelimit, which counts the calls of tools: it asks a cache for each request (Redis, in a thread) and begins
a new window with its whole rate at once. These come before each WebSocket frame, and spread evenly.

Generic cell rate algorithm (ITU-T I.371): one number for each key, the time at which its bucket would be full again.
"""

from __future__ import annotations

import random
from collections.abc import Hashable

MAX_KEYS = 10_000
REFUSALS_PER_SECOND = 20
REFUSAL_SECONDS = 1.0
_random = random.SystemRandom()
PERIODS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def split(rate: str) -> tuple[int, int]:
    """Return the number and the period, in seconds, of a rate such as 60/m or 100/10s."""
    number, _, period = rate.partition("/")
    return int(number), int(period[:-1] or 1) * PERIODS[period[-1]]


def per_second(rate: str) -> float:
    """Return the number per second of a rate such as 60/m or 100/10s."""
    number, seconds = split(rate)
    return number / seconds


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


class RefusalDelays:
    """How much later a refusal is sent to a sender that gets more than 20 of them a second.

    Whoever tries again at each of them would otherwise be answered as fast as the process can: behind a proxy, hundreds
    of such clients doubled the time of everybody's calls (measured). Each delay is another one, a second on average:
    hundreds that are refused together would come again together.
    """

    __slots__ = ("_rates",)

    def __init__(self) -> None:
        self._rates = Rates(REFUSALS_PER_SECOND, REFUSALS_PER_SECOND)

    def find(self, key: Hashable, now: float) -> float:
        """Count a refusal of this key; return the seconds until it is to be sent. `now` is in monotonic seconds."""
        return REFUSAL_SECONDS * _random.uniform(0.5, 1.5) if self._rates.take(key, now) else 0.0
