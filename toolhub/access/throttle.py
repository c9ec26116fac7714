"""Throttling of guesses: the failures of one key (an address, a name), counted by django-ratelimit.

Blocks on the cache, so it is called from threads, never from the event loop. Without Redis, or while it is away, each
process counts for itself: guessing stays slow, and an outage locks nobody out.
"""

from __future__ import annotations

from django.http import HttpRequest
from django_ratelimit.core import get_usage


def wait_seconds(group: str, key: str, rate: str, *, count: bool) -> int:
    """Return the seconds until `key` may try again, 0 when it may now; `count` adds one failure first."""
    usage = get_usage(
        HttpRequest(), group=f"access:{group}", key=lambda group, request: key, rate=rate, increment=count
    )
    # django-ratelimit reports "limited" beyond the rate; the failure that reaches the rate is still allowed.
    if usage is None or usage["count"] < usage["limit"]:
        return 0
    return max(1, int(usage["time_left"]))
