"""Tools with a large answer and with a slow one, for attackers."""

from __future__ import annotations

import time

from catalog.functions import tool

CHARACTERS = 15_000_000


@tool()
def large() -> str:
    """Answers with more than a slow reader's machine takes: 30 MB, as text and as structured content."""
    return "x" * CHARACTERS


@tool()
def block(seconds: float) -> str:
    """Keeps its thread for so long."""
    time.sleep(seconds)
    return "done"
