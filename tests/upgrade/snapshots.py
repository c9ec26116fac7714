"""Whole databases as JSON, the same for both engines: written when a version is released, restored by the tests."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

FILE = Path(__file__).parent / "0001.json"
"""A database as the first release leaves it."""
KEYS = {
    "TOOLHUB_SECRET_KEY": "upgrade-tests-only-" + "s" * 40,
    "TOOLHUB_RECORD_KEY": "upgrade-tests-only-" + "r" * 40,
    "TOOLHUB_ENCRYPTION_KEYS": "dXBncmFkZS10ZXN0cy1vbmx5LWtleS0wMDAwMDAwMDA=",
}
"""What the snapshot was signed and encrypted with."""
LEFT_OUT = ("django_migrations", "django_session", "sqlite_sequence")
FIRST_LAST = "catalog_cataloguerevision"
"""Triggers raise this row while others are written, so that it is written last."""


def read() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def read_tables(file: Path) -> dict[str, Any]:
    """Return every table of an SQLite database with its rows, and the migrations that made them."""
    with sqlite3.connect(file) as database:
        names = [
            name
            for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
            if name not in LEFT_OUT
        ]
        tables = {}
        for name in names:
            cursor = database.execute(f'SELECT * FROM "{name}" ORDER BY 1')
            columns = [column[0] for column in cursor.description]
            if rows := cursor.fetchall():
                tables[name] = {"columns": columns, "rows": rows}
        applied = database.execute("SELECT app, max(name) FROM django_migrations GROUP BY app ORDER BY app").fetchall()
    database.close()
    return {"migrations": dict(applied), "tables": tables}


def restore_sqlite(file: Path, tables: dict[str, Any]) -> None:
    with sqlite3.connect(file) as database:
        database.execute("PRAGMA foreign_keys = OFF")
        for name in _order(_sqlite_tables(database)):
            database.execute(f'DELETE FROM "{name}"')
        for name in _order(tables):
            columns, rows = tables[name]["columns"], tables[name]["rows"]
            database.execute(f'DELETE FROM "{name}"')
            places = ", ".join("?" * len(columns))
            names = ", ".join(f'"{column}"' for column in columns)
            database.executemany(f'INSERT INTO "{name}" ({names}) VALUES ({places})', rows)
    database.close()


def restore_postgresql(address: str, tables: dict[str, Any]) -> None:
    """The values are those of SQLite: numbers for truth, times without a zone, which are UTC."""
    with psycopg.connect(address) as database:
        cursor = database.cursor()
        cursor.execute("SET session_replication_role = replica")  # neither triggers nor foreign keys
        cursor.execute("SET TIME ZONE 'UTC'")
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        for (name,) in cursor.fetchall():
            if name not in LEFT_OUT:
                cursor.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(name)))
        for name, table in tables.items():
            cursor.execute(
                "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = %s", (name,)
            )
            types: dict[str, str] = dict(cursor.fetchall())
            values = [
                sql.SQL("%s::text::integer::boolean" if types[column] == "boolean" else "%s::text::{}").format(
                    sql.SQL(types[column])
                )
                for column in table["columns"]
            ]
            insert = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
                sql.Identifier(name),
                sql.SQL(", ").join(map(sql.Identifier, table["columns"])),
                sql.SQL(", ").join(values),
            )
            cursor.executemany(insert, table["rows"])
            cursor.execute("SELECT pg_get_serial_sequence(%s, 'id')", (name,)) if "id" in types else None
            if "id" in types and (found := cursor.fetchone()) and found[0]:
                cursor.execute(
                    sql.SQL("SELECT setval(%s, (SELECT max(id) FROM {}))").format(sql.Identifier(name)), (found[0],)
                )


def _sqlite_tables(database: sqlite3.Connection) -> list[str]:
    found = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    return [name for (name,) in found if name not in LEFT_OUT]


def _order(names: Any) -> list[str]:
    return sorted(names, key=lambda name: (name == FIRST_LAST, name))
