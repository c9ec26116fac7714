"""The audit log in SQLite: WAL with synchronous=FULL, one IMMEDIATE transaction per batch."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Concatenate, ParamSpec, TypeVar

from django.conf import settings

from audit.format import timestamps
from audit.writing import sql as statements
from audit.writing.stores.base import AlreadyEnded, KeyTaken, NotDurable, Rows, StoreUnavailable

P = ParamSpec("P")
T = TypeVar("T")

_INSERT_CALL = statements.insert("audit_call", statements.CALL_COLUMNS)
_INSERT_LINK = statements.INSERT_LINK
_FINISH = (
    f"UPDATE audit_call SET {', '.join(f'{name} = ?' for name in statements.FINISH_COLUMNS[:-1])}"  # noqa: S608
    " WHERE id = ? AND outcome = 'running'"
)
_MIN_LOCK_SECONDS = 1.0
"""Minimum seconds to wait for another process's write lock; the watchdog counts all attempts together."""


def lock_timeout() -> float:
    """Return the seconds of one attempt. The writer tries twice: a longer RECORD_SECONDS prolongs each attempt."""
    return max(_MIN_LOCK_SECONDS, (settings.RECORD_SECONDS - 1) / 2)


def _translate_errors(method: Callable[Concatenate[SqliteStore, P], T]) -> Callable[Concatenate[SqliteStore, P], T]:
    def wrapper(self: SqliteStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(self, *args, **kwargs)
        except sqlite3.OperationalError as error:
            raise StoreUnavailable(_describe_error(error)) from error
        except sqlite3.IntegrityError as error:
            raise KeyTaken(str(error)) from error
        except sqlite3.DatabaseError as error:
            if type(error) is sqlite3.DatabaseError:  # a damaged file, or not a database
                raise StoreUnavailable(_describe_error(error)) from error
            raise

    return wrapper


def _describe_error(error: sqlite3.Error) -> str:
    text = str(error)
    if "locked" in text:
        return "the database is locked"
    if "full" in text:
        return "the disk of the database is full"
    return "the database failed"  # the driver's message is for the server log


def decode_text(data: bytes) -> str:
    """Return a text that may be no UTF-8: one row that was written outside the log must not stop the log."""
    return data.decode("utf-8", "backslashreplace")


class SqliteStore:
    _after_commit: list[Callable[[], None]]

    @_translate_errors
    def __init__(self, path: str) -> None:
        self._connection = connection = sqlite3.connect(
            path, timeout=lock_timeout(), isolation_level=None, check_same_thread=False, uri=path.startswith("file:")
        )
        connection.text_factory = decode_text
        try:
            mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
            if mode not in {"wal", "memory"}:
                mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
            connection.execute("PRAGMA synchronous=FULL")
            level = connection.execute("PRAGMA synchronous").fetchone()[0]
            if mode != "wal" or level < 2:
                raise NotDurable(
                    "SQLite must keep a write-ahead log in a file and sync it"
                    f" (journal_mode={mode}, synchronous={level})"
                )
        except BaseException:
            connection.close()
            raise

    def close(self) -> None:
        self._connection.close()

    @_translate_errors
    def begin(self) -> None:
        self._after_commit = []
        self._connection.execute("BEGIN IMMEDIATE")

    @_translate_errors
    def commit(self) -> None:
        self._connection.execute("COMMIT")
        after, self._after_commit = self._after_commit, []
        for work in after:
            work()

    def run_after_commit(self, work: Callable[[], None]) -> None:
        self._after_commit.append(work)

    @_translate_errors
    def rollback(self) -> None:
        self._after_commit = []
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    @_translate_errors
    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        return self._connection.execute(sql, parameters).rowcount

    @_translate_errors
    def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql, parameters).fetchall()

    @_translate_errors
    def write(self, calls: Rows, ends: Rows, links: Rows) -> None:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        if calls:
            connection.executemany(_INSERT_CALL, calls)
        if ends and connection.executemany(_FINISH, ends).rowcount != len(ends):
            raise AlreadyEnded
        if links:
            connection.executemany(_INSERT_LINK, links)
        connection.execute("COMMIT")

    @staticmethod
    def encode_time(ms: int) -> str:
        return timestamps.sql_text(ms)

    @staticmethod
    def decode_time(value: Any) -> int:
        return timestamps.to_ms(datetime.fromisoformat(str(value)).replace(tzinfo=UTC))
