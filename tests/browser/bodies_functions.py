"""Tools whose results an auditor reads: a text that is too long to be kept, and rows."""

from __future__ import annotations

from typing import Any

from catalog.functions import tool


@tool()
def write_report(lines: int) -> str:
    """Write a report of so many lines."""
    return "".join(f"{number}: {'天气晴好' * 5} <script>alert(1)</script>\n" for number in range(lines))


@tool(output_schema={"type": "object", "properties": {"cities": {"type": "array", "items": {"type": "object"}}}})
def list_cities() -> dict[str, Any]:
    """List cities."""
    return {"cities": [{"city": name, "degrees": degrees} for name, degrees in (("北京", 3), ("上海", 11))]}
