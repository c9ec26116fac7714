"""The work that queries make for SQLite: instructions of its virtual machine, which do not depend on the machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

INSTRUCTIONS = 100
"""SQLite counts in steps of so many."""


def count_instructions(ask: Callable[[], Any]) -> int:
    """Return about how many instructions SQLite executes for what `ask` asks the database. Skips on other databases."""
    if connection.vendor != "sqlite":
        pytest.skip("only SQLite says how many instructions a query took")
    connection.ensure_connection()
    steps = 0

    def note_step() -> int:
        nonlocal steps
        steps += 1
        return 0

    opened: Any = connection.connection
    opened.set_progress_handler(note_step, INSTRUCTIONS)
    try:
        ask()
    finally:
        opened.set_progress_handler(None, 0)
    return steps * INSTRUCTIONS
