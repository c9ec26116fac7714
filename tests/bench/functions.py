"""The tool that every server of the benchmark offers."""

from __future__ import annotations

from catalog.functions import tool


@tool(name="bench_add")
async def bench_add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
