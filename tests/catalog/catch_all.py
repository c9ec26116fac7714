"""A function that takes anything."""

from __future__ import annotations

from typing import Any

from catalog.functions import tool


@tool("swallow")
async def swallow(**anything: Any) -> str:
    """Take anything."""
    return "swallowed"
