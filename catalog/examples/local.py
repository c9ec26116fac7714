"""Example tools of the hub's own machine: four harmless programs, and questions to a sample database.

`execute_command` is granted to nobody, and switched off where TOOLHUB_COMMANDS does not list its programs.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from django.conf import settings

from catalog.processes import allowed

DATABASE = "samples"
COMMANDS: dict[str, dict[str, Any]] = {
    "date": {"program": "date", "arguments": ["-u", "+%Y-%m-%dT%H:%M:%SZ"]},
    "uname": {"program": "uname", "arguments": ["-srm"]},
    "wc": {"program": "wc", "arguments": ["-lwc"], "stdin_file": "path"},
    "ls": {"program": "ls", "arguments": ["-lA"], "folder_argument": "path"},
}
EXECUTE_COMMAND: dict[str, Any] = {
    "name": "execute_command",
    "title": "Execute a command",
    "description": "Execute one of four programs on the hub's machine: date (the time in UTC), uname (the system), wc "
    "(lines, words and bytes of a file of the workspace) or ls (what a folder of the workspace holds). Use it when a "
    "person asks for one of these; use read_file for the content of a file. Changes nothing.",
    "input_schema": {
        "type": "object",
        "properties": {
            "command": {"type": "string", "enum": list(COMMANDS), "description": "The program to run."},
            "path": {
                "type": "string",
                "maxLength": 500,
                "description": "For wc a file and for ls a folder of the workspace, as in reports/2026.csv.",
            },
        },
        "required": ["command"],
        "additionalProperties": False,
    },
    "read_only": True,
    "idempotent": True,
    "open_world": False,
    "timeout": 10,
    "runner": "command",
    "settings": {"choose": "command", "commands": COMMANDS, "cpu_seconds": 5, "max_processes": 4},
}
RUN_SQL_QUERY: dict[str, Any] = {
    "name": "run_sql_query",
    "title": "Run a query on sample sales",
    "description": "Query the sample database of sales: units and revenue by product, for one region or all of them. "
    "Use it for questions about these samples; the statement is fixed, and only the region is yours to choose. Changes "
    "nothing.",
    "input_schema": {
        "type": "object",
        "properties": {
            "region": {
                "type": "string",
                "enum": ["north", "south", "east"],
                "description": "Only this region; without it, all regions.",
            }
        },
        "additionalProperties": False,
    },
    "read_only": True,
    "idempotent": True,
    "open_world": False,
    "timeout": 10,
    "runner": "sql_query",
    "settings": {
        "database": DATABASE,
        "statement": "SELECT product, SUM(units) AS units, SUM(revenue) AS revenue FROM sales "
        "WHERE :region IS NULL OR region = :region GROUP BY product ORDER BY revenue DESC",
        "max_rows": 50,
    },
}
SALES = (
    ("2026-01-05", "north", "lamp", 12, 240.0),
    ("2026-01-09", "south", "lamp", 7, 140.0),
    ("2026-02-02", "north", "chair", 3, 270.0),
    ("2026-02-17", "east", "desk", 1, 410.5),
    ("2026-03-11", "south", "chair", 9, 810.0),
    ("2026-03-12", "east", "lamp", 20, 400.0),
)


def rows() -> list[dict[str, Any]]:
    """The tools as they can be here; whoever lists the programs later switches the tool on."""
    commands = all(allowed.problem(command["program"]) is None for command in COMMANDS.values())
    return [
        {**EXECUTE_COMMAND, "enabled": commands},
        {**RUN_SQL_QUERY, "enabled": DATABASE in settings.SQL_DATABASES},
    ]


def make_samples() -> None:
    """The sample database in the data folder, if the settings name it and it is not there."""
    file: Path = settings.SAMPLES_FILE
    if settings.SQL_DATABASES.get(DATABASE) != f"sqlite:///{file}" or file.exists():
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE sales (day TEXT, region TEXT, product TEXT, units INTEGER, revenue REAL)")
        connection.executemany("INSERT INTO sales VALUES (?, ?, ?, ?, ?)", SALES)
