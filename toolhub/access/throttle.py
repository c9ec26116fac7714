"""Throttling of guesses: the failures of one key (an address, a name), counted by django-ratelimit.

Blocks on the cache, so it is called from threads, never from the event loop. Without Redis, or while it is away, each
process counts for itself: guessing stays slow, and an outage locks nobody out.

A guess is counted before it is checked, and given back when it was right: many guesses at the same time are not more
than the rate allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from django.conf import settings
from django.core.cache import caches
from django.http import HttpRequest
from django_ratelimit import core
from django_ratelimit.core import get_usage


@dataclass(frozen=True, slots=True)
class Counter:
    """The failures of one key in one period."""

    group: str
    key: str
    rate: str


@dataclass(slots=True)
class Reservation:
    """A guess that was counted in advance, or the seconds until one may be made."""

    seconds: int = 0
    """Seconds to wait; 0 when the guess may be made."""
    counted: list[str] = field(default_factory=list)
    """Cache keys of the counters that it was added to."""

    def give_back(self) -> None:
        """Take the guess off the counters: it was right, or it was never checked."""
        cache = caches[settings.RATELIMIT_USE_CACHE]
        for key in self.counted:
            # The period of a counter may have ended meanwhile.
            with suppress(ValueError):
                cache.incr(key, -1)
        self.counted.clear()


def wait_seconds(group: str, key: str, rate: str, *, count: bool) -> int:
    """Return the seconds until `key` may try again, 0 when it may now; `count` adds one failure first."""
    usage = _ask(Counter(group, key, rate), increment=count)
    # django-ratelimit reports "limited" beyond the rate; the failure that reaches the rate is still allowed.
    if usage is None or usage["count"] < usage["limit"]:
        return 0
    return max(1, int(usage["time_left"]))


def reserve(counters: Sequence[Counter]) -> Reservation:
    """Count one guess in each of the counters; nothing stays counted when one of them is full."""
    found = Reservation(seconds=max(wait_seconds(one.group, one.key, one.rate, count=False) for one in counters))
    if found.seconds:
        return found
    for counter in counters:
        usage = _ask(counter, increment=True)
        if usage is None:
            continue
        found.counted.append(_cache_key(counter))
        if usage["count"] > usage["limit"]:
            found.seconds = max(found.seconds, 1, int(usage["time_left"]))
    if found.seconds:
        found.give_back()
    return found


def _ask(counter: Counter, *, increment: bool) -> dict[str, int] | None:
    usage: dict[str, int] | None = get_usage(
        HttpRequest(),
        group=_group(counter),
        key=lambda group, request: counter.key,
        rate=counter.rate,
        increment=increment,
    )
    return usage


def _group(counter: Counter) -> str:
    return f"access:{counter.group}"


def _cache_key(counter: Counter) -> str:
    """Return the key under which django-ratelimit counts now; it has no public name for this."""
    _limit, period = core._split_rate(counter.rate)
    window = core._get_window(counter.key, period)
    return str(core._make_cache_key(_group(counter), window, counter.rate, counter.key, core.ALL))
