"""The time zones that people may choose."""

from __future__ import annotations

from functools import cache
from zoneinfo import ZoneInfo, available_timezones


@cache
def zones() -> frozenset[str]:
    """Return the names of all places, such as Europe/Berlin, and UTC."""
    return frozenset(name for name in available_timezones() if "/" in name or name == "UTC")


def find_zone(name: str) -> ZoneInfo | None:
    """Return the time zone of this name, or None if there is none: a cookie may hold anything."""
    return ZoneInfo(name) if name in zones() else None
