"""Periods of quotas: where they begin and end in every time zone, also when clocks change."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.conditions import periods
from catalog.conditions.periods import Period, Quota
from tests.bounded import bounded

ZONES = [
    "",
    "Europe/Berlin",
    "America/New_York",
    "America/Santiago",
    "America/Havana",
    "Africa/Cairo",
    "Asia/Beirut",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
]
"""Some change their clocks at midnight: a day begins at 1:00, or has its midnight twice."""
TRANSITIONS = ["2026-03-29T01:00Z", "2026-10-25T01:00Z", "2026-03-08T05:00Z", "2026-11-01T05:00Z", "2026-09-06T04:00Z"]
START = datetime(2024, 1, 1, tzinfo=UTC)
times = st.integers(0, 7 * 366 * 1_440).map(lambda minutes: START + timedelta(minutes=minutes)) | st.builds(
    lambda text, minutes: datetime.fromisoformat(text) + timedelta(minutes=minutes),
    st.sampled_from(TRANSITIONS),
    st.integers(-2_880, 2_880),
)


@pytest.mark.parametrize(
    ("text", "quota"),
    [
        ("1000/day", Quota(1000, "day")),
        ("0/hour", Quota(0, "hour")),
        ("5000/month", Quota(5000, "month")),
        ("999999999999/week", Quota(999_999_999_999, "week")),
        ("30/m", None),
        ("3", None),
        ("1000/2day", None),
        ("1000/days", None),
        ("1000/year", None),
        ("-1/day", None),
        ("1000000000000/day", None),
        ("1000/day\n", None),
    ],
)
def test_a_quota_is_a_number_and_a_period_of_the_calendar(text: str, quota: Quota | None) -> None:
    assert periods.parse(text) == quota


@pytest.mark.parametrize(
    ("period", "zone", "at", "starts", "ends"),
    [
        ("hour", "", "2026-11-28T12:34:56.789Z", "2026-11-28T12:00Z", "2026-11-28T13:00Z"),
        ("hour", "Asia/Kathmandu", "2026-11-28T12:34Z", "2026-11-28T12:15Z", "2026-11-28T13:15Z"),
        ("day", "", "2026-11-28T23:59:59.999999Z", "2026-11-28T00:00Z", "2026-11-29T00:00Z"),
        ("day", "Europe/Berlin", "2026-11-28T23:00Z", "2026-11-28T23:00Z", "2026-11-29T23:00Z"),
        ("day", "Europe/Berlin", "2026-03-29T12:00Z", "2026-03-28T23:00Z", "2026-03-29T22:00Z"),
        ("day", "Europe/Berlin", "2026-10-25T12:00Z", "2026-10-24T22:00Z", "2026-10-25T23:00Z"),
        ("week", "Europe/Berlin", "2026-11-29T22:59Z", "2026-11-22T23:00Z", "2026-11-29T23:00Z"),
        ("week", "", "2026-01-01T00:00Z", "2025-12-29T00:00Z", "2026-01-05T00:00Z"),
        ("month", "Europe/Berlin", "2026-03-15T12:00Z", "2026-02-28T23:00Z", "2026-03-31T22:00Z"),
        ("month", "", "2028-02-29T12:00Z", "2028-02-01T00:00Z", "2028-03-01T00:00Z"),
        ("month", "", "2026-12-31T23:59Z", "2026-12-01T00:00Z", "2027-01-01T00:00Z"),
        # Midnight is skipped: the day begins at 1:00.
        ("day", "America/Santiago", "2026-09-06T12:00Z", "2026-09-06T04:00Z", "2026-09-07T03:00Z"),
        # Midnight comes twice: the day begins with the first.
        ("day", "America/Havana", "2026-11-01T05:30Z", "2026-11-01T04:00Z", "2026-11-02T05:00Z"),
        # A day that a country left out when it crossed the date line.
        ("day", "Pacific/Apia", "2011-12-30T09:59Z", "2011-12-29T10:00Z", "2011-12-30T10:00Z"),
    ],
)
def test_a_period_begins_and_ends_with_the_calendar(period: str, zone: str, at: str, starts: str, ends: str) -> None:
    found = periods.find(period, zone, datetime.fromisoformat(at))
    assert found == Period(datetime.fromisoformat(starts), datetime.fromisoformat(ends))
    assert found.starts.tzinfo is UTC and found.ends.tzinfo is UTC


def name_of(period: str, local: datetime) -> Any:
    """Which one of its kind holds this local time."""
    match period:
        case "day":
            return local.date()
        case "week":
            return local.date() - timedelta(days=local.weekday())
    return date(local.year, local.month, 1)


def walk(period: str, zone: str, at: datetime) -> Period:
    """The period that holds this time, found by asking the clock of the zone for each minute before and after."""
    info, minute = ZoneInfo(zone or "UTC"), timedelta(minutes=1)
    starts = ends = at.replace(second=0, microsecond=0)
    wanted = name_of(period, at.astimezone(info))
    while name_of(period, (starts - minute).astimezone(info)) == wanted:
        starts -= minute
    while name_of(period, ends.astimezone(info)) == wanted:
        ends += minute
    return Period(starts, ends)


@settings(bounded, max_examples=120)
@given(period=st.sampled_from(["day", "week"]), zone=st.sampled_from(ZONES), at=times)
def test_days_and_weeks_are_those_of_the_clock_minute_by_minute(period: str, zone: str, at: datetime) -> None:
    assert periods.find(period, zone, at) == walk(period, zone, at)


@settings(bounded, max_examples=20)
@given(zone=st.sampled_from(ZONES), at=times)
def test_months_are_those_of_the_clock_minute_by_minute(zone: str, at: datetime) -> None:
    assert periods.find("month", zone, at) == walk("month", zone, at)


@bounded
@given(period=st.sampled_from(["hour", "day", "week", "month"]), zone=st.sampled_from(ZONES[:-1]), at=times)
def test_the_end_of_a_period_is_the_start_of_the_next_one(period: str, zone: str, at: datetime) -> None:
    found = periods.find(period, zone, at)
    assert found.starts <= at < found.ends
    assert periods.find(period, zone, found.starts) == found
    assert periods.find(period, zone, found.ends - timedelta(microseconds=1)) == found
    assert periods.find(period, zone, found.ends).starts == found.ends


@bounded
@given(zone=st.sampled_from(ZONES), at=times)
def test_an_hour_lasts_an_hour_and_begins_where_the_clock_shows_no_minutes(zone: str, at: datetime) -> None:
    found = periods.find("hour", zone, at)
    assert found.ends - found.starts == timedelta(hours=1)
    assert found.starts <= at < found.ends
    if zone != "Australia/Lord_Howe":  # whose clocks change by half an hour
        assert found.starts.astimezone(ZoneInfo(zone or "UTC")).minute == 0


@pytest.mark.parametrize(
    ("used", "units", "expected"), [(4, 1, True), (5, 1, False), (4, 0, True), (5, 0, False), (0, 6, False)]
)
def test_a_quota_of_five_admits_what_fits_and_what_takes_nothing_yet_while_anything_is_left(
    used: int, units: int, expected: bool
) -> None:
    assert Quota(5, "day").admits(used, units) is expected
