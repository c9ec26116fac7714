"""Counters of limits at past times, of each measure; windows of rates are those that the library has now."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django_ratelimit.core import _get_window

from catalog.policy.definitions import LimitRule, Snapshot
from catalog.replay.counter_sets import Counters, take
from catalog.replay.counters import Counter, RateCounter, RepeatCounter, Use, window_at
from tests.catalog.replay.logged import ONE, TWO, build, limit
from tests.catalog.test_policy import ALICE, ANALYSTS, BOB, FILES

RATES = {"calls": "1/m", "cost": "5/day", "running": "1", "repeats": "1/m", "errors": "1/m"}
"""A limit of each measure."""


def within_a_second(work: Callable[[int], bool]) -> bool:
    """Whether it holds, with the second in which it was looked at."""
    while True:
        now = int(time.time())
        found = work(now)
        if int(time.time()) == now:
            return found


@pytest.mark.parametrize("period", [1, 2, 3, 60, 3_600, 86_400, 7 * 86_400])
def test_windows_end_when_those_of_the_library_end(period: int) -> None:
    keys = ["everyone", *(f"user {number}" for number in range(50))]

    def agree(now: int) -> bool:
        return [_get_window(key, period) for key in keys] == [window_at(key, period, now) for key in keys]

    assert within_a_second(agree)


def rates(found: Snapshot, tool: Any, user: int) -> list[tuple[str, int, int]]:
    counters = Counters(found).find(tool, user).arriving
    return sorted((one.key, one.limit, one.period_seconds) for one in counters if isinstance(one, RateCounter))


def at(seconds: float, lasts: float = 0, **values: Any) -> Use:
    """A call at this time that takes so many seconds."""
    ms = int(seconds * 1000)
    return Use(ms, ms + int(lasts * 1000), **{"credential_id": "token:1", "tool_id": 1, **values})


def run_at(counter: Counter, *uses: Use) -> list[bool]:
    """Whether each of these calls is let through."""
    return [take([counter], use) for use in uses]


def one(rule: LimitRule, user: int = ALICE, tool: Any = ONE) -> Counter:
    """The only counter of a limit."""
    found = Counters(build(limits=[rule])).find(tool, user)
    counters: list[Counter] = [*found.arriving, *found.ending, *found.reserved]
    assert len(counters) == 1
    return counters[0]


# --- which limits ----------------------------------------------------------------------------------------------------


def test_the_limits_of_a_call_are_those_of_its_tool_and_its_person() -> None:
    found = build(
        limits=[
            limit("1/s", ("all", None), "everyone_together", id=1),
            limit("2/m", ("toolset", FILES), "user", subject_id=BOB, id=2),
            limit("3/2h", ("tool", 1), "each_member", subject_id=ANALYSTS, id=3),
            limit("4/d", ("tool", 1), id=4),
            limit("5/d", ("method", None), id=5, target_name="tools/list"),
            limit("6/d", ("tool", 1), "group_together", subject_id=ANALYSTS, id=6),
        ]
    )
    assert rates(found, ONE, ALICE) == [
        *[("everyone", 1, 1), (f"group {ANALYSTS}", 6, 86_400)],
        *[("user 1", 3, 7_200), ("user 1", 4, 86_400)],
    ]
    assert rates(found, ONE, BOB) == [("everyone", 1, 1), ("user 2", 2, 60), ("user 2", 4, 86_400)]
    assert rates(found, TWO, ALICE) == rates(found, TWO, 999) == [("everyone", 1, 1)]


def test_tools_for_polling_are_left_out_of_repetitions_only() -> None:
    polled = replace(ONE, polling=True)
    limits = [limit(rate, measure=measure, id=number) for number, (measure, rate) in enumerate(RATES.items())]
    found = Counters(build(items=(polled, TWO), limits=limits)).find(polled, ALICE)
    assert (len(found.arriving), len(found.ending), len(found.reserved)) == (1, 0, 2)
    found = Counters(build(limits=limits)).find(ONE, ALICE)
    assert (len(found.arriving), len(found.ending), len(found.reserved)) == (2, 1, 2)


def test_rules_that_are_not_saved_yet_have_counters_of_their_own() -> None:
    counters = Counters(build(limits=[limit("1/d", id=0), limit("1/d", ("all", None), id=0)]))
    assert len(counters.find(ONE, ALICE).arriving) == 2
    assert counters.find(TWO, ALICE).arrive(at(5)) and counters.find(TWO, BOB).arrive(at(5))
    assert not counters.find(ONE, ALICE).arrive(at(5)), "the calls of the other tool count for the limit on all"


# --- rates and quotas ------------------------------------------------------------------------------------------------


def test_a_counter_begins_anew_with_each_window() -> None:
    end = window_at("user 1", 10, 1_000)
    uses = [at(seconds) for seconds in (end - 2, end - 1, end, end, end + 1, end + 2, end + 3)]
    assert run_at(one(limit("2/10s")), *uses) == [True, True, False, False, True, True, False]


def test_a_quota_begins_anew_at_midnight_in_its_zone() -> None:
    midnight = datetime(2026, 11, 1, tzinfo=ZoneInfo("Europe/Berlin")).timestamp()
    uses = [at(midnight + seconds) for seconds in (-2, -1, -0.001, 0, 1, 3 * 86_400)]
    assert run_at(one(limit("2/month", zone="Europe/Berlin")), *uses) == [True, True, False, True, True, False]
    assert run_at(one(limit("2/month")), *uses) == [True, True, False, False, False, True], "an hour later in UTC"


def test_the_units_of_a_result_refuse_the_next_call_after_the_end_and_not_its_own() -> None:
    counter = one(limit("10/day", measure="cost"))
    noon = 12 * 3_600.0
    assert run_at(
        counter,
        at(noon, 60, units=6, units_of_result=90),
        at(noon + 59, units=4),
        at(noon + 60, units=0),
        at(noon + 86_400, units=10),
    ) == [True, True, False, True]


def test_the_units_of_a_result_count_in_the_period_in_which_the_call_began() -> None:
    counter = one(limit("10/day", measure="cost"))
    assert run_at(counter, at(86_399, 60, units=1, units_of_result=90), at(86_460, units=10)) == [True, True]


def test_more_units_than_the_quota_has_never_fit() -> None:
    assert run_at(one(limit("10/day", measure="cost")), at(1, units=11), at(2, units=10)) == [False, True]


def test_a_call_that_takes_nothing_yet_is_refused_when_nothing_is_left_as_it_is_when_it_is_made() -> None:
    uses = at(1, units=0), at(2, units=10), at(3, units=0)
    tool = replace(ONE, cost=0, cost_per_kilobyte=1)
    assert run_at(one(limit("10/day", measure="cost"), tool=tool), *uses) == [True, True, False]


# --- calls at a time -------------------------------------------------------------------------------------------------


def test_a_place_is_free_again_when_a_call_has_ended() -> None:
    counter = one(limit("2", measure="running"))
    uses = at(0, 10), at(1, 3), at(2), at(4), at(4), at(4, 1), at(4.5), at(10)
    assert run_at(counter, *uses) == [True, True, False, True, True, True, False, True]


# --- loops -----------------------------------------------------------------------------------------------------------


def test_the_same_call_is_counted_by_credential_tool_and_arguments() -> None:
    counter = one(limit("1/d", ("all", None), measure="repeats"))
    uses = [at(5, digest="a"), at(5, digest="a"), at(5, digest="b"), at(5, digest="a", tool_id=2)]
    assert run_at(counter, *uses, at(5, digest="a", credential_id="token:2")) == [True, False, True, True, True]


def test_past_windows_of_repetitions_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catalog.replay.counters.MAX_REPEATS", 3)
    counter = RepeatCounter(1, 10)
    assert run_at(counter, *(at(5, digest=name) for name in "abc")) == [True] * 3
    assert not counter.is_known(at(5, digest="d")) and counter.is_known(at(5, digest="a"))
    assert counter.is_known(at(60, digest="d"))


def ends(*errors: str | None, start: float = 0, step: float = 1) -> list[Use]:
    """Calls that end at once; None: with neither a success nor an error, and an empty text: with a success."""
    return [
        at(start + number * step, has_end=error is not None, error=error or "") for number, error in enumerate(errors)
    ]


def run_to_end(rule: LimitRule, *uses: Use) -> list[bool]:
    found = Counters(build(limits=[rule])).find(ONE, ALICE)
    answers = []
    for use in uses:
        answers.append(found.arrive(use))
        if answers[-1]:
            found.end(use)
    return answers


def test_errors_count_when_they_are_the_same_one_after_the_other() -> None:
    rule = limit("2/10m", measure="errors")
    assert run_to_end(rule, *ends("a", "a", "a")) == [True, True, False]
    assert run_to_end(rule, *ends("a", "", "a", "b", "b", "b")) == [True] * 5 + [False]
    assert run_to_end(rule, *ends("a", None, "a", "a")) == [True, True, True, False], "a cancelled call changes nothing"


def test_the_time_of_errors_runs_from_the_end_of_the_first() -> None:
    rule = limit("2/10m", measure="errors")
    uses = [at(0, 100, has_end=True, error="a"), at(50, 100, has_end=True, error="a")]
    assert run_to_end(rule, *uses, at(149), at(150), at(699), at(700)) == [True, True, True, False, False, True]
    assert run_to_end(rule, *ends("a", "a", "a", "a", step=599)) == [True, True, True, True]


def test_errors_of_another_tool_or_credential_count_apart() -> None:
    rule = limit("1/10m", ("all", None), measure="errors")
    first, second = ends("a", "a")
    assert run_to_end(rule, first, replace(second, credential_id="token:2"), replace(second, tool_id=2)) == [True] * 3


# --- all of them -----------------------------------------------------------------------------------------------------


def test_a_call_that_a_quota_refuses_has_counted_for_rates_and_for_no_error() -> None:
    rules = [limit("1/day"), limit("2/90d", id=5), limit("1/10m", measure="errors", id=6)]
    found = Counters(build(limits=rules)).find(ONE, ALICE)
    use = at(86_400, has_end=True)
    assert found.arrive(use) and found.reserve(use)
    assert found.arrive(use) and not found.reserve(use)
    assert not found.arrive(use)


def test_what_one_limit_refuses_counts_for_no_other_of_its_step() -> None:
    rules = [limit("3/day"), limit("1", measure="running", id=5), limit("2/day", measure="cost", id=6)]
    found = Counters(build(limits=rules)).find(ONE, ALICE)
    assert [found.reserve(use) for use in (at(0, 9), at(1, 9), at(2, 9), at(9, 1), at(10))] == [
        *(True, False, False, True, False)
    ]
