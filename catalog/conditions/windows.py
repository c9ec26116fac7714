"""Recurring time windows of grants: weekdays and hours of a zone, in JSON and as exact instants.

    {"days": ["mon", "tue"], "from": "09:00", "to": "17:30", "zone": "Europe/Berlin"}

A window opens on each of its days and closes at the next time that "to" names: on the following day when that is not
after "from". "24:00" is midnight at the end of the day. Where the clocks go forward over one of its times, it opens or
closes at that time; where they go back, at the first of the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo

from catalog.conditions.mistakes import WindowError
from toolhub.time_zones import find_zone

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MAX_WINDOWS: Final = 20
MINUTES_PER_DAY: Final = 24 * 60
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])|24:00")


@dataclass(frozen=True, slots=True)
class Window:
    days: frozenset[int]
    """Weekdays on which it opens, Monday is 0."""
    opens: int
    """Minutes after midnight, of the clock on the wall."""
    closes: int
    """Minutes after midnight of the same day; more than a day's for the next one."""
    zone: str


def parse(data: Any) -> tuple[Window, ...]:
    """Return the windows of a grant from their JSON. Raises WindowError at the first mistake."""
    if not isinstance(data, list):
        raise WindowError("not_list")
    if len(data) > MAX_WINDOWS:
        raise WindowError("too_many", most=MAX_WINDOWS)
    return tuple(_parse_one(one, number) for number, one in enumerate(data, 1))


def _parse_one(data: Any, number: int) -> Window:
    if not isinstance(data, dict) or data.keys() != {"days", "from", "to", "zone"}:
        raise WindowError("not_window", number)
    days = data["days"]
    if not isinstance(days, list) or not days or not all(day in DAYS for day in days) or len(set(days)) < len(days):
        raise WindowError("days", number, known=", ".join(DAYS))
    opens, closes = _minutes(data["from"], number), _minutes(data["to"], number)
    if opens == MINUTES_PER_DAY:
        raise WindowError("time", number, value="24:00")
    if opens == closes:
        raise WindowError("same_time", number)
    zone = data["zone"]
    if not isinstance(zone, str) or find_zone(zone) is None:
        raise WindowError("zone", number, name=str(zone)[:100])
    return Window(frozenset(map(DAYS.index, days)), opens, closes if closes > opens else closes + MINUTES_PER_DAY, zone)


def _minutes(text: Any, number: int) -> int:
    if not isinstance(text, str) or not _TIME.fullmatch(text):
        raise WindowError("time", number, value=str(text)[:100])
    return int(text[:2]) * 60 + int(text[3:])


def is_open(windows: Sequence[Window], now: float) -> bool:
    """Return whether one of the windows is open. `now` is in Unix seconds."""
    return any(_is_open(window, now) for window in windows)


def next_change(windows: Sequence[Window], now: float) -> float | None:
    """Return the next instant at which a window opens or closes, although another may be open; None without windows."""
    later = (instant for window in windows for instant in _instants(window, now) if instant > now)
    return min(later, default=None)


def _is_open(window: Window, now: float) -> bool:
    return any(opens <= now < closes for opens, closes in _around(window, _local_day(window.zone, now)))


def _instants(window: Window, now: float) -> Iterable[float]:
    for pair in _around(window, _local_day(window.zone, now)):
        yield from pair


def _local_day(zone: str, now: float) -> date:
    return datetime.fromtimestamp(now, ZoneInfo(zone)).date()


@lru_cache(maxsize=4_000)
def _around(window: Window, day: date) -> tuple[tuple[float, float], ...]:
    """Return when the window opens and closes, on the days from the one before this one to that in two weeks.

    A window of one day opens within a week, or within two when the clocks skip it.
    """
    found = []
    for offset in range(-1, 15):
        start = day + timedelta(days=offset)
        if start.weekday() in window.days:
            pair = (first_instant(window.zone, start, window.opens), first_instant(window.zone, start, window.closes))
            if pair[0] < pair[1]:  # not where the clocks go forward over the whole window
                found.append(pair)
    return tuple(found)


def first_instant(zone: str, day: date, minutes: int) -> float:
    """Return the first instant at which the clocks of the zone show at least this time of this day, in Unix seconds."""
    wall = datetime.combine(day + timedelta(days=minutes // MINUTES_PER_DAY), time())
    wall += timedelta(minutes=minutes % MINUTES_PER_DAY)
    info = ZoneInfo(zone)
    instant = wall.replace(tzinfo=info).astimezone(UTC)
    if instant.astimezone(info).replace(tzinfo=None) == wall:
        return instant.timestamp()
    # The clocks skip this time. Find the instant at which they do, to the second.
    low, high = int(wall.replace(tzinfo=info, fold=1).timestamp()), int(instant.timestamp())
    while low < high:
        middle = (low + high) // 2
        if datetime.fromtimestamp(middle, info).replace(tzinfo=None) >= wall:
            high = middle
        else:
            low = middle + 1
    return float(low)
