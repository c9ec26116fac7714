"""Tools of the end-to-end tests, registered like any other."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from catalog.functions import Context, resource_updated, tool


@tool()
def add(a: float, b: float) -> float:
    """Adds two numbers."""
    return a + b


@tool()
def echo(text: str) -> str:
    """Says the same."""
    return text


@tool()
async def steps(ctx: Context, count: int = 3) -> str:
    """Reports progress and then answers."""
    for step in range(count):
        await ctx.progress(step + 1, count, f"step {step + 1}")
        await asyncio.sleep(0.06)
    return f"{count} steps"


@tool()
async def wait(seconds: float, started: str = "", ended: str = "") -> str:
    """Sleeps; leaves one file when it starts and another when it was cancelled."""
    if started:
        Path(started).touch()
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        if ended:
            Path(ended).touch()
        raise
    return f"slept {seconds}"


@tool()
async def ask_name(ctx: Context) -> str:
    """Asks the person for a name."""
    answer: Any = await ctx.elicit(
        "What is your name?", {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    )
    return f"{answer}"


@tool()
async def come_back(ctx: Context) -> str:
    """Sends the client away and answers later."""
    await ctx.progress(1, 2, "before")
    ctx.close_stream()
    await asyncio.sleep(0.3)
    await ctx.progress(2, 2, "after")
    return "welcome back"


@tool()
def prints() -> str:
    """Prints, as functions do."""

    print("to stdout")  # noqa: T201
    os.write(1, b"straight to the descriptor\n")
    return "printed"


@tool()
async def chatter(ctx: Context) -> str:
    """Logs far more than anybody reads."""
    for _ in range(4000):
        await ctx.log("x" * 20_000, "error")
        await asyncio.sleep(0)
    return "said it all"


@tool()
async def touch(uri: str) -> str:
    """Announce that a resource has changed."""
    resource_updated(uri)
    return "touched"
