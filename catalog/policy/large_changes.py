"""Large changes of the catalogue on SQLite, where one writer blocks all others: prepared apart, then written at once.

The work runs against a copy of the catalogue in memory, with all its validation, history and log entries. What it
changed there is then written to the database in one short transaction, so that calls are logged meanwhile. If the
catalogue changed in between, the work runs again on a new copy.

On PostgreSQL, where writers do not block each other, the work runs in one transaction. On both, it runs again when a
row that somebody added meanwhile refers to one that it deletes, such as a request for access to a tool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from django.db import DEFAULT_DB_ALIAS, IntegrityError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from audit.actions import log
from catalog.policy import revision
from catalog.signals import announce
from toolhub import conflicts

T = TypeVar("T")
Row = tuple[Any, ...]
Rows = dict[int, Row]
"""Rows of a table by their rowid; the first value is the rowid."""

MAX_TRIES = 5
SCHEMA = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
LIVE_TABLES = frozenset(
    {
        "django_session",
        "django_admin_log",
        "catalog_limitusage",
        "catalog_storedresult",
        "catalog_task",
        "access_servingprocess",
    }
)
"""Tables that a change of the catalogue does not read, and that traffic and heartbeats change all the time. Like the
audit log and the history, they are empty in the copy. Their keys go on where those of the database end.
"""
IGNORED_TABLES = frozenset({revision.REVISION})
"""Tables that the triggers of the database write by themselves."""


class Stale(Exception):
    """Error: the catalogue kept changing while a large change of it was prepared."""


class _Rollback(Exception):
    """The signal to roll back after a plan."""


@dataclass(slots=True)
class _Copy:
    wrapper: BaseDatabaseWrapper
    revision: int
    sequences: dict[str, int]
    """The last key of each table, as the database had it."""
    tables: list[str] = field(default_factory=list)
    rows: dict[str, Rows] = field(default_factory=dict)
    """The rows of each table when it was copied."""


@dataclass(slots=True)
class _Difference:
    table: str
    before: Rows
    """Rows that are changed or deleted, as they were."""
    changed: list[Row]
    deleted: list[int]
    added: list[Row]
    columns: list[str]


def run(work: Callable[[], T], *, plan: bool = False) -> T:
    """Do `work` completely or not at all, and return its result; a plan changes nothing.

    `work` may run several times; it must have no other effect than on the default database, in this thread. Raises
    what it raises, and Stale.
    """
    main = connections[DEFAULT_DB_ALIAS]
    if main.in_atomic_block:
        return _run_in_transaction(work, plan)
    for _ in range(MAX_TRIES):
        try:
            if main.vendor != "sqlite":
                return _run_in_transaction(work, plan)
            done = _run_on_copy(main, work, plan)
        except IntegrityError as error:
            if not conflicts.is_lost_reference(error):
                raise
        else:
            if done is not None:
                return done.result
    raise Stale("The catalogue is being changed at the same time. Try again.")


@dataclass(frozen=True, slots=True)
class _Done(Generic[T]):
    result: T


def _run_on_copy(main: BaseDatabaseWrapper, work: Callable[[], T], plan: bool) -> _Done[T] | None:
    """Do the work on a copy and write what it changed; None when the database changed in between."""
    copy = _make_copy(main)
    try:
        with _use(copy.wrapper), transaction.atomic():
            result = work()
        if plan:
            return _Done(result)
        differences, actions = _find_differences(copy), _read_actions(copy)
        if not (differences or actions) or _write(main, copy, differences, actions):
            return _Done(result)
        return None
    finally:
        BaseDatabaseWrapper.close(copy.wrapper)


def _run_in_transaction(work: Callable[[], T], plan: bool) -> T:
    result: T
    try:
        with transaction.atomic():
            result = work()
            if plan:
                raise _Rollback
    except _Rollback:
        pass
    return result


@contextmanager
def _use(wrapper: BaseDatabaseWrapper) -> Iterator[None]:
    """Let this thread use `wrapper` as its default database."""
    main = connections[DEFAULT_DB_ALIAS]
    connections[DEFAULT_DB_ALIAS] = wrapper
    try:
        yield
    finally:
        connections[DEFAULT_DB_ALIAS] = main


def _make_copy(main: BaseDatabaseWrapper) -> _Copy:
    wrapper = connections.create_connection(DEFAULT_DB_ALIAS)
    wrapper.settings_dict = {**main.settings_dict, "NAME": ":memory:"}
    try:
        return _fill_copy(main, wrapper)
    except BaseException:
        BaseDatabaseWrapper.close(wrapper)
        raise


def _fill_copy(main: BaseDatabaseWrapper, wrapper: BaseDatabaseWrapper) -> _Copy:
    wrapper.connect()
    with main.cursor() as source, wrapper.cursor() as target:
        target.execute("PRAGMA foreign_keys = OFF")
        source.execute("BEGIN")  # deferred: it reads one state and locks nothing
        try:
            schema = _without_shadows(source.execute(SCHEMA).fetchall())
            sequences = dict(source.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
            copy = _Copy(wrapper, 0, sequences)
            for kind, name, statement in schema:
                if kind == "table":
                    target.execute(statement)
                    copy.tables.append(name)
            for name in copy.tables:
                copy.rows[name] = {} if _is_empty_in_copy(name) else _read(source, name)
            copy.revision = next((row[2] for row in copy.rows[revision.REVISION].values()), 0)
        finally:
            source.execute("ROLLBACK")
        for name, rows in copy.rows.items():
            if rows:
                # With their rowids: a table with another primary key would be numbered anew, without its gaps.
                columns = [row[1] for row in target.execute(f'PRAGMA table_info("{name}")').fetchall()]
                names = ", ".join(["rowid", *(f'"{column}"' for column in columns)])
                places = ", ".join("?" * (len(columns) + 1))
                statement = f'INSERT INTO "{name}" ({names}) VALUES ({places})'  # noqa: S608 - names of the schema
                _execute_many(target, statement, list(rows.values()))
        _execute_many(target, "DELETE FROM sqlite_sequence WHERE name = ?", [(name,) for name in sequences])
        _execute_many(target, "INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", list(sequences.items()))
        for kind, _name, statement in schema:
            if kind != "table":
                target.execute(statement)
        target.execute("PRAGMA foreign_keys = ON")
    return copy


def _without_shadows(schema: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Return the schema without the tables that a virtual table makes for itself."""
    virtual = tuple(f"{name}_" for _, name, statement in schema if statement.upper().startswith("CREATE VIRTUAL"))
    return [row for row in schema if not row[1].startswith(virtual)]


