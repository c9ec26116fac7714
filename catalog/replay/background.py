"""A replay for a page: in a thread of its own, with a few at a time, and ended when nobody reads it any more."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Final, TypeVar

from catalog import threads

WAIT_SECONDS: Final = 3.0
"""Longest wait for a replay of the same person that was cancelled just now."""
T = TypeVar("T")


async def run(
    steps: Callable[[Callable[[], bool]], Iterator[T]], user_id: int | None, context: contextvars.Context
) -> AsyncGenerator[T, None]:
    """Yield what the iterator of `steps` yields in a thread, in `context`; whoever stops reading cancels it.

    `steps` gets a function that says whether it is cancelled. Raises Busy or ShareBusy where too many replays run, of
    everybody or of this person, and what the iterator raises.
    """
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[T | None] = asyncio.Queue()
    cancelled = threading.Event()

    def work() -> None:
        for step in steps(cancelled.is_set):
            loop.call_soon_threadsafe(queue.put_nowait, step)

    def finish(done: asyncio.Future[None]) -> None:
        if not done.cancelled():
            done.exception()  # asked for, so that nothing is logged where nobody waits for it any more
        queue.put_nowait(None)

    running = asyncio.ensure_future(threads.replays().run(lambda: context.run(work), WAIT_SECONDS, user_id))
    running.add_done_callback(finish)
    try:
        while (step := await queue.get()) is not None:
            yield step
        await running
    finally:
        cancelled.set()
        running.cancel()
