"""One run under its deadline, in the caller's own task: no extra task, timeout context or thread.

Maps the exception that ended a run to the logged outcome and to the answer for the caller.

Also holds the code that prompts and resources share: the second log entry, and the answer to a failed run.
Neither has an `isError`: the message of a ToolError becomes the message of a JSON-RPC error.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from audit import outcomes
from audit.redaction import redactor
from audit.types import Reason
from catalog.calls import call_log
from catalog.calls.call_log import BegunCall, Ending
from catalog.errors import Cancellation, InternalFailure, InvalidArguments, NeedsInput, ProtocolError, ToolError
from catalog.functions.context import Context
from catalog.functions.results import Produced, failure
from toolhub.parts import parts

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Outcome:
    name: str
    produced: Produced | None = None
    """The answer, unless `error` is raised."""
    error: BaseException | None = None
    error_class: str = ""
    detail: str = ""
    reason: Reason | None = None
    """The coded form of `detail`, unless `detail` came from the tool or the client."""

    def ending(self, secrets: list[str]) -> Ending:
        """Return how the run ended for the log, without its result and without secrets."""
        detail, reason = call_log.mask_detail(self.detail, secrets), call_log.mask_reason(self.reason, secrets)
        return Ending(self.name, self.error_class, detail, detail_reason=reason)


def classify_exception(error: BaseException, begun: BegunCall) -> Outcome:
    """Return the outcome of a run that raised `error` by itself: no deadline, and no cancellation from outside."""
    what = begun.intent.name
    match error:
        case NeedsInput():
            error.call_id = begun.id
            keys = ", ".join(error.requests)[:490]
            reason = Reason("run.asked", {"keys": keys})
            return Outcome(outcomes.INPUT_REQUIRED, error=error, detail=f"asked for {keys}", reason=reason)
        case ToolError():
            detail = error.audit_message or str(error)
            return Outcome(outcomes.TOOL_ERROR, failure(str(error)), None, type(error).__name__, detail)
        case ProtocolError():
            return Outcome(outcomes.TOOL_ERROR, None, error, "ProtocolError", f"{error.code}: {error.message}")
        case InvalidArguments():
            error.call_id = begun.id
            return Outcome(outcomes.INVALID_ARGUMENTS, None, error, "InvalidArguments", error.message, error.reason)
        case asyncio.CancelledError():
            log.warning("call %s of %s ended itself by a cancellation", begun.id, what, exc_info=error)
        case InternalFailure():
            return internal_error(begun, "InternalFailure")
        case Exception() | SystemExit():
            log.error("call %s of %s failed", begun.id, what, exc_info=error)
        case _:
            raise error
    sentence = (
        f"The tool failed unexpectedly. Ask your administrator: the server log has the details under call {begun.id}."
    )
    detail, reason = "failed unexpectedly", Reason("run.failed")
    return Outcome(outcomes.TOOL_ERROR, failure(sentence), None, type(error).__name__, detail, reason)


def internal_error(begun: BegunCall, error_class: str) -> Outcome:
    """Return the outcome of a fault of the hub itself, which is in the application log already."""
    detail, reason = "an error of the hub itself", Reason("run.internal")
    return Outcome(outcomes.TOOL_ERROR, None, InternalFailure(begun.id), error_class, detail, reason)


def timeout(begun: BegunCall, seconds: float) -> Outcome:
    sentence = (
        f"The tool did not finish within {seconds:g} s and was stopped (call {begun.id}). "
        "Try again with less work, or ask your administrator for a longer timeout."
    )
    reason = Reason("run.timed_out", {"seconds": f"{seconds:g}"})
    return Outcome(outcomes.TIMEOUT, failure(sentence), None, "", f"stopped after {seconds:g} s", reason)


def cancellation(error: BaseException | None = None) -> Outcome:
    """Return the outcome of a run that was cancelled from outside, with the reason that `task.cancel` was given."""
    given = error.args[0] if isinstance(error, asyncio.CancelledError) and error.args else ""
    reason = given if isinstance(given, str) and given != DEADLINE_REASON else ""
    error = asyncio.CancelledError(reason) if reason else asyncio.CancelledError()
    coded = reason.reason if isinstance(reason, Cancellation) else None
    return Outcome(outcomes.CANCELLED, None, error, "", reason or "cancelled", coded)


DEADLINE_REASON = "the deadline"
CANCEL_RETRY_SECONDS = 1.0
"""Interval, in seconds, at which a function that swallows its cancellation is cancelled again."""


class Deadline:
    """A timer that cancels the current task when the time is up, and is paused while a person is asked."""

    __slots__ = ("_before", "_handle", "_loop", "_paused", "_remaining_seconds", "deadline", "fired", "seconds", "task")

    def __init__(self, seconds: float) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine always runs in a task
        self.seconds, self.task, self._before = seconds, task, task.cancelling()
        self._loop = asyncio.get_running_loop()
        self.fired = 0
        self._paused = 0
        self._remaining_seconds = 0.0
        self.deadline = time.monotonic() + seconds
        self._handle = self._loop.call_later(seconds, self._fire)

    def _fire(self) -> None:
        self.fired += 1
        self._handle = self._loop.call_later(CANCEL_RETRY_SECONDS, self._fire)
        self.task.cancel(DEADLINE_REASON)

    def pause(self) -> None:
        self._paused += 1
        if self._paused == 1 and not self.fired:
            self._remaining_seconds = max(0.0, self.deadline - time.monotonic())
            self._handle.cancel()

    def resume(self) -> None:
        self._paused -= 1
        if self._paused == 0 and not self.fired:
            self.deadline = time.monotonic() + self._remaining_seconds
            self._handle = self._loop.call_later(self._remaining_seconds, self._fire)

    def close(self) -> bool:
        """Stop the clock; return whether the task was also cancelled from elsewhere."""
        self._handle.cancel()
        for _ in range(self.fired):
            self.task.uncancel()
        return self.task.cancelling() > self._before


class RunningCalls:
    """The task of each running call, by the id of the call."""

    def __init__(self) -> None:
        self._tasks: dict[UUID, asyncio.Task[Any]] = {}

    def add(self, call_id: UUID, task: asyncio.Task[Any]) -> None:
        self._tasks[call_id] = task

    def remove(self, call_id: UUID) -> None:
        self._tasks.pop(call_id, None)

    def find(self, call_id: UUID) -> asyncio.Task[Any] | None:
        """Return the task that runs this call; None when it does not run here."""
        return self._tasks.get(call_id)


async def perform(begun: BegunCall, clock: Deadline, context: Context, work: Awaitable[Produced]) -> Outcome:
    """Await `work` and turn every way it can end into an Outcome."""
    running = parts.get(RunningCalls)
    running.add(begun.id, clock.task)
    try:
        produced = await work
    except BaseException as error:  # noqa: BLE001 - the boundary between a tool and the hub; classify_exception logs
        foreign = clock.close()
        if not foreign and not clock.fired:
            return classify_exception(error, begun)
        context.cancelled.set()
        if clock.fired and not foreign:
            return timeout(begun, clock.seconds)
        return cancellation(error)
    finally:
        running.remove(begun.id)
    if clock.close():
        return cancellation()
    if clock.fired:
        return timeout(begun, clock.seconds)
    return Outcome(outcomes.TOOL_ERROR if produced.is_error else outcomes.OK, produced)


MAX_FUNCTION_SECONDS = 30.0
"""Maximum duration, in seconds, of a function behind a prompt or a resource."""
INTERNAL_ERROR = -32603
_redactor = redactor.redactor(None)


async def answer(call: BegunCall, outcome: Outcome, member: str) -> list[dict[str, Any]]:
    """Log how the call ended; return its messages or contents, or raise the error for the caller."""
    ending = outcome.ending([])
    produced = outcome.produced
    if produced is None:
        await call_log.finish(call, ending)
        assert outcome.error is not None  # noqa: S101 - an outcome has one or the other
        raise outcome.error
    await call_log.finish_with_result(call, ending, _redactor, {member: produced.content}, [], produced.size)
    if produced.is_error:
        raise ProtocolError(INTERNAL_ERROR, produced.content[0]["text"], {"callId": str(call.id)})
    return produced.content
