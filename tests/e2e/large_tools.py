"""A tool with a large answer, for readers that are slow."""

from __future__ import annotations

from catalog.functions import tool

CHARACTERS = 15_000_000


@tool()
def large() -> str:
    """Answers with more than a slow reader's machine takes: 30 MB, as text and as structured content."""
    return "x" * CHARACTERS
