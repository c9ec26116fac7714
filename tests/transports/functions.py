"""Tools of the transports' tests."""

from __future__ import annotations

import asyncio

from catalog.functions import Context, tool

STARTED: dict[str, asyncio.Event] = {}
"""Set when `t_wait` runs; a test puts one in under the label it calls with."""
GO: dict[str, asyncio.Event] = {}
"""What `t_wait` waits for."""
ENDED: dict[str, str] = {}
"""Why a `t_wait` was cancelled."""


@tool("t_add")
async def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


@tool("t_wait", timeout=120)
async def wait(ctx: Context, label: str) -> str:
    """Report progress, wait for the test, report progress, answer."""
    await ctx.progress(1, 3, "began")
    STARTED[label].set()
    try:
        await GO[label].wait()
    except asyncio.CancelledError as error:
        ENDED[label] = str(error.args[0]) if error.args else "?"
        raise
    await ctx.progress(2, 3, "went on")
    return f"{label} done"


@tool("t_silent", timeout=120)
async def silent(label: str) -> str:
    """Wait for the test without a word, answer."""
    STARTED[label].set()
    try:
        await GO[label].wait()
    except asyncio.CancelledError as error:
        ENDED[label] = str(error.args[0]) if error.args else "?"
        raise
    return f"{label} done"


@tool("t_flood", timeout=120)
async def flood(ctx: Context, messages: int) -> str:
    """Log a lot at once."""
    for number in range(messages):
        await ctx.log("x" * 10_000, "error", str(number))
    return "flooded"


@tool("t_leave", timeout=120)
async def leave(ctx: Context, label: str) -> str:
    """Send the client away, wait for the test, answer."""
    await ctx.progress(1, 2, "before")
    ctx.close_stream()
    STARTED[label].set()
    await GO[label].wait()
    await ctx.progress(2, 2, "after")
    return "welcome back"


@tool("t_ask", timeout=120)
async def ask(ctx: Context) -> str:
    """Ask for a name."""
    answer = await ctx.elicit("Name?", {"type": "object", "properties": {"name": {"type": "string"}}})
    return str(answer.content)
