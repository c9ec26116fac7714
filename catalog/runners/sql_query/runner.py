"""One read-only query of a database, with its rows as the result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
from django.conf import settings as configured
from psycopg.conninfo import conninfo_to_dict

from catalog import threads
from catalog.errors import ToolError
from catalog.functions.content import Structured, Text
from catalog.functions.context import Context
from catalog.runners import networks
from catalog.runners.sql_query import statements
from catalog.runners.sql_query.read_query import UNREACHABLE, Bounds, Query, QueryResult
from catalog.runners.sql_query.settings import Settings, not_ready
from toolhub import egress

MAX_CELL_CHARACTERS = 80
MAX_TABLE_ROWS = 100


def prepare(settings: Settings) -> Callable[[dict[str, Any], Context], Awaitable[Any]]:
    if problem := not_ready(settings):
        raise LookupError(problem)
    address = configured.SQL_DATABASES[settings.database]
    names = {name: settings.parameters.get(name, name) for name in statements.names(settings.statement)}
    bounds = Bounds(settings.max_rows, settings.max_bytes, settings.timeout)
    hosts = _list_hosts(address)
    pool = threads.sqlite if address.startswith("sqlite:") else threads.tools

    async def run(arguments: dict[str, Any], context: Context) -> Any:
        values = {name: arguments.get(argument) for name, argument in names.items()}
        reading = Query(address, settings.statement, values, bounds, await _locate(hosts))
        try:
            return _answer(await pool().run(reading.run, user_id=context.caller.user_id))
        except asyncio.CancelledError:
            # Cancelling on PostgreSQL sends a request over a connection of its own, which would block the event loop.
            asyncio.get_running_loop().run_in_executor(None, reading.stop)
            raise

    return run


def _list_hosts(address: str) -> list[tuple[str, str]]:
    """Return the hosts of a PostgreSQL address with their ports; none where libpq has no name to look up."""
    if address.startswith("sqlite:"):
        return []
    try:
        params = conninfo_to_dict(address)
    except psycopg.Error:
        return []  # the connection says what is wrong
    hosts = str(params.get("host") or "").split(",")
    ports = str(params.get("port") or "").split(",")
    if params.get("hostaddr") or not any(_is_name(host) for host in hosts):
        return []
    return list(zip(hosts, ports * len(hosts) if len(ports) == 1 else ports, strict=False))


def _is_name(host: str) -> bool:
    return bool(host) and not host.startswith(("/", "@"))


async def _locate(hosts: list[tuple[str, str]]) -> dict[str, str]:
    """Return the address of each host, for libpq, whose own look-up has no time limit and would block its thread.

    The names stay: certificates and password files are about them.
    """
    resolve = networks.resolver()
    found: list[tuple[str, str, str]] = []
    for host, port in hosts:
        try:
            addresses = await resolve(host, 0) if _is_name(host) else [""]
        except egress.EgressError:
            addresses = []
        found += [(host, address, port) for address in addresses]
    if hosts and not found:
        raise ToolError(UNREACHABLE, code="unreachable")
    keys = ("host", "hostaddr", "port")
    return {key: ",".join(values) for key, values in zip(keys, zip(*found, strict=True), strict=False)}


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
