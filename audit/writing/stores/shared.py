"""Django's own connection as a store: for commands and jobs that sign a checkpoint within their own transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from django.db import DatabaseError, IntegrityError, connection, transaction

from audit.writing.stores.base import KeyTaken, Rows, StoreUnavailable
from audit.writing.stores.postgres import PostgresStore
from audit.writing.stores.sqlite import SqliteStore, decode_text


class SharedStore:
    """The connection of this thread. It writes no calls: that is the work of the writer's own connection."""

    def __init__(self) -> None:
        self._block: AbstractContextManager[Any] | None = None

    def close(self) -> None:
        """Leave the connection open: it is not ours."""

    def begin(self) -> None:
        block = transaction.atomic()
        block.__enter__()
        self._block = block

    def commit(self) -> None:
        block, self._block = self._block, None
        if block is not None:
            block.__exit__(None, None, None)

    def run_after_commit(self, work: Callable[[], None]) -> None:
        transaction.on_commit(work)

    def rollback(self) -> None:
        if self._block is not None:
            transaction.set_rollback(True)
            self.commit()

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        return self._run(sql, parameters)[0]

    def fetch(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._run(sql, parameters)[1]

    def write(self, calls: Rows, ends: Rows, links: Rows) -> None:
        raise StoreUnavailable("calls are written on the writer's own connection")

    @staticmethod
    def encode_time(ms: int) -> Any:
        return _times().encode_time(ms)

    @staticmethod
    def decode_time(value: Any) -> int:
        return _times().decode_time(value)

    @staticmethod
    def _run(sql: str, parameters: Sequence[Any]) -> tuple[int, list[tuple[Any, ...]]]:
        try:
            with connection.cursor() as cursor, _lenient_texts():
                cursor.execute(sql.replace("?", "%s"), list(parameters))
                return cursor.rowcount, cursor.fetchall() if cursor.description else []
        except IntegrityError as error:
            raise KeyTaken(str(error)) from error
        except DatabaseError as error:
            raise StoreUnavailable("the database failed") from error


@contextmanager
def _lenient_texts() -> Iterator[None]:
    """Let SQLite return texts that are no UTF-8 as well."""
    if connection.vendor != "sqlite":
        yield
        return
    driver, factory = connection.connection, connection.connection.text_factory
    driver.text_factory = decode_text
    try:
        yield
    finally:
        driver.text_factory = factory


def _times() -> type[PostgresStore | SqliteStore]:
    return PostgresStore if connection.vendor == "postgresql" else SqliteStore
