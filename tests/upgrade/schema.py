"""Everything that a database is made of, and its rows, to compare two databases."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|[(),]|[^'\"(),]+")
UNLIKE = ("django_migrations", "sqlite_sequence", "catalog_cataloguerevision")
"""Tables whose rows say how and when a database was made."""
MADE_ON_POSTGRESQL = {
    "columns": """
        SELECT attrelid::regclass, attname, format_type(atttypid, atttypmod), attnotnull, attidentity, attgenerated,
               attcollation, pg_get_expr(adbin, adrelid)
        FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm') AND attnum > 0
              AND NOT attisdropped""",
    "relations": "SELECT relname, relkind, relpersistence, reloptions FROM pg_class"
    " WHERE relnamespace = 'public'::regnamespace",
    "constraints": """
        SELECT conrelid::regclass, conname, contype, condeferrable, condeferred, convalidated, pg_get_constraintdef(oid)
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace""",
    "indexes": "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    "sequences": "SELECT sequencename, data_type, start_value, min_value, max_value, increment_by, cycle"
    " FROM pg_sequences WHERE schemaname = 'public'",
    "triggers": "SELECT tgrelid::regclass, tgname, tgenabled, pg_get_triggerdef(oid) FROM pg_trigger"
    " WHERE NOT tgisinternal",
    "functions": """
        SELECT oid::regprocedure, pg_get_functiondef(oid), obj_description(oid, 'pg_proc') FROM pg_proc
        WHERE pronamespace = 'public'::regnamespace AND prokind = 'f'""",
    "extensions": "SELECT extname, extversion FROM pg_extension",
}


def read_sqlite(file: Path) -> dict[str, Any]:
    """Return each table, index, trigger and virtual table, and all rows. The order of columns does not count."""
    with sqlite3.connect(file) as database:
        made = {
            f"{kind} {name}": sorted(split_columns(statement)) if kind == "table" else statement
            for kind, name, statement in database.execute("SELECT type, name, sql FROM sqlite_master")
        }
        names = [name.removeprefix("table ") for name in made if name.startswith("table ")]
        for name in names:
            if name not in UNLIKE:
                columns = sorted(f'"{column[1]}"' for column in database.execute(f'PRAGMA table_info("{name}")'))
                rows = database.execute(f'SELECT {", ".join(columns)} FROM "{name}"').fetchall()
                made[f"rows {name}"] = sorted(map(repr, rows))
    database.close()
    return made


def split_columns(statement: str) -> list[str]:
    """Return the columns and constraints of CREATE TABLE: the name is in quotes only where Django copied the table."""
    _, _, body = statement.partition("(")
    parts, depth = [""], 0
    for token in TOKEN.findall(body):
        depth += (token == "(") - (token == ")")
        if token == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += token
    return [part.strip() for part in parts]


def read_postgresql(address: str) -> dict[str, Any]:
    """Return what the catalogs say about every object, and all rows."""
    made: dict[str, Any] = {}
    with psycopg.connect(address) as database:
        for what, statement in MADE_ON_POSTGRESQL.items():
            made[what] = sorted(map(repr, database.execute(statement.encode()).fetchall()))
        tables = database.execute("SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'").fetchall()
        for (name,) in tables:
            if name not in UNLIKE:
                rows = database.execute(sql.SQL("SELECT to_jsonb(t)::text FROM {} t").format(sql.Identifier(name)))
                made[f"rows {name}"] = sorted(map(repr, rows.fetchall()))
    return made
