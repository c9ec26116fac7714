"""One statement on a read-only connection of its own, with limits on rows, bytes and seconds.

PostgreSQL bounds a statement itself. SQLite runs in a process that can be killed (`reader`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import psycopg
from psycopg.types.json import Jsonb

from catalog.errors import ToolError
from catalog.runners.sql_query.reader import collect
from catalog.runners.sql_query.readers import Reader, ReaderEnded, SqliteReaders
from catalog.runners.sql_query.statements import convert_for_psycopg
from toolhub.parts import parts

CONNECT_SECONDS = 5
UNREACHABLE = "The database cannot be reached now."
CANCELLED = "It was cancelled."
READ_ONLY = "The query was rejected: it tried to make changes, but this connection is read-only."
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Bounds:
    rows: int
    bytes: int
    seconds: float


@dataclass(slots=True)
class QueryResult:
    columns: list[str]
    rows: list[dict[str, Any]] = field(default_factory=list)
    cut: str = ""
    """The reason why the rows are incomplete, or ""."""


class Query:
    """One statement that runs in a thread; `stop` may be called from any other thread."""

    def __init__(
        self,
        address: str,
        statement: str,
        values: Mapping[str, Any],
        bounds: Bounds,
        located: Mapping[str, str] | None = None,
    ) -> None:
        """`located` are libpq's host, hostaddr and port, where the names in the address were looked up before."""
        self._located = located or {}
        self._address, self._statement, self._values, self._bounds = address, statement, values, bounds
        self._lock = threading.Lock()
        self._stopped = False
        self._connection: Any = None
        self._until = 0.0

    def run(self) -> QueryResult:
        self._until = time.monotonic() + self._bounds.seconds
        try:
            return self._sqlite() if self._address.startswith("sqlite:") else self._postgres()
        except psycopg.Error as error:
            raise ToolError(self._format_postgres_error(error), code=_code(error)) from None

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            if isinstance(self._connection, Reader):
                self._connection.kill()
            elif self._connection is not None:
                with suppress(psycopg.Error):
                    self._connection.cancel_safe(timeout=CONNECT_SECONDS)

    def _set_connection(self, connection: Any) -> None:
        with self._lock:
            self._connection = connection
            if self._stopped:
                raise ToolError(CANCELLED)

    def _is_over(self) -> bool:
        return self._stopped or time.monotonic() > self._until

    def _sqlite(self) -> QueryResult:
        path = unquote(urlsplit(self._address).path)
        request = {
            "uri": f"file:{quote(path[1:] if path.startswith('//') else path)}?mode=ro",
            "statement": self._statement,
            "values": dict(self._values),
            **asdict(self._bounds),
        }
        readers = parts.get(SqliteReaders)
        reader = readers.take()
        try:
            found = self._ask(reader, request)
        except ReaderEnded as error:
            if error.late or self._stopped or not reader.used:
                raise ToolError(self._explain_end(error)) from None
            reader = Reader()  # the other one may have ended while it was idle
            try:
                found = self._ask(reader, request)
            except ReaderEnded as again:
                raise ToolError(self._explain_end(again)) from None
        if found.pop("last", False):
            reader.end()
        else:
            readers.give(reader)
        if "error" in found:
            code = "timeout" if found["error"] == "time" else ""
            raise ToolError(self._format_sqlite_error(found["error"], found["message"]), code=code)
        return QueryResult(**found)

    def _ask(self, reader: Reader, request: Mapping[str, Any]) -> dict[str, Any]:
        try:
            self._set_connection(reader)
            return reader.ask(request)
        except BaseException:
            reader.end()
            raise
        finally:
            with self._lock:
                self._connection = None

    def _explain_end(self, error: ReaderEnded) -> str:
        if self._stopped:
            return CANCELLED
        if error.late:
            return self._late
        log.error("the process that reads an SQLite database ended: %s", error)
        return "The query ended the process that reads the database. Ask for less."

    def _postgres(self) -> QueryResult:
        milliseconds = max(1, int(self._bounds.seconds * 1000))
        options = f"-c default_transaction_read_only=on -c statement_timeout={milliseconds} -c lock_timeout=5000"
        located: Any = self._located
        with psycopg.connect(
            self._address,
            connect_timeout=CONNECT_SECONDS,
            options=options,
            application_name="toolhub sql_query",
            **located,
        ) as connection:
            connection.read_only = True
            self._set_connection(connection)
            try:
                # A server-side cursor accepts only a query, and fetches rows on demand.
                with connection.cursor(name="toolhub") as cursor:
                    cursor.itersize = 200
                    values = {name: _postgres(value) for name, value in self._values.items()}
                    cursor.execute(convert_for_psycopg(self._statement), values)
                    columns = [column.name for column in cursor.description or ()]
                    return QueryResult(**collect(columns, cursor, asdict(self._bounds), self._is_over))
            finally:
                with self._lock:
                    self._connection = None
                connection.rollback()

    @property
    def _late(self) -> str:
        return f"The query took longer than {self._bounds.seconds:g} s and was stopped. Ask for less."

    def _format_sqlite_error(self, kind: str, message: str) -> str:
        match kind:
            case "time":
                return self._late
            case "memory":
                return "The query needs more memory than it may use. Ask for less."
            case "open":
                return "The database cannot be opened."
            case "write":
                return READ_ONLY
            case _:
                return f"The database rejected the query: {message or 'no reason given'}."

    def _format_postgres_error(self, error: psycopg.Error) -> str:
        if isinstance(error, (psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable)):
            return self._late
        if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
            return READ_ONLY
        if isinstance(error, psycopg.OperationalError) and not error.sqlstate:
            return UNREACHABLE
        return f"The database rejected the query: {(error.diag.message_primary or 'no reason given')[:300]}."


def _code(error: psycopg.Error) -> str:
    """Return the SQLSTATE, or one of the words for hints."""
    if isinstance(error, psycopg.errors.QueryCanceled):
        return "timeout"
    return error.sqlstate or "unreachable"


def _postgres(value: Any) -> Any:
    return Jsonb(value) if isinstance(value, dict) else value
