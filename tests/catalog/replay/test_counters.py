"""Windows of rate limits at past times: those that the library has at the present time."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from django_ratelimit.core import _get_window

from catalog.policy.definitions import Snapshot
from catalog.replay.counters import Counters, take, window_at
from tests.catalog.replay.logged import ONE, TWO, build, limit
from tests.catalog.test_policy import ALICE, ANALYSTS, BOB, FILES


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


def find(found: Snapshot, tool: object, user: int) -> list[tuple[str, int, int]]:
    counters = Counters(found).find(tool, user)  # type: ignore[arg-type]  # a tool of the policy's tests
    return sorted((one.key, one.limit, one.period_seconds) for one in counters)


def test_the_limits_of_a_call_are_those_of_its_tool_and_its_person() -> None:
    found = build(
        limits=[
            limit("1/s", ("all", None), "everyone_together", id=1),
            limit("2/m", ("toolset", FILES), "user", subject_id=BOB, id=2),
            limit("3/2h", ("tool", 1), "each_member", subject_id=ANALYSTS, id=3),
            limit("4/d", ("tool", 1), id=4),
            limit("5/d", ("method", None), id=5, target_name="tools/list"),
        ]
    )
    assert find(found, ONE, ALICE) == [("everyone", 1, 1), ("user 1", 3, 7_200), ("user 1", 4, 86_400)]
    assert find(found, ONE, BOB) == [("everyone", 1, 1), ("user 2", 2, 60), ("user 2", 4, 86_400)]
    assert find(found, TWO, ALICE) == find(found, TWO, 999) == [("everyone", 1, 1)]


def test_a_counter_begins_anew_with_each_window() -> None:
    counters = Counters(build(limits=[limit("2/10s")])).find(ONE, ALICE)
    end = window_at("user 1", 10, 1_000)
    assert [take(counters, seconds) for seconds in (end - 2, end - 1, end, end, end + 1, end + 2, end + 3)] == [
        *(True, True, False, False),
        *(True, True, False),
    ]


def test_rules_that_are_not_saved_yet_have_counters_of_their_own() -> None:
    counters = Counters(build(limits=[limit("1/d", id=0), limit("1/d", ("all", None), id=0)]))
    assert len(counters.find(ONE, ALICE)) == 2
    assert take(counters.find(TWO, ALICE), 5) and take(counters.find(TWO, BOB), 5)
    assert not take(counters.find(ONE, ALICE), 5), "the calls of the other tool count for the limit on all"
