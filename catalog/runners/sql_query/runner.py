"""One read-only query of a database, with its rows as the result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from django.conf import settings as configured

from catalog import threads
from catalog.functions.content import Structured, Text
from catalog.functions.context import Context
from catalog.runners.sql_query import statements
from catalog.runners.sql_query.read_query import Bounds, Query, QueryResult
from catalog.runners.sql_query.settings import Settings, not_ready

MAX_CELL_CHARACTERS = 80
MAX_TABLE_ROWS = 100


def prepare(settings: Settings) -> Callable[[dict[str, Any], Context], Awaitable[Any]]:
    if problem := not_ready(settings):
        raise LookupError(problem)
    address = configured.SQL_DATABASES[settings.database]
    names = {name: settings.parameters.get(name, name) for name in statements.names(settings.statement)}
    bounds = Bounds(settings.max_rows, settings.max_bytes, settings.timeout)

    async def run(arguments: dict[str, Any], context: Context) -> Any:
        values = {name: arguments.get(argument) for name, argument in names.items()}
        reading = Query(address, settings.statement, values, bounds)
        try:
            return _answer(await threads.tools().run(reading.run))
        except asyncio.CancelledError:
            # Cancelling sends a request over a connection of its own, which would block the event loop.
            asyncio.get_running_loop().run_in_executor(None, reading.stop)
            raise

    return run


def _answer(found: QueryResult) -> Any:
    note = f"There are more rows: the result was truncated {found.cut}." if found.cut else ""
    value: dict[str, Any] = {
        "columns": found.columns,
        "rows": found.rows,
        "row_count": len(found.rows),
        "truncated": bool(found.cut),
    }
    table = _table(found)
    if len(found.rows) > MAX_TABLE_ROWS:
        note = f"{note} The table shows {MAX_TABLE_ROWS} of {len(found.rows)} rows.".strip()
    if note:
        table += f"\n\n[{note} Request fewer rows, or totals instead of rows.]"
    return Structured(value, [Text(table)])


def _table(found: QueryResult) -> str:
    if not found.rows:
        return "No rows."
    lines = [" | ".join(found.columns), " | ".join("---" for _ in found.columns)]
    lines += [" | ".join(_cell(value) for value in row.values()) for row in found.rows[:MAX_TABLE_ROWS]]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    text = "" if value is None else " ".join(str(value).split()).replace("|", "\\|")
    return text if len(text) <= MAX_CELL_CHARACTERS else text[: MAX_CELL_CHARACTERS - 3] + "..."
