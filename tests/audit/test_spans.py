"""A part of the log is read in pieces, each with one bound on each side: with two, SQLite reads all of it each time."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from audit.actions import ledger
from audit.export import activity
from audit.export import rows as export_rows
from audit.models import Action, Call
from audit.queries import walk
from audit.queries.search import CallSearch, id_at
from audit.queries.spans import ALL, Span
from tests.audit.rows import build_call, save

LOWER, UPPER = re.compile(r'"id" >=? '), re.compile(r'"id" <=? ')
FIRST, LAST = UUID(int=10), UUID(int=20)


def check_bounds(found: CaptureQueriesContext, least: int) -> None:
    """Each query that reads in order has at most one bound on each side."""
    bounded = [one["sql"] for one in found.captured_queries if LOWER.search(one["sql"]) or UPPER.search(one["sql"])]
    assert len(bounded) >= least
    for sql in bounded:
        for part in re.split("INTERSECT", sql):
            assert len(LOWER.findall(part)) <= 1 and len(UPPER.findall(part)) <= 1, sql


def test_a_part_of_an_interval_has_the_narrower_bound_on_each_side() -> None:
    whole = Span(FIRST, LAST)
    assert whole.since(UUID(int=12)) == Span(UUID(int=12), LAST) == whole.after(UUID(int=11))
    assert whole.before(UUID(int=12)) == Span(FIRST, UUID(int=12)) == whole.through(UUID(int=11))
    assert whole.since(UUID(int=1)) == whole.before(UUID(int=30)) == whole.since(None) == whole.before(None) == whole
    assert ALL.since(3).before(5) == Span(3, 5) and ALL.after(3).through(5) == Span(4, 6)


@pytest.fixture
def calls() -> list[Call]:
    return save(*(build_call(number, arguments=f'{{"note":"number {number}"}}') for number in range(20)))


@pytest.fixture
def period(calls: list[Call]) -> dict[str, Any]:
    """All calls but the first and the last two."""
    return {"since": calls[1].started_at.isoformat(), "until": calls[18].started_at.isoformat()}


@pytest.mark.django_db
@pytest.mark.parametrize("forward", [False, True])
def test_a_search_in_a_period_goes_on_where_it_stopped(
    calls: list[Call], period: dict[str, Any], monkeypatch: pytest.MonkeyPatch, forward: bool
) -> None:
    monkeypatch.setattr(walk, "_FIRST_SLICE_ROWS", 2)
    monkeypatch.setattr(walk, "_MAX_SLICE_ROWS", 4)
    cursor: dict[str, Any] = {"after": calls[3].pk.hex} if forward else {"before": calls[16].pk.hex}
    searches: list[dict[str, Any]] = [{"q": "number 1"}, {"tool": "get_weather", "outcome": "ok"}, {"client": "curs*"}]
    for parts in searches:
        search = CallSearch(**parts, **period)
        with CaptureQueriesContext(connection) as found:
            page = search.page(size=50, **cursor)
        check_bounds(found, 2)
        rows = CallSearch(**parts).page(size=50).rows
        beyond = [row.pk for row in rows if (row.pk > calls[3].pk if forward else row.pk < calls[16].pk)]
        low, high = (id_at(calls[number].started_at) for number in (1, 18))
        assert [row.pk for row in page.rows] == [pk for pk in beyond if low <= pk < high]


@pytest.mark.django_db
def test_an_export_of_a_period_reads_each_batch_from_where_the_last_one_ended(
    calls: list[Call], period: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with CaptureQueriesContext(connection) as found:
        batches = list(CallSearch(**period).iterate_batches(4))
    check_bounds(found, 6)
    assert [row.pk for batch in batches for row in batch] == [row.pk for row in reversed(calls[1:18])]
    monkeypatch.setattr(export_rows, "BATCH_ROWS", 4)
    for number in range(10):
        ledger.write("root", "created", "tool", f"tool {number}", None, None)
    keys = list(Action.objects.order_by("pk").values_list("pk", flat=True))
    with CaptureQueriesContext(connection) as found:
        changes = list(activity.iterate_batches(Action.objects.all(), Span(keys[1], keys[9])))
    check_bounds(found, 3)
    assert [row.pk for batch in changes for row in batch] == keys[8:0:-1]
