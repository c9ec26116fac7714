"""A limit as a person says it."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone, translation

from catalog.policy.limit_texts import describe_cost, describe_left, describe_limit, describe_reset, format_seconds

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("measure", "rate", "words"),
    [
        ("calls", "6/m", "at most 6 calls a minute"),
        ("calls", "100/5m", "at most 100 calls in 5 minutes"),
        ("calls", "60/1h", "at most 60 calls an hour"),
        ("calls", "1/2d", "at most 1 calls in 2 days"),
        ("calls", "9/s", "at most 9 calls a second"),
        ("calls", "1000/day", "at most 1,000 calls a day"),
        ("cost", "5000/month", "at most 5,000 cost units a month"),
        ("running", "3", "at most 3 calls at a time"),
        ("repeats", "5/10m", "the same call at most 5 times within 10 minutes"),
        ("errors", "3/h", "the same error at most 3 times in a row within 1 hour"),
        ("calls", "whatever else", "whatever else"),
    ],
)
def test_a_limit_is_described(measure: str, rate: str, words: str) -> None:
    assert describe_limit(measure, rate) == words


def test_the_description_of_a_limit_is_in_the_language_of_the_page() -> None:
    with translation.override("zh-hans"):
        assert describe_limit("calls", "6/m") == "每分钟最多 6 次调用"
        assert describe_limit("calls", "1000/day") == "每天最多 1,000 次调用"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (119, "119 s"),
        (120, "2 min"),
        (121, "3 min"),
        (3_600, "1 h"),
        (3_661, "1 h 2 min"),
        (345_600, "4 days"),
        (345_601, "4 days 1 h"),
    ],
)
def test_a_long_time_is_told_in_large_units_and_never_too_short(seconds: int, words: str) -> None:
    assert format_seconds(seconds) == words


def test_what_is_left_is_told_by_measure() -> None:
    assert describe_left("calls", 3, 6) == "3 of 6 left"
    assert describe_left("cost", 412, 1_000) == "412 of 1,000 cost units left"
    assert describe_left("running", 1, 3) == "1 of 3 may start now"


def test_a_quota_far_from_its_end_tells_the_time_on_the_readers_clock() -> None:
    with timezone.override(ZoneInfo("Europe/Berlin")):
        assert describe_reset("1000/day", 43_200 - 1, NOON) == "resets on 2026-11-29 01:00 CET"
        assert describe_reset("1000/day", 600, NOON) == "resets in 10 min"
        assert describe_reset("9/d", 43_200, NOON) == "resets in 12 h"


def test_a_call_tells_its_cost() -> None:
    assert describe_cost(1, "", 0) == "Each call costs 1 cost unit."
    assert describe_cost(5, "/rows", 0) == "Each call costs 5 cost units, times /rows."
    assert describe_cost(0, "/rows", 2) == (
        "Each call costs 0 cost units. Every 1,000 bytes of the result cost 2 cost units more."
    )
