"""The numbers of a page are those of one moment, although calls move into the rollups while they are read."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, connections

from audit.format import timestamps
from audit.models import Rollup, RollupProgress
from audit.queries import rollups, statistics
from audit.queries.statistics import repeatable_read
from tests.audit.rows import build_call, save
from tests.audit.stores import AuditStore

MAX_QUERIES = 8
"""Of a report, and one more: what happens before that never happens."""


@pytest.fixture
def tables(audit_store: AuditStore) -> None:
    with connections["default"].schema_editor() as editor:
        editor.create_model(Rollup)
        editor.create_model(RollupProgress)


def run_elsewhere(work: Callable[[], Any]) -> None:
    """In a thread with a connection of its own, as another process would."""

    def within() -> None:
        try:
            work()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(within).result(60)


class RunBeforeQuery:
    """Has `work` done elsewhere just before the query of that number."""

    def __init__(self, number: int, work: Callable[[], Any]) -> None:
        self.number, self.work, self.seen = number, work, 0

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith("SELECT"):
            if self.seen == self.number:
                run_elsewhere(self.work)
            self.seen += 1
        return execute(sql, params, many, context)


def save_calls(number: int) -> None:
    """Three calls that nobody counted yet, of a tool and a person each time."""
    started = timestamps.from_ms(timestamps.now_ms()) - timedelta(seconds=90)
    values = {"target_id": 1, "name": "tool", "user_id": 7}
    save(*(build_call(10 * number + each, started_at=started, **values) for each in range(3)))


def catch_up_rollups() -> None:
    assert rollups.catch_up()


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("before", range(MAX_QUERIES))
def test_no_call_is_counted_twice_or_missed_when_it_is_tallied_while_a_page_counts(before: int) -> None:
    save_calls(1)
    with connection.execute_wrapper(RunBeforeQuery(before, catch_up_rollups)):
        report = statistics.report("7d")
    assert (report.calls, report.tools, report.users) == (3, [("tool", 3, 0)], [(7, 3, 0)])


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("before", range(4))
def test_no_call_is_missed_while_unused_tools_are_searched(before: int) -> None:
    save_calls(1)
    with connection.execute_wrapper(RunBeforeQuery(before, catch_up_rollups)):
        found, _, live = statistics.find_called_tools(timestamps.from_ms(timestamps.now_ms()) - timedelta(days=3))
    assert (found, live) == ({"tool"}, True)


@pytest.mark.usefixtures("tables")
def test_reading_at_repeatable_read_blocks_no_writer() -> None:
    save_calls(1)
    with repeatable_read():
        assert statistics.report("24h").calls == 3
        run_elsewhere(lambda: save_calls(2))
        run_elsewhere(catch_up_rollups)
        assert not Rollup.objects.exists()
    assert Rollup.objects.exists()
    with connection.cursor() as cursor:  # the next transaction may write as ever
        cursor.execute("DELETE FROM audit_call")
    assert statistics.report("7d").calls == 6
