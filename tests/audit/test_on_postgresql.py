"""What reads and prunes the audit log, on PostgreSQL as on SQLite."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from django.db import connections
from django.utils import timezone
from psycopg.pq import ConnStatus, ExecStatus

from audit import recorder, retention
from audit.export import rows as export_rows
from audit.integrity import verification
from audit.models import Call
from audit.queries.search import CallSearch
from audit.writing.stores.postgres import PostgresStore
from tests.audit import attempts
from tests.audit.rows import build_call, save
from tests.audit.stores import AuditStore

pytestmark = pytest.mark.postgres


def test_filters_and_exports_find_the_same_rows_whichever_index_is_read(postgres_store: AuditStore) -> None:
    outcomes = ("ok", "ok", "ok", "timeout", "refused")
    rows = [
        build_call(
            n, outcome=outcomes[n % 5], name=f"tool_{n % 7}", user_id=n % 3 + 1, arguments=f'{{"n":"number {n}"}}'
        )
        for n in range(1200)
    ]
    save(*rows)
    rows.reverse()
    wanted = [row.pk for row in rows if (row.user_id, row.name, row.outcome) == (2, "tool_3", "timeout")]
    question = CallSearch(tool="tool_3", outcome="timeout", user_id=2)
    assert [row.pk for row in question.page().rows] == wanted[:50]
    assert [row.pk for batch in question.iterate_batches(100) for row in batch] == wanted
    by_outcome = [row.pk for row in rows if (row.name, row.outcome) == ("tool_5", "refused")]
    assert [row.pk for row in CallSearch(tool="tool_5", outcome="refused").page().rows] == by_outcome[:50]
    assert [row.request_id for row in CallSearch(q="Number 117").page().rows] == [
        *(f"{n}" for n in range(1179, 1169, -1)),
        "117",
    ]
    lines = b"".join(export_rows.chunks(CallSearch(), "jsonl")).count(b"\n")
    assert lines == 1200


def test_texts_that_mean_something_to_the_database_are_kept_as_they_are(postgres_store: AuditStore) -> None:
    texts = [
        '"',
        "\\",
        '\\"',
        "{a,b}",
        "NULL",
        "",
        "', DROP TABLE audit_call; --",
        '","',
        "$1",
        "\t\n\r\x1f\x7f",
        "é\U0001f600",
    ]

    async def recorded() -> None:
        begun = [await recorder.begin(attempts.intent(text, text)) for text in texts]
        # Ended at once, so that they travel together.
        await asyncio.gather(*(recorder.finish(one, attempts.ending(result=one.intent.name)) for one in begun))
        await recorder.stop(60)

    asyncio.run(recorded())
    assert [(row.name, row.arguments, row.result) for row in Call.objects.order_by("pk")] == [(t, t, t) for t in texts]
    assert verification.run(store=False).first == ""


def test_pruned_bodies_and_rows_leave_a_chain_that_verifies(postgres_store: AuditStore) -> None:
    async def recorded() -> None:
        for _ in range(5):
            await attempts.call()
        await recorder.stop(60)

    asyncio.run(recorded())
    later = timezone.now() + timedelta(minutes=5)
    assert retention.prune(later, retention.BODIES).bodies == 5
    assert verification.run(store=False).first == ""
    assert retention.prune(later, retention.ROWS).rows == 5
    assert not Call.objects.exists()
    assert verification.run(store=False).first == ""


def test_the_statement_of_a_batch_outlives_what_the_driver_forgets_and_what_an_administrator_discards(
    postgres_store: AuditStore,
) -> None:
    store = PostgresStore(connections["default"].get_connection_params())
    try:
        for _ in range(8):  # often enough that the driver prepares it, and drops all it prepared after a rollback
            store.begin()
            store.execute("SELECT 1 WHERE 1 = ?", (1,))
            store.rollback()
        store.write([], [], [])
        store.execute("DISCARD ALL")
        store.write([], [], [])
    finally:
        store.close()


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        (None, ConnStatus.BAD, psycopg.OperationalError),
        (None, ConnStatus.OK, psycopg.OperationalError),  # cut while it was sent to: noticed only with the next use
        (b"23505", ConnStatus.OK, psycopg.errors.UniqueViolation),
    ],
)
def test_an_error_that_the_server_did_not_send_is_a_lost_connection(
    code: bytes | None, status: ConnStatus, kind: Any
) -> None:
    store = PostgresStore.__new__(PostgresStore)
    store._connection = SimpleNamespace(pgconn=SimpleNamespace(status=status))  # type: ignore[assignment]
    result: Any = SimpleNamespace(
        status=ExecStatus.FATAL_ERROR,
        error_message=b"it closed the connection",
        error_field=lambda field: code,
        get_error_message=lambda encoding: "it closed the connection",
    )
    with pytest.raises(psycopg.DatabaseError) as raised:
        store._checked(result)
    assert type(raised.value) is kind