def _is_empty_in_copy(table: str) -> bool:
    return table.startswith("audit_") or "_historical" in table or table in LIVE_TABLES


def _read(cursor: Any, table: str) -> Rows:
    return {row[0]: row for row in cursor.execute(f'SELECT rowid, * FROM "{table}"').fetchall()}  # noqa: S608


def _execute_many(cursor: Any, statement: str, rows: list[Any]) -> None:
    if rows:
        # The driver's own method: Django's would read its placeholders in another way.
        cursor.connection.executemany(statement, rows)


def _find_differences(copy: _Copy) -> list[_Difference]:
    found = []
    with copy.wrapper.cursor() as cursor:
        for table in copy.tables:
            if table.startswith("audit_") or table in IGNORED_TABLES:
                continue
            before, after = copy.rows[table], _read(cursor, table)
            changed = [row for key, row in after.items() if key in before and before[key] != row]
            deleted = [key for key in before if key not in after]
            added = [row for key, row in after.items() if key not in before]
            if changed or deleted or added:
                columns = [row[1] for row in cursor.execute(f'PRAGMA table_info("{table}")').fetchall()]
                old = {key: before[key] for key in (*(row[0] for row in changed), *deleted)}
                found.append(_Difference(table, old, changed, deleted, added, columns))
    return found


def _read_actions(copy: _Copy) -> list[log.Recorded]:
    with _use(copy.wrapper):
        return log.recorded()


def _write(main: BaseDatabaseWrapper, copy: _Copy, differences: list[_Difference], actions: list[log.Recorded]) -> bool:
    """Write what changed in the copy; return False, and write nothing, when the database is not as it was copied."""
    with transaction.atomic(), main.cursor() as cursor:
        if not _is_as_copied(cursor, copy, differences):
            return False
        cursor.execute("PRAGMA defer_foreign_keys = ON")
        for one in differences:
            _execute_many(cursor, f'DELETE FROM "{one.table}" WHERE rowid = ?', [(key,) for key in one.deleted])  # noqa: S608
        for one in differences:
            values = ", ".join(f'"{column}" = ?' for column in one.columns)
            statement = f'UPDATE "{one.table}" SET {values} WHERE rowid = ?'  # noqa: S608 - names of the schema
            _execute_many(cursor, statement, [(*row[1:], row[0]) for row in one.changed])
        for one in differences:
            places = ", ".join("?" * len(one.columns))
            _execute_many(cursor, f'INSERT INTO "{one.table}" VALUES ({places})', [row[1:] for row in one.added])  # noqa: S608
        log.record_again(actions)
        announce()
    return True


def _is_as_copied(cursor: Any, copy: _Copy, differences: list[_Difference]) -> bool:
    if revision.current() != copy.revision:
        return False
    sequences = dict(cursor.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
    for one in differences:
        if one.added and sequences.get(one.table) != copy.sequences.get(one.table):
            return False
        for key, row in one.before.items():
            if cursor.execute(f'SELECT rowid, * FROM "{one.table}" WHERE rowid = %s', [key]).fetchone() != row:  # noqa: S608
                return False
    return True
