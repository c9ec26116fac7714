"""One deadline for everything that a request waits for before it runs.

It begins when the request arrives, so that waits do not add up: the look-up of the token, the catalogue, limits,
the rows of a task and the audit log share one `TOOLHUB_RECORD_TIMEOUT_MS`. The transport notes the arrival on the
asyncio task that answers the request (`task.arrived`, by `time.monotonic()`), and the call pipeline removes it when the
tool runs. A task without an arrival has no such deadline: background jobs, running tools, tries in the admin.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import TypeVar

ANSWER_SHARE = 0.85
"""Part of the time that waits may take; the rest is for the answer itself."""
T = TypeVar("T")


def arrival() -> float | None:
    """Return when the request of the current task arrived, in seconds of `time.monotonic()`; None without one."""
    return getattr(asyncio.current_task(), "arrived", None)


def hand_over(task: asyncio.Task[T]) -> asyncio.Task[T]:
    """Let `task` work under the deadline of the current one; return it."""
    task.arrived = arrival()  # type: ignore[attr-defined]
    return task


def restart() -> None:
    """Let the deadline of the current task, if it has one, begin again: after a wait for a person."""
    task = asyncio.current_task()
    if getattr(task, "arrived", None) is not None:
        task.arrived = time.monotonic()  # type: ignore[union-attr]


def remaining(seconds: float) -> float:
    """Return how long a wait may take where all of them together may take `seconds`."""
    arrived = arrival()
    if arrived is None:
        return seconds
    return max(0.0, arrived + seconds * ANSWER_SHARE - time.monotonic())


async def within(work: Awaitable[T], seconds: float, minimum: float = 0.0) -> T:
    """Await `work` under the deadline of the request, if the current task answers one. Raises TimeoutError.

    `minimum` is the number of seconds that it may take in any case.
    """
    if arrival() is None:
        return await work
    async with asyncio.timeout(max(minimum, remaining(seconds))):
        return await work
