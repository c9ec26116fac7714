"""What people look at in their browsers right now, known to every worker.

News for a page costs something only while that page is open: whoever could tell it asks here first, which is one look
into a dictionary that is usually empty. A worker with open pages says again every few seconds what they look at, so
that one that crashed, or a message that got lost, is forgotten by itself.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from toolhub.server import bus

INTEREST = "live.interest"
SECONDS = 15.0
AGAIN_SECONDS = 5.0
SWEEP_SECONDS = 1.0
MOST = 20_000

keys: dict[str, float] = {}
"""What is looked at, and until when (monotonic): empty when nobody looked at anything lately."""
_held: dict[str, int] = {}
_saying: asyncio.Task[None] | None = None
_sweeping: tuple[asyncio.AbstractEventLoop, asyncio.TimerHandle] | None = None


def wanted(key: str) -> bool:
    end = keys.get(key)
    return end is not None and end > time.monotonic()


def hold(key: str) -> None:
    """A page of this worker looks at this, until `release`. On the event loop."""
    global _saying
    _held[key] = _held.get(key, 0) + 1
    bus.tell(INTEREST, {"keys": [key]})
    loop = asyncio.get_running_loop()
    if _saying is None or _saying.done() or _saying.get_loop() is not loop:
        _saying = loop.create_task(_say_again(), name="live interest")


def release(key: str) -> None:
    """One page less; whoever else looked at it is told nothing, as it ends by itself."""
    left = _held.get(key, 0) - 1
    if left > 0:
        _held[key] = left
    else:
        _held.pop(key, None)


async def stop() -> None:
    global _saying, _sweeping
    saying, _saying = _saying, None
    sweeping, _sweeping = _sweeping, None
    if sweeping is not None:
        sweeping[1].cancel()
    _held.clear()
    keys.clear()
    if saying is not None and saying.get_loop() is asyncio.get_running_loop():
        saying.cancel()
        await asyncio.wait([saying], timeout=5.0)


def calls_of(user_id: int) -> str:
    return f"calls:{user_id}"


def call(call_id: object) -> str:
    return f"call:{call_id}"


def connecting(user_id: int) -> str:
    return f"connect:{user_id}"


def address(text: str) -> str:
    return f"address:{text}"


async def _say_again() -> None:
    while _held:
        await asyncio.sleep(AGAIN_SECONDS)
        if _held:
            bus.tell(INTEREST, {"keys": sorted(_held)})


def _heard(payload: dict[str, Any]) -> None:
    end = time.monotonic() + SECONDS
    for key in map(str, payload.get("keys") or ()):
        if len(keys) < MOST or key in keys:
            keys[key] = end
    loop = asyncio.get_running_loop()
    if keys and (_sweeping is None or _sweeping[0] is not loop):
        _sweep(loop)


def _sweep(loop: asyncio.AbstractEventLoop) -> None:
    """Forget what nobody looks at any more; again a second later while anything is left.

    By a timer: nobody says that the last page was closed, and going through all keys for each of them that is said
    would let one person with many pages hold up everybody.
    """
    global _sweeping
    now = time.monotonic()
    for key in [key for key, end in keys.items() if end <= now]:
        del keys[key]
    _sweeping = (loop, loop.call_later(SWEEP_SECONDS, _sweep, loop)) if keys else None


bus.on(INTEREST, _heard)
