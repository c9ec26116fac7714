"""One run under its deadline, in the caller's own task: no extra task, timeout context or thread.

Maps the exception that ended a run to the logged outcome and to the answer for the caller.

Also holds the code that prompts and resources share: the second log entry, and the answer to a failed run.
Neither has an `isError`: the message of a ToolError becomes the message of a JSON-RPC error.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn
from uuid import UUID

from audit import outcomes, recorder
from audit.redaction import redactor
from audit.types import Reason
from catalog.calls import call_log
from catalog.calls.call_log import BegunCall, Ending
from catalog.errors import (
    Cancellation,
    ClientLacks,
    InternalFailure,
    InvalidArguments,
    MissingCapability,
    NeedsInput,
    ProtocolError,
    ToolError,
)
from catalog.functions.context import Context
from catalog.functions.results import Produced, exact_text, failure, to_plain_json
from catalog.runners import hints
from toolhub import contact
from toolhub.parts import parts
from toolhub.wire.versions import MODERN

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
    rejected: bool = False
    """Whether a service refused the credentials, so that nothing ran."""

    def ending(self, secrets: list[str]) -> Ending:
        """Return how the run ended for the log, without its result and without secrets."""
        detail, reason = call_log.mask_detail(self.detail, secrets), call_log.mask_reason(self.reason, secrets)
        return Ending(self.name, self.error_class, detail, detail_reason=reason)


def classify_exception(error: BaseException, begun: BegunCall, context: Context | None = None) -> Outcome:
    """Return the outcome of a run that raised `error` by itself: no deadline, and no cancellation from outside.

    Whatever a tool raises has an outcome, also an error whose own texts or attributes raise when they are read.
    """
    try:
        return _classify(error, begun, context)
    except BaseException as second:  # noqa: BLE001 - the error belongs to the tool, and so does what reading it raises
        log_failure(second, "call %s of %s failed with an error that cannot be read", begun.id, begun.intent.name)
        return _unexpected(begun, "")


def _classify(error: BaseException, begun: BegunCall, context: Context | None) -> Outcome:
    what = begun.intent.name
    needs = _find_questions(error, context) if context is not None else None
    if needs is not None:
        needs.call_id = begun.id
        needs.requests = {key: (method, to_plain_json(it)[0]) for key, (method, it) in needs.requests.items()}
        keys = ", ".join(needs.requests)[:490]
        reason = Reason("run.asked", {"keys": keys})
        return Outcome(outcomes.INPUT_REQUIRED, error=needs, detail=f"asked for {keys}", reason=reason)
    match error:
        case ClientLacks() if begun.intent.caller.revision in MODERN and error.required:
            # From 2026-07-28 on the client learns what to declare, and may call again (basic, per-request fields).
            missing = MissingCapability(error.required, begun.id)
            return Outcome(outcomes.TOOL_ERROR, None, missing, "ClientLacks", exact_text(error))
        case ToolError():
            return tool_error(error, error.audit_message)
        case ProtocolError():
            # A copy of plain data: what the function put there must be possible to send.
            data = None if error.data is None else to_plain_json(error.data)[0]
            plain = ProtocolError(int(error.code), exact_text(error.message), data)
            detail = f"{plain.code}: {plain.message}"
            return Outcome(outcomes.TOOL_ERROR, None, plain, "ProtocolError", detail)
        case InvalidArguments():
            message = exact_text(error.message)
            invalid = InvalidArguments(message, begun.id, error.reason)
            return Outcome(outcomes.INVALID_ARGUMENTS, None, invalid, "InvalidArguments", message, error.reason)
        case asyncio.CancelledError():
            log_failure(error, "call %s of %s ended itself by a cancellation", begun.id, what)
        case InternalFailure():
            return internal_error(begun, "InternalFailure")
        case _:
            log_failure(error, "call %s of %s failed", begun.id, what)
    return _unexpected(begun, type(error).__name__)


def tool_error(error: Exception, audit_message: str = "") -> Outcome:
    """Return the outcome of an error whose text is a sentence for the caller; the log may keep another one."""
    sentence = exact_text(error)
    detail = exact_text(audit_message) if audit_message else sentence
    code = exact_text(getattr(error, "code", ""))
    # The code has no sentence of its own: pages show the detail, and tool health counts causes.
    reason = Reason("tool.error", {"code": code}) if hints.CODE.fullmatch(code) else None
    rejected = getattr(error, "rejected", False) is True
    return Outcome(outcomes.TOOL_ERROR, failure(sentence), None, type(error).__name__, detail, reason, rejected)


def _unexpected(begun: BegunCall, error_class: str) -> Outcome:
    """Return the outcome of a run that failed in a way that its tool did not foresee."""
    sentence = (
        f"The tool failed unexpectedly. Ask {contact.english()}: the server log has the details under call {begun.id}."
    )
    detail, reason = "failed unexpectedly", Reason("run.failed")
    return Outcome(outcomes.TOOL_ERROR, failure(sentence), None, exact_text(error_class)[:100], detail, reason)


def _find_questions(error: BaseException, context: Context) -> NeedsInput | None:
    """Return the questions that ended the run, also those of several tasks; None if anything else did.

    Only what was asked through the context counts: a function may also raise a NeedsInput of its own.
    """
    if not isinstance(error, NeedsInput | BaseExceptionGroup):
        return None
    found: list[NeedsInput] = []
    waiting: list[BaseException] = [error]
    while waiting:
        one = waiting.pop()
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions
        elif isinstance(one, NeedsInput) and any(one is asked for asked in context.unanswered):
            found.append(one)
        else:
            return None
    if len(found) == 1:
        return found[0]
    requests = {key: question for one in found for key, question in one.requests.items()}
    return NeedsInput(requests, {key: answer for one in found for key, answer in one.answers_so_far.items()})


def log_failure(error: BaseException, sentence: str, *values: object) -> None:
    """Log the error with its traceback; without it when the error cannot be formatted."""
    try:
        log.error(sentence, *values, exc_info=error)
    except BaseException:  # noqa: BLE001 - formatting the traceback runs code of the error
        log.error("%s; the traceback cannot be written", sentence % values)


def internal_error(begun: BegunCall, error_class: str) -> Outcome:
    """Return the outcome of a fault of the hub itself, which is in the application log already."""
    reason = Reason("run.internal")
    failed = InternalFailure(begun.id)
    return Outcome(outcomes.TOOL_ERROR, None, failed, error_class, call_log.INTERNAL_DETAIL, reason)


def raise_error(outcome: Outcome) -> NoReturn:
    """Raise the error of an outcome, which forgets it.

    The traceback of the error has the frames of the call: with a way back from them, everything that belongs to the
    call would wait for the garbage collector.
    """
    error, outcome.error = outcome.error, None
    assert error is not None  # noqa: S101 - an outcome has one or the other
    try:
        raise error
    finally:
        del error


def timeout(begun: BegunCall, seconds: float) -> Outcome:
    sentence = (
        f"The tool did not finish within {seconds:g} s and was stopped (call {begun.id}). "
        f"Try again with less work, or ask {contact.english()} for a longer timeout."
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
MAX_CHAIN = 50
"""Maximum number of errors that are searched for the cancellation that caused them."""
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

    async def find_cancellation(self, error: BaseException | None) -> asyncio.CancelledError | None:
        """Return the cancellation by the hub that ended this closed clock's run; None if the function caused it.

        A function can cancel its own task, as asyncio's task groups do, and forget to undo it. It can also answer the
        hub's cancellation with another error, or hide it. A cancellation that still waits is raised here.
        """
        with contextlib.suppress(asyncio.CancelledError):
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError as waiting:
                error = waiting if error is None else error
                raise
        if (reason := Cancellation.given_to(self.task)) is not None:
            return asyncio.CancelledError(reason)
        with contextlib.suppress(BaseException):  # reading the chain of an error runs code of the error
            for _ in range(MAX_CHAIN):
                if error is None:
                    break
                if isinstance(error, asyncio.CancelledError) and error.args and error.args[0] != DEADLINE_REASON:
                    return error
                error = error.__cause__ or error.__context__
        while self.task.cancelling() > self._before:
            self.task.uncancel()
        return None


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
    clock.task.arrived = None  # type: ignore[attr-defined]  # the deadline of `toolhub.deadline` is met
    try:
        produced = await work
    except BaseException as error:
        if _is_closed(error):
            with contextlib.suppress(RuntimeError):  # without an event loop nothing can be logged
                recorder.finish(begun, _unexpected(begun, "GeneratorExit").ending([]))
            raise
        return await _judge(error, begun, clock, context)
    finally:
        running.remove(begun.id)
    if clock.close() and (cancelled := await clock.find_cancellation(None)) is not None:
        return cancellation(cancelled)
    if clock.fired:
        return timeout(begun, clock.seconds)
    return Outcome(outcomes.TOOL_ERROR if produced.is_error else outcomes.OK, produced)


async def was_cancelled(error: BaseException, clock: Deadline) -> bool:
    """Stop the clock; return whether the hub ended a function that raised `error`, rather than the function itself."""
    if _is_closed(error):
        return True
    return clock.close() and await clock.find_cancellation(error) is not None


async def _judge(error: BaseException, begun: BegunCall, clock: Deadline, context: Context) -> Outcome:
    """Return the outcome of a run that ended with `error`: its own failure, the deadline, or a cancellation."""
    cancelled = await clock.find_cancellation(error) if clock.close() else None
    if cancelled is None and not clock.fired:
        return classify_exception(error, begun, context)
    context.cancelled.set()
    return timeout(begun, clock.seconds) if cancelled is None else cancellation(cancelled)


def _is_closed(error: BaseException) -> bool:
    """Return whether the coroutine that caught `error` is being closed: it must not await any more.

    That happens when its event loop is gone, and when a task that the function awaits raised GeneratorExit, which
    closes every coroutine of the request. One that the function raised itself comes from a deeper frame.
    """
    return isinstance(error, GeneratorExit) and (error.__traceback__ is None or error.__traceback__.tb_next is None)


MAX_FUNCTION_SECONDS = 30.0
"""Maximum duration, in seconds, of a function behind a prompt or a resource."""
INTERNAL_ERROR = -32603
_redactor = redactor.redactor(None)


async def answer(call: BegunCall, outcome: Outcome, member: str, hidden: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Log how the call ended; return its messages or contents, or raise the error for the caller."""
    ending = outcome.ending(list(hidden))
    produced = outcome.produced
    if produced is None:
        await call_log.finish(call, ending)
        raise_error(outcome)
    await call_log.finish_with_result(call, ending, _redactor, {member: produced.content}, list(hidden), produced.size)
    if produced.is_error:
        raise ProtocolError(INTERNAL_ERROR, produced.content[0]["text"], {"callId": str(call.id)})
    return produced.content
