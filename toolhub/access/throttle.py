"""Slow down guessing: how many failures one key (an address, a name) may have, counted by django-ratelimit.

Blocks on the cache, so it is called from threads, never from the event loop. Without Redis, or while it is away, each
process counts for itself: guessing stays slow, and an outage locks nobody out.
"""

from __future__ import annotations

from django.http import HttpRequest
from django_ratelimit.core import get_usage


def wait(group: str, key: str, rate: str, *, count: bool) -> int:
    """Seconds until `key` may try again, 0 when it may; `count` adds one failure first."""
    usage = get_usage(
        HttpRequest(), group=f"access:{group}", key=lambda group, request: key, rate=rate, increment=count
    )
    # django-ratelimit says "limited" beyond the rate; the failure that reaches the rate is the last one allowed.
    if usage is None or usage["count"] < usage["limit"]:
        return 0
    return max(1, int(usage["time_left"]))
