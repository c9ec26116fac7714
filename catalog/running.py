"""One run under its deadline: in the caller's own task, without a task, a timeout context or a thread of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from uuid import UUID

from audit import outcomes
from catalog import endings
from catalog.context import Context
from catalog.endings import Outcome
from catalog.recording import Begun
from catalog.results import Produced

tasks: dict[UUID, asyncio.Task[object]] = {}
"""What runs in this process, by the id of its call: where a cancellation that names a call finds it."""
TIME_IS_UP = "the deadline"
AGAIN_SECONDS = 1.0
"""A function that swallows its cancellation is cancelled again this often."""


class Deadline:
    """Cancels the current task when the time is up. It stands still while a person is asked."""

    __slots__ = ("_before", "_handle", "_left", "_loop", "_paused", "deadline", "fired", "seconds", "task")

    def __init__(self, seconds: float) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine always runs in a task
        self.seconds, self.task, self._before = seconds, task, task.cancelling()
        self._loop = asyncio.get_running_loop()
        self.fired = 0
        self._paused = 0
        self._left = 0.0
        self.deadline = time.monotonic() + seconds
        self._handle = self._loop.call_later(seconds, self._fire)

    def _fire(self) -> None:
        self.fired += 1
        self._handle = self._loop.call_later(AGAIN_SECONDS, self._fire)
        self.task.cancel(TIME_IS_UP)

    def pause(self) -> None:
        self._paused += 1
        if self._paused == 1 and not self.fired:
            self._left = max(0.0, self.deadline - time.monotonic())
            self._handle.cancel()

    def resume(self) -> None:
        self._paused -= 1
        if self._paused == 0 and not self.fired:
            self.deadline = time.monotonic() + self._left
            self._handle = self._loop.call_later(self._left, self._fire)

    def close(self) -> bool:
        """Stop the clock. Whether somebody else cancelled the task meanwhile."""
        self._handle.cancel()
        for _ in range(self.fired):
            self.task.uncancel()
        return self.task.cancelling() > self._before


async def perform(begun: Begun, clock: Deadline, context: Context, work: Awaitable[Produced]) -> Outcome:
    """Await `work`. Every way it can end becomes an Outcome."""
    tasks[begun.id] = clock.task
    try:
        produced = await work
    except BaseException as error:  # noqa: BLE001 - the boundary between a tool and the hub; after_exception logs
        foreign = clock.close()
        if not foreign and not clock.fired:
            return endings.after_exception(error, begun)
        context.cancelled.set()
        if clock.fired and not foreign:
            return endings.timed_out(begun, clock.seconds)
        reason = str(error.args[0]) if isinstance(error, asyncio.CancelledError) and error.args else ""
        return endings.cancelled("" if reason == TIME_IS_UP else reason)
    finally:
        tasks.pop(begun.id, None)
    if clock.close():
        return endings.cancelled("")
    if clock.fired:
        return endings.timed_out(begun, clock.seconds)
    return Outcome(outcomes.TOOL_ERROR if produced.is_error else outcomes.OK, produced)
