"""Periods of quotas: an hour, a day, a week or a month of a calendar, in a time zone, as exact instants. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from catalog.conditions import windows

MAX_AMOUNT: Final = 999_999_999_999
QUOTA: Final = re.compile(r"([0-9]{1,12})/(hour|day|week|month)")


@dataclass(frozen=True, slots=True)
class Quota:
    """So many calls or cost units in each period, such as 1000/month."""

    amount: int
    period: str
    """hour | day | week | month"""

    def admits(self, used: int, units: int) -> bool:
        """Return whether a call that takes so many units passes when so many are used.

        One that takes 0 passes while anything is left: its result may cost.
        """
        return used <= self.amount - max(1, units)


@dataclass(frozen=True, slots=True)
class Period:
    starts: datetime
    ends: datetime
    """The start of the next one. Both in UTC."""


def parse(rate: str) -> Quota | None:
    """Return the quota that a text such as 1000/day is; None for a rate such as 30/m and for anything else."""
    found = QUOTA.fullmatch(rate)
    return None if found is None else Quota(int(found[1]), found[2])


def find(period: str, zone: str, at: datetime) -> Period:
    """Return the period that holds this time. Weeks begin on Monday. An empty zone is UTC."""
    info = ZoneInfo(zone or "UTC")
    local = at.astimezone(info)
    if period == "hour":
        # Some clocks are half an hour away from those of others.
        starts = at.astimezone(UTC) - timedelta(
            minutes=local.minute, seconds=local.second, microseconds=local.microsecond
        )
        return Period(starts, starts + timedelta(hours=1))
    return _find(period, info.key, local.date())


@lru_cache(maxsize=1_000)
def _find(period: str, zone: str, day: date) -> Period:
    match period:
        case "day":
            first, following = day, day + timedelta(days=1)
        case "week":
            first = day - timedelta(days=day.weekday())
            following = first + timedelta(days=7)
        case _:
            first = day.replace(day=1)
            following = (first + timedelta(days=32)).replace(day=1)
    starts, ends = (windows.first_instant(zone, one, 0) for one in (first, following))
    return Period(datetime.fromtimestamp(starts, UTC), datetime.fromtimestamp(ends, UTC))
