"""Numbers of the audit log: every call is counted once, in the hour it began, when it has ended."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from audit import outcomes
from audit.format import timestamps
from audit.models import Call, Rollup, RollupProgress
from audit.queries import progress, rollups, statistics
from tests.audit.rows import build_call, save

pytestmark = pytest.mark.django_db


def build_recent_call(number: int, **values):
    """A call of a known tool that began so many seconds ago."""
    started = timestamps.from_ms(timestamps.now_ms()) - timedelta(seconds=number)
    return build_call(number, started_at=started, **{"target_id": 1, **values})


def count_outcomes() -> dict[str, int]:
    cells = Rollup.objects.filter(span="d", what="outcome")
    found: dict[str, int] = {}
    for key, number in cells.values_list("key", "calls"):
        found[key] = found.get(key, 0) + number
    return found


def test_calls_are_counted_once_however_often_it_is_counted(monkeypatch):
    monkeypatch.setattr(rollups, "SLICE_CALLS", 7)
    save(*(build_recent_call(100 + number, outcome="ok" if number % 3 else "limited") for number in range(30)))
    for _ in range(3):
        assert rollups.catch_up()
    assert count_outcomes() == {"ok": 20, "limited": 10}


def test_a_call_that_still_runs_is_counted_when_it_has_ended():
    (running,) = save(build_recent_call(3_000, outcome=outcomes.RUNNING, duration_us=None))
    rollups.catch_up()
    assert count_outcomes() == {}
    assert statistics.report("24h").outcomes == {"running": 1}
    Call.objects.filter(pk=running.pk).update(outcome="timeout", duration_us=9_000_000)
    assert statistics.report("24h").outcomes == {"timeout": 1}
    RollupProgress.objects.update(
        through=UUID(int=RollupProgress.objects.get().through.int - (1 << 80))
    )  # a moment later
    rollups.catch_up()
    assert count_outcomes() == {"timeout": 1}
    assert statistics.report("24h").outcomes == {"timeout": 1}


def test_a_call_that_waits_for_approval_is_counted_but_has_not_failed():
    ended = (outcomes.WAITING, outcomes.APPROVAL_DENIED, outcomes.APPROVAL_EXPIRED, outcomes.OK)
    save(*(build_recent_call(100 + number, name="tool", outcome=outcome) for number, outcome in enumerate(ended)))
    assert statistics.report("24h").tools == [("tool", 4, 2)]
    rollups.catch_up()
    assert statistics.report("24h").tools == [("tool", 4, 2)]


def test_a_process_overtaken_by_another_counts_nothing():
    save(build_recent_call(200))
    state = rollups._create_progress()
    rollups.catch_up()
    assert rollups._count_slice(state, UUID(int=2**128 - 1), recheck=True) is None
    assert count_outcomes() == {"ok": 1}


def test_names_that_no_tool_has_are_not_counted_as_tools():
    save(
        build_recent_call(200, name="made up", target_id=None, outcome="unknown_tool"),
        build_recent_call(201, name="real"),
    )
    rollups.catch_up()
    assert set(Rollup.objects.filter(what="tool").values_list("key", flat=True)) == {"real"}


@pytest.mark.parametrize("period", statistics.PERIODS)
def test_a_report_says_the_same_before_and_after_counting(period):
    save(
        *(
            build_recent_call(40 * number, name=f"tool_{number % 3}", duration_us=1_000 * (number + 1))
            for number in range(50)
        )
    )
    before = statistics.report(period)
    rollups.catch_up()
    after = statistics.report(period)
    assert (before.outcomes, before.tools, before.p95) == (after.outcomes, after.tools, after.p95)
    assert before.live and after.live
    assert before.calls == sum(slot.outcomes.total() for slot in before.slots) > 0


def test_when_much_is_not_counted_yet_the_report_says_until_when_it_holds(monkeypatch):
    monkeypatch.setattr(rollups, "start_update", lambda: None)
    save(*(build_recent_call(300 + number) for number in range(4)))
    rollups.catch_up()
    monkeypatch.setattr(statistics, "MAX_TAIL_CALLS", 2)
    save(*(build_recent_call(number) for number in range(5)))
    report = statistics.report("7d")
    assert (report.live, report.calls) == (False, 4)
    assert abs(report.counted_until - timestamps.from_ms(timestamps.now_ms() - progress.LAG_MS)) < timedelta(seconds=50)


def test_a_percentile_is_within_five_percent():
    took = [1_000 * number for number in range(1, 101)]
    save(*(build_recent_call(200 + number, duration_us=value) for number, value in enumerate(took)))
    found = statistics.report("24h").p95 or statistics.report("7d").p95
    assert found == pytest.approx(95_000, rel=0.05)


def test_tallies_of_long_ago_are_forgotten():
    save(build_recent_call(200))
    rollups.catch_up()
    Rollup.objects.update(at=timestamps.from_ms(timestamps.now_ms()) - timedelta(days=rollups.KEEP_DAYS + 2))
    rollups._delete_expired()
    assert not Rollup.objects.exists()
