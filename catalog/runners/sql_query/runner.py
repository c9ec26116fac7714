"""Runs one read-only statement on a database that the setting TOOLHUB_SQL_DATABASES names.

    {"database": "sales", "statement": "SELECT product, units FROM sales WHERE region = :region ORDER BY units DESC"}

The administrator writes the statement; arguments are bound to its `:parameters` and never become SQL. A parameter whose
argument has no value is NULL. The connection can only read; rows, bytes and seconds are bounded, and an answer that was
cut says so. On PostgreSQL give the hub a role that may read what it should and nothing more: functions of the database
that do more than read are beyond a read-only transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from django.conf import settings as configured
from django.utils.translation import gettext as _
from pydantic import BaseModel, ConfigDict, Field, field_validator

from catalog import threads
from catalog.functions.content import Structured, Text
from catalog.functions.context import Context
from catalog.runners.sql_query import statements
from catalog.runners.sql_query.reading import Bounds, Found, Reading

CELL_CHARACTERS = 80
TABLE_ROWS = 100


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")

    database: str = Field(min_length=1, max_length=64, description="A database name from TOOLHUB_SQL_DATABASES.")
    statement: str = Field(
        min_length=1, max_length=20_000, description="One SELECT, WITH or VALUES statement with :parameters."
    )
    parameters: dict[str, str] = Field(
        default_factory=dict,
        description="Maps SQL parameters to arguments. A parameter that is not listed uses the argument of the same "
        "name.",
    )
    max_rows: int = Field(default=200, ge=1, le=100_000)
    max_bytes: int = Field(default=262_144, ge=100, le=16_777_216, description="Maximum size of the rows as JSON.")
    timeout: float = Field(
        default=10.0, gt=0, le=600, description="Time limit in seconds. The tool's own time limit also applies."
    )

    @field_validator("statement")
    @classmethod
    def _it_is_one_and_reads(cls, statement: str) -> str:
        statements.names(statement)
        return statement


def not_ready(settings: Settings) -> str | None:
    """Why a tool with these settings could not run on this installation."""
    if settings.database in configured.SQL_DATABASES:
        return None
    said = {"name": settings.database, "there": ", ".join(configured.SQL_DATABASES)}
    if not configured.SQL_DATABASES:
        return _("TOOLHUB_SQL_DATABASES has no database %(name)s. Add it and restart.") % said
    return _("TOOLHUB_SQL_DATABASES has no database %(name)s. Available: %(there)s.") % said


def prepare(settings: Settings) -> Callable[[dict[str, Any], Context], Awaitable[Any]]:
    if problem := not_ready(settings):
        raise LookupError(problem)
    address = configured.SQL_DATABASES[settings.database]
    names = {name: settings.parameters.get(name, name) for name in statements.names(settings.statement)}
    bounds = Bounds(settings.max_rows, settings.max_bytes, settings.timeout)

    async def run(arguments: dict[str, Any], context: Context) -> Any:
        values = {name: arguments.get(argument) for name, argument in names.items()}
        reading = Reading(address, settings.statement, values, bounds)
        try:
            return _answer(await threads.tools().run(reading.run))
        except asyncio.CancelledError:
            # Cancelling asks the server over a connection of its own, which is no work for the event loop.
            asyncio.get_running_loop().run_in_executor(None, reading.stop)
            raise

    return run


def _answer(found: Found) -> Any:
    note = f"There are more rows: the answer was cut off {found.cut}." if found.cut else ""
    value: dict[str, Any] = {
        "columns": found.columns,
        "rows": found.rows,
        "row_count": len(found.rows),
        "truncated": bool(found.cut),
    }
    table = _table(found)
    if len(found.rows) > TABLE_ROWS:
        note = f"{note} The table shows {TABLE_ROWS} of {len(found.rows)} rows.".strip()
    if note:
        table += f"\n\n[{note} Ask for less, or for sums instead of rows.]"
    return Structured(value, [Text(table)])


def _table(found: Found) -> str:
    if not found.rows:
        return "No rows."
    lines = [" | ".join(found.columns), " | ".join("---" for _ in found.columns)]
    lines += [" | ".join(_cell(value) for value in row.values()) for row in found.rows[:TABLE_ROWS]]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    text = "" if value is None else " ".join(str(value).split()).replace("|", "\\|")
    return text if len(text) <= CELL_CHARACTERS else text[: CELL_CHARACTERS - 3] + "..."
