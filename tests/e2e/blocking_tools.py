"""A tool that runs for as long as a test wants it to, and what the servers of these tests hold."""

from __future__ import annotations

import asyncio
from pathlib import Path

from catalog.functions import Context, tool
from tests.e2e.seed import create_cast, grant_tool

MODULES = "tests.e2e.blocking_tools"


@tool()
async def hold_until(ctx: Context, file: str, started: str) -> str:
    """Ends when the file is there."""
    Path(started).touch()
    while not Path(file).exists():
        await asyncio.sleep(0.05)
    return ctx.call_id.hex


@tool()
def say_hello() -> str:
    """Says hello."""
    return "hello"


def seed() -> dict[str, str]:
    """The cast, and both tools for alice."""
    tokens = create_cast()
    for name in ("hold_until", "say_hello"):
        grant_tool(name, ["alice"], timeout=300)
    return tokens


def get_outcomes(name: str) -> dict[str, str]:
    """Call id -> outcome of this tool's calls."""
    from audit.models import Call

    return {id.hex: outcome for id, outcome in Call.objects.filter(name=name).values_list("pk", "outcome")}
