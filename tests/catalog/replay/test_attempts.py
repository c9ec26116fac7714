"""Calls for a replay, read from the log on both databases: all of the period, once, in order, and no others."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from audit import outcomes
from audit.format import timestamps
from catalog.replay import attempts
from catalog.replay.attempts import AttemptFilter, LoggedCall
from catalog.replay.reach import Reach
from tests.audit.stores import audit_store, cluster, data_folder, postgres_store, sqlite_store
from tests.audit.test_spans import check_bounds
from tests.catalog.replay.logged import ONE, THREE, TWO, call, log
from tests.catalog.test_policy import ALICE, BOB

__all__ = ["audit_store", "cluster", "data_folder", "postgres_store", "sqlite_store"]
DAY_MS = 86_400_000


def read(reach: Reach, days: int = 1) -> list[LoggedCall]:
    now = timestamps.now_ms()
    return [one for batch in attempts.read(now - days * DAY_MS, now, reach) for one in batch.calls]


def reach(touched: dict[Any, Any], names: Any = (), counted: Any = ()) -> Reach:
    return Reach(touched, frozenset(counted), None, frozenset(names))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 500])
@pytest.mark.usefixtures("audit_store")
def test_batches_of_any_size_have_each_call_once_in_order(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(attempts, "BATCH_ROWS", size)
    rows = log(*(call(60 - number) for number in range(4)), call(2 * 86_400))
    now = timestamps.now_ms()
    assert [one.id for one in read(reach({("tool", 1): None}))] == [row.pk for row in rows[:4]]
    with CaptureQueriesContext(connection) as found:
        batches = list(attempts.read(now - DAY_MS, now, reach({("tool", 1): None})))
    check_bounds(found, 4 // size)
    assert sum(batch.scanned for batch in batches) == attempts.count(now - DAY_MS, now) == 4


@pytest.mark.usefixtures("audit_store")
def test_the_database_chooses_what_the_change_can_reach() -> None:
    rows = log(
        call(60),
        call(50, BOB),
        call(40, ALICE, TWO),
        call(30, ALICE, THREE),
        call(20, target_id=None, name="new", outcome=outcomes.UNKNOWN_TOOL),
        call(10, method="completion/complete"),
        call(5, None),
    )
    by_id = {row.pk: number for number, row in enumerate(rows)}

    def chosen(*args: Any, **options: Any) -> list[int]:
        return [by_id[one.id] for one in read(reach(*args, **options))]

    assert chosen({("tool", 1): None}) == [0, 1]
    assert chosen({("tool", 1): frozenset({BOB})}) == [1]
    assert chosen({("tool", 1): frozenset({BOB}), ("tool", 2): frozenset({ALICE})}) == [0, 1, 2], (
        "people of all of them"
    )
    assert chosen({("tool", 9): None}, names={("tool", "new")}) == [4]
    assert chosen({("tool", 1): None}, counted={3}) == [0, 1, 3]


@pytest.mark.usefixtures("audit_store")
def test_arguments_are_read_of_some_calls() -> None:
    first, second, _third = log(call(3, arguments={"a": 1}), call(2, arguments="pruned:sha256:"), call(1))
    assert attempts.read_arguments([first.pk, second.pk]) == {first.pk: '{"a": 1}', second.pk: "pruned:sha256:"}
    assert attempts.read_arguments([]) == {}


@pytest.mark.usefixtures("audit_store")
def test_errors_are_read_of_some_calls() -> None:
    first, second, _third = log(call(3, detail="no", result=""), call(2, result="pruned:sha256:"), call(1))
    expected = {first.pk: ("no", ""), second.pk: ("", "pruned:sha256:")}
    assert attempts.read_errors([first.pk, second.pk]) == expected
    assert attempts.read_errors([]) == {}


@pytest.mark.usefixtures("audit_store")
def test_a_call_has_its_duration_and_the_size_of_its_result() -> None:
    log(call(3, duration_us=4_000_000_000, result_bytes=9), call(2, duration_us=None, result_bytes=0))
    found = read(reach({("tool", 1): None}))
    assert [(one.duration_us, one.result_bytes) for one in found] == [(4_000_000_000, 9), (None, 0)]


def entry(ago: float, outcome: str = "ok", request_id: str = "a", **fields: Any) -> LoggedCall:
    row = call(ago, ALICE, ONE, outcome=outcome, request_id=request_id, **fields)
    return LoggedCall._make(getattr(row, name) for name in LoggedCall._fields)


def test_a_request_that_is_denied_long_after_another_waited_is_one_of_its_own() -> None:
    chosen = AttemptFilter()
    assert chosen.accepts(entry(5_000, outcomes.WAITING))
    assert chosen.accepts(entry(4_000, outcomes.REFUSED)), "clients begin to count anew"
    assert chosen.accepts(entry(3_000, outcomes.WAITING))
    assert not chosen.accepts(entry(100, outcomes.APPROVAL_EXPIRED)), "a task waits as long as its request is open"
    assert chosen.accepts(entry(90, outcomes.APPROVAL_EXPIRED)), "the wait is over"


def test_few_waiting_calls_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "MAX_WAITING", 2)
    chosen = AttemptFilter()
    for name in "abc":
        chosen.accepts(entry(50, outcomes.WAITING, name))
    assert [chosen.accepts(entry(40, outcomes.APPROVAL_DENIED, name)) for name in "abc"] == [True, False, False]
