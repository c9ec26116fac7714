"""One statement on a read-only connection of its own, with limits on rows, bytes and seconds."""

from __future__ import annotations

import base64
import json
import math
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import psycopg
from psycopg.types.json import Jsonb

from catalog.errors import ToolError
from catalog.runners.sql_query.statements import convert_for_psycopg

CHECK_INTERVAL_STEPS = 10_000
"""Number of SQLite instructions between two checks of the time."""
MAX_VALUE_BYTES = 16_777_216
CONNECT_SECONDS = 5
UNREACHABLE = "The database cannot be reached now."
_ALLOWED_ACTIONS = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
_DENIED_FUNCTIONS = frozenset({"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"})


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
        except (sqlite3.Error, psycopg.Error) as error:
            raise ToolError(self._format_error(error)) from None

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            if isinstance(self._connection, sqlite3.Connection):
                self._connection.interrupt()
            elif self._connection is not None:
                with suppress(psycopg.Error):
                    self._connection.cancel_safe(timeout=CONNECT_SECONDS)

    def _set_connection(self, connection: Any) -> None:
        with self._lock:
            self._connection = connection
            if self._stopped:
                raise ToolError("It was cancelled.")

    def _is_over(self) -> bool:
        return self._stopped or time.monotonic() > self._until

    def _sqlite(self) -> QueryResult:
        path = unquote(urlsplit(self._address).path)
        uri = f"file:{quote(path[1:] if path.startswith('//') else path)}?mode=ro"
        with closing(
            sqlite3.connect(uri, uri=True, timeout=min(5.0, self._bounds.seconds), check_same_thread=False)
        ) as connection:
            connection.execute("PRAGMA query_only=ON")
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
            connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
            connection.set_authorizer(_authorise)
            connection.set_progress_handler(self._is_over, CHECK_INTERVAL_STEPS)
            self._set_connection(connection)
            try:
                cursor = connection.execute(self._statement, {name: _sqlite(v) for name, v in self._values.items()})
                return self._collect([column[0] for column in cursor.description or ()], cursor)
            finally:
                with self._lock:
                    self._connection = None

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
                    return self._collect([column.name for column in cursor.description or ()], cursor)
            finally:
                with self._lock:
                    self._connection = None
                connection.rollback()

    def _collect(self, columns: list[str], rows: Any) -> QueryResult:
        found = QueryResult(_make_unique(columns))
        size = 0
        for row in _limit_time(rows, self._is_over):
            if row is None:
                found.cut = f"after {self._bounds.seconds:g} s"
                break
            if len(found.rows) >= self._bounds.rows:
                found.cut = f"after {self._bounds.rows} rows"
                break
            shown = {name: _to_json_value(value) for name, value in zip(found.columns, row, strict=True)}
            size += len(json.dumps(shown, ensure_ascii=False).encode("utf-8", "surrogatepass"))
            if size > self._bounds.bytes:
                found.cut = f"after {self._bounds.bytes} bytes"
                break
            found.rows.append(shown)
        return found

    def _format_error(self, error: Exception) -> str:
        if isinstance(error, (psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable)) or (
            isinstance(error, sqlite3.OperationalError) and "interrupted" in str(error)
        ):
            return f"The query took longer than {self._bounds.seconds:g} s and was stopped. Ask for less."
        if isinstance(error, (psycopg.errors.ReadOnlySqlTransaction, sqlite3.DatabaseError)) and (
            isinstance(error, psycopg.Error) or "not authorized" in str(error) or "readonly" in str(error)
        ):
            return "The query was rejected: it tried to make changes, but this connection is read-only."
        if isinstance(error, psycopg.OperationalError) and not error.sqlstate:
            return UNREACHABLE
        if isinstance(error, sqlite3.OperationalError) and "unable to open" in str(error):
            return "The database cannot be opened."
        message = (error.diag.message_primary if isinstance(error, psycopg.Error) else str(error)) or "no reason given"
        return f"The database rejected the query: {message[:300]}."


def _authorise(action: int, first: str | None, second: str | None, *_: Any) -> int:
    if action not in _ALLOWED_ACTIONS or (
        action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _DENIED_FUNCTIONS
    ):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _limit_time(rows: Any, over: Any) -> Iterator[Any]:
    for row in rows:
        if over():
            yield None
            return
        yield row


def _make_unique(columns: list[str]) -> list[str]:
    """Make column names unique, so that two columns of one name keep both their values."""
    made: list[str] = []
    for column in columns:
        name, number = column, 2
        while name in made:
            name, number = f"{column}_{number}", number + 1
        made.append(name)
    return made


def _sqlite(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else value


def _postgres(value: Any) -> Any:
    return Jsonb(value) if isinstance(value, dict) else value


def _to_json_value(value: Any) -> Any:
    """Convert a value to JSON; types that JSON lacks become text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (bytes, memoryview)):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, (list, tuple)):
        return [_to_json_value(item) for item in value]
    if isinstance(value, dict):
        return {str(name): _to_json_value(item) for name, item in value.items()}
    return str(value)
