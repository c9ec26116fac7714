"""Bring the test database back to its state after the migrations, by deleting what a test wrote and nothing else.

Django's own way empties every table and sends `post_migrate`, which makes content types, permissions, the auditors'
group and the triggers again: about 0.4 s for each transactional test. A test writes to a few tables only.

What `post_migrate` made is the baseline. A test that changes a row of it, a trigger or a table is found by comparing,
and the baseline is restored: rows as they were, with their keys; the schema by `post_migrate`, as Django would.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from django.contrib.contenttypes.models import ContentType
from django.core.management.sql import emit_post_migrate_signal
from django.db import connections, transaction
from django.test import TransactionTestCase

from audit.queries import text_index
from catalog.models import CatalogueRevision

Rows = list[tuple[Any, ...]]

SCHEMA = {
    "sqlite": "SELECT type, name, sql FROM sqlite_master WHERE type IN ('table', 'trigger') ORDER BY 1, 2",
    "postgresql": """
        SELECT 'trigger', tgrelid::regclass::text || ' ' || tgname, pg_get_triggerdef(oid) || tgenabled::text
        FROM pg_trigger WHERE NOT tgisinternal
        UNION ALL
        SELECT 'function', oid::regprocedure::text, prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace
        UNION ALL
        SELECT 'table', table_name || '.' || column_name, data_type || is_nullable FROM information_schema.columns
        WHERE table_schema = 'public'
        ORDER BY 1, 2""",
}
NEVER_REPEATED = CatalogueRevision._meta.db_table
"""Its number starts at the clock. One that came back would make a snapshot of an earlier test look current."""


class Baseline:
    """The rows and the schema of one database after its migrations."""

    def __init__(self, alias: str) -> None:
        self.alias = alias
        with transaction.atomic(using=alias):
            self._execute(f"DELETE FROM {self._quoted(NEVER_REPEATED)}")
            with self._cursor() as cursor:
                names = connections[alias].introspection.table_names(cursor)
                # The tables behind a full-text index follow the table that it indexes.
                self.tables = sorted(name for name in names if not name.startswith(text_index.INDEX))
            rows = {table: self._rows(table) for table in self.tables}
            self.rows = {table: found for table, found in rows.items() if found}
            self.empty = [table for table in self.tables if table not in self.rows]
            self.schema = self._schema()

    def restore(self) -> None:
        """Delete what was written since, and put back what was changed.

        It waits for transactions of other threads that write, as emptying every table would.
        """
        with transaction.atomic(using=self.alias):
            self._wait_for_writers()
            if self._schema() != self.schema:
                self._restore_schema()
            changed = self._changed()
            for table in changed:
                self._execute(f"DELETE FROM {self._quoted(table)}")
                for row in self.rows[table]:
                    values = ", ".join(["%s"] * len(row))
                    self._execute(f"INSERT INTO {self._quoted(table)} VALUES ({values})", row)
            # A trigger may write to another table while rows are deleted: look again until nothing is left.
            while written := self._written():
                for table in written:
                    self._execute(f"DELETE FROM {self._quoted(table)}")
        if changed:
            ContentType.objects.clear_cache()

    def differences(self) -> list[str]:
        """Name the tables and other parts of the schema that are not as they were."""
        before, after = ({(kind, name): sql for kind, name, sql in schema} for schema in (self.schema, self._schema()))
        schema = [" ".join(key) for key in sorted({*before, *after}) if before.get(key) != after.get(key)]
        return [*schema, *self._changed(), *self._written()]

    def _wait_for_writers(self) -> None:
        """On SQLite the transaction has begun as the only one that writes."""
        if connections[self.alias].vendor == "postgresql":
            names = ", ".join(map(self._quoted, self.tables))
            self._execute(f"LOCK TABLE {names} IN SHARE ROW EXCLUSIVE MODE")

    def _restore_schema(self) -> None:
        """Send `post_migrate`, which puts triggers in place; its rows come with keys of their own."""
        emit_post_migrate_signal(verbosity=0, interactive=False, db=self.alias)
        before, after = set(self.schema), set(self._schema())
        assert before == after, f"a test left another schema behind: {sorted(before ^ after)}"

    def _changed(self) -> list[str]:
        return [table for table, rows in self.rows.items() if self._rows(table) != rows]

    def _written(self) -> list[str]:
        tables = (f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM {self._quoted(table)})" for table in self.empty)
        return [table for (table,) in self._execute(" UNION ALL ".join(tables))]

    def _rows(self, table: str) -> Rows:
        return sorted(self._execute(f"SELECT * FROM {self._quoted(table)}"), key=repr)

    def _schema(self) -> Rows:
        return self._execute(SCHEMA[connections[self.alias].vendor])

    def _quoted(self, name: str) -> str:
        return str(connections[self.alias].ops.quote_name(name))

    def _cursor(self) -> Any:
        return connections[self.alias].cursor()

    def _execute(self, statement: str, values: tuple[Any, ...] | None = None) -> Rows:
        with self._cursor() as cursor:
            cursor.execute(statement, values)
            return cursor.fetchall() if cursor.description else []


@contextmanager
def cleaning(*aliases: str) -> Iterator[dict[str, Baseline]]:
    """Let transactional tests restore the baselines of these databases instead of flushing them.

    At the end, raises AssertionError when a database is not as it was at the beginning.
    """
    baselines = {alias: Baseline(alias) for alias in aliases}
    flush = TransactionTestCase._fixture_teardown  # type: ignore[attr-defined]

    def restore(case: Any) -> None:
        if case.available_apps is not None or case.serialized_rollback or not case.databases <= baselines.keys():
            flush(case)
            return
        for alias in case.databases:
            baselines[alias].restore()

    with mock.patch.object(TransactionTestCase, "_fixture_teardown", restore):
        yield baselines
    for alias, baseline in baselines.items():
        left = baseline.differences()
        assert not left, f"tests left something behind in the database {alias!r}: {', '.join(left)}"
