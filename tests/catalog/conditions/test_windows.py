"""Recurring time windows: when they are open, and the exact instant at which that changes."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.conditions import windows
from catalog.conditions.mistakes import WindowError
from catalog.conditions.windows import is_open, next_change, parse
from tests.bounded import bounded

OFFICE = {"days": ["mon", "tue", "wed", "thu", "fri"], "from": "09:00", "to": "17:30", "zone": "Europe/Berlin"}
NIGHT = {"days": ["sat"], "from": "22:00", "to": "06:00", "zone": "America/New_York"}
ZONES = ["Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "UTC", "Pacific/Apia"]


def at(text: str) -> float:
    """Return Unix seconds of a time with its zone, such as '2026-11-27 09:00 Europe/Berlin'."""
    instant, zone = text.rsplit(" ", 1)
    return datetime.fromisoformat(instant).replace(tzinfo=ZoneInfo(zone)).timestamp()


@pytest.mark.parametrize(
    ("text", "open_", "changes"),
    [
        ("2026-11-27 08:59:59 Europe/Berlin", False, "2026-11-27 09:00 Europe/Berlin"),
        ("2026-11-27 09:00:00 Europe/Berlin", True, "2026-11-27 17:30 Europe/Berlin"),
        ("2026-11-27 17:29:59 Europe/Berlin", True, "2026-11-27 17:30 Europe/Berlin"),
        ("2026-11-27 17:30:00 Europe/Berlin", False, "2026-11-30 09:00 Europe/Berlin"),
        ("2026-11-29 12:00:00 Europe/Berlin", False, "2026-11-30 09:00 Europe/Berlin"),
    ],
)
def test_office_hours_open_and_close_on_the_second(text: str, open_: bool, changes: str) -> None:
    office = parse([OFFICE])
    assert is_open(office, at(text)) is open_
    assert next_change(office, at(text)) == at(changes)


def test_a_window_may_last_until_the_following_day() -> None:
    night = parse([NIGHT])
    assert is_open(night, at("2026-11-29 05:59:59 America/New_York"))
    assert not is_open(night, at("2026-11-29 06:00 America/New_York"))
    assert not is_open(night, at("2026-11-28 05:00 America/New_York"))
    assert next_change(night, at("2026-11-29 06:00 America/New_York")) == at("2026-12-05 22:00 America/New_York")


def test_several_windows_are_a_union() -> None:
    both = parse([OFFICE, NIGHT])
    assert is_open(both, at("2026-11-27 10:00 Europe/Berlin")) and is_open(
        both, at("2026-11-28 23:00 America/New_York")
    )
    assert next_change(both, at("2026-11-27 18:00 Europe/Berlin")) == at("2026-11-28 22:00 America/New_York")
    assert next_change((), 0.0) is None and not is_open((), 0.0)


def test_a_time_that_the_clocks_skip_is_the_instant_at_which_they_do() -> None:
    early = parse([{"days": ["sun"], "from": "02:30", "to": "04:00", "zone": "Europe/Berlin"}])
    skips = at("2026-03-29 03:00 Europe/Berlin")
    assert not is_open(early, skips - 1) and is_open(early, skips)
    assert next_change(early, skips - 3600) == skips
    gone = parse([{"days": ["sun"], "from": "02:10", "to": "02:50", "zone": "Europe/Berlin"}])
    assert not is_open(gone, skips) and not is_open(gone, skips - 1)


def test_after_a_window_that_the_clocks_skip_comes_the_one_of_the_week_after() -> None:
    gone = parse([{"days": ["sun"], "from": "02:10", "to": "02:50", "zone": "Europe/Berlin"}])
    for now in ("2026-03-22 02:50 Europe/Berlin", "2026-03-28 12:00 Europe/Berlin", "2026-03-29 03:00 Europe/Berlin"):
        assert next_change(gone, at(now)) == at("2026-04-05 02:10 Europe/Berlin")


def test_of_a_time_that_comes_twice_it_is_the_first() -> None:
    late = parse([{"days": ["sun"], "from": "02:30", "to": "05:00", "zone": "Europe/Berlin"}])
    first = datetime(2026, 10, 25, 0, 30, tzinfo=UTC).timestamp()
    assert is_open(late, first) and not is_open(late, first - 1) and is_open(late, first + 3600)
    assert next_change(late, first) == at("2026-10-25 05:00 Europe/Berlin")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"days": []}, "days"), ({"days": "mon"}, "days"), ({"days": ["Mon"]}, "days"),
        ({"days": ["mon", "mon"]}, "days"), ({"days": [["mon"]]}, "days"),
        ({"from": "9:00"}, "time"), ({"from": "24:00"}, "time"), ({"to": "24:01"}, "time"), ({"to": 900}, "time"),
        ({"to": "09:00"}, "same_time"),
        ({"zone": "Mars/Olympus"}, "zone"), ({"zone": ""}, "zone"), ({"zone": "../../etc/passwd"}, "zone"),
        ({"zone": None}, "zone"), ({"more": 1}, "not_window"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_window_is_named(change: dict[str, Any], code: str) -> None:
    with pytest.raises(WindowError) as raised:
        parse([OFFICE, {**OFFICE, **change}])
    assert (raised.value.code, raised.value.number) == (code, 2)


def test_windows_are_a_list_of_limited_length() -> None:
    for data, code in ((OFFICE, "not_list"), ([OFFICE] * 21, "too_many"), (["x"], "not_window")):
        with pytest.raises(WindowError) as raised:
            parse(data)
        assert raised.value.code == code


def first_instant(zone: ZoneInfo, day: date, minutes: int) -> float:
    """Return what `windows` computes, by looking at the clock of every minute."""
    wall = datetime.combine(day, time()) + timedelta(minutes=minutes)
    instant = datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(minutes=minutes) - timedelta(hours=15)
    while instant.astimezone(zone).replace(tzinfo=None) < wall:
        instant += timedelta(minutes=1)
    return instant.timestamp()


@settings(bounded, max_examples=100)
@given(
    zone=st.sampled_from(ZONES),
    day=st.sampled_from([date(2026, 3, 8), date(2026, 3, 29), date(2026, 4, 5), date(2026, 10, 4), date(2026, 10, 25),
                         date(2026, 11, 1), date(2026, 7, 1)]),
    minutes=st.integers(0, 60 * 30),
)  # fmt: skip
def test_instants_are_those_of_a_clock_that_is_looked_at_every_minute(zone: str, day: date, minutes: int) -> None:
    assert windows.first_instant(zone, day, minutes) == first_instant(ZoneInfo(zone), day, minutes)


@bounded
@given(
    days=st.sets(st.sampled_from(windows.DAYS), min_size=1),
    opens=st.integers(0, 1439),
    closes=st.integers(0, 1440),
    zone=st.sampled_from(ZONES),
    now=st.integers(1_767_000_000, 1_800_000_000),
)
def test_nothing_changes_before_the_next_change_and_everything_at_it(
    days: set[str], opens: int, closes: int, zone: str, now: int
) -> None:
    if opens == closes:
        return
    written = {"days": sorted(days), "zone": zone}
    written |= {"from": f"{opens // 60:02}:{opens % 60:02}", "to": f"{closes // 60:02}:{closes % 60:02}"}
    found = parse([written])
    changes = next_change(found, now)
    assert changes is not None and now < changes
    state = is_open(found, now)
    for share in (0.0, 0.3, 0.7):
        assert is_open(found, now + (changes - now - 0.001) * share) is state
    touches = len(days) > 1 and opens == closes % 1440  # one ends where the next begins
    assert touches or is_open(found, changes) is not state
