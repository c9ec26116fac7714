"""Rates: so many at once, then evenly spread, and no memory of those who are within."""

from __future__ import annotations

import pytest

from toolhub import rates
from toolhub.rates import Rates, per_second


@pytest.mark.parametrize(
    ("rate", "number"), [("60/m", 1.0), ("5000/s", 5000.0), ("100/10s", 10.0), ("3600/h", 1.0), ("864/d", 0.01)]
)
def test_a_rate_is_read_as_a_number_per_second(rate: str, number: float) -> None:
    assert per_second(rate) == pytest.approx(number)


def test_so_many_may_come_at_once_and_the_next_one_is_told_how_long_to_wait() -> None:
    bound = Rates(10.0, 5)
    assert [bound.take("alice", 100.0) for _ in range(5)] == [0.0] * 5
    assert bound.take("alice", 100.0) == pytest.approx(0.1)
    assert bound.take("bob", 100.0) == 0.0, "each key has its own"
    assert bound.take("alice", 100.05) == pytest.approx(0.05), "an attempt that is refused costs nothing"
    assert bound.take("alice", 100.1) == 0.0
    assert bound.take("alice", 100.1) > 0


def test_the_average_is_the_rate_however_long_it_goes_on() -> None:
    bound = Rates(10.0, 5)
    allowed = sum(not bound.take("alice", 100.0 + step / 1000) for step in range(10_000))
    assert 100 <= allowed <= 106


def test_a_quiet_time_gives_back_no_more_than_the_burst() -> None:
    bound = Rates(10.0, 5)
    bound.take("alice", 100.0)
    assert [bool(bound.take("alice", 10_000.0)) for _ in range(6)] == [False] * 5 + [True]


def test_a_rate_of_nothing_has_no_limit() -> None:
    bound = Rates(0.0, 1)
    assert not any(bound.take("alice", 1.0) for _ in range(1000))


def test_the_keys_are_bounded_and_the_busiest_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "MAX_KEYS", 10)
    bound = Rates(1.0, 2)
    for number in range(100):
        bound.take(f"192.0.2.{number}", 100.0 + 5 * number)
        while not bound.take("alice", 100.0 + 5 * number):
            pass
    assert len(bound._full_at) <= 11
    assert bound.take("alice", 100.0 + 5 * 99) > 0
