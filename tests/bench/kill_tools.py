"""The tool that is called while servers are killed."""

from __future__ import annotations

import asyncio
import os
import random

from catalog.functions import Context, tool


@tool()
async def note_call(ctx: Context) -> str:
    """Writes the call's id into a ledger, goes on for a moment, and says the id."""
    descriptor = os.open(os.environ["KILL_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{ctx.call_id.hex}\n".encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if random.random() < 0.5:
        await asyncio.sleep(random.random() * 0.05)
    return ctx.call_id.hex
