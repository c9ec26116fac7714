"""How a run can end, from the exception it ended with: the outcome on record and what the caller hears."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from audit import outcomes
from catalog.errors import InternalFailure, InvalidArguments, NeedsInput, ProtocolError, ToolError
from catalog.recording import Begun
from catalog.results import Produced, failure

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Outcome:
    name: str
    produced: Produced | None = None
    """What to answer, unless `error` is raised."""
    error: BaseException | None = None
    error_class: str = ""
    detail: str = ""


def after_exception(error: BaseException, begun: Begun) -> Outcome:
    """The outcome of a run that raised `error` by itself: neither its deadline nor a cancellation from outside."""
    what = begun.intent.name
    match error:
        case NeedsInput():
            error.call_id = begun.id
            return Outcome(outcomes.INPUT_REQUIRED, error=error, detail=f"asked for {', '.join(error.requests)}"[:500])
        case ToolError():
            detail = error.on_record or str(error)
            return Outcome(outcomes.TOOL_ERROR, failure(str(error)), None, type(error).__name__, detail)
        case ProtocolError():
            return Outcome(outcomes.TOOL_ERROR, None, error, "ProtocolError", f"{error.code}: {error.message}")
        case InvalidArguments():
            error.call_id = begun.id
            return Outcome(outcomes.INVALID_ARGUMENTS, None, error, "InvalidArguments", error.message)
        case asyncio.CancelledError():
            log.warning("call %s of %s ended itself by a cancellation", begun.id, what, exc_info=error)
        case InternalFailure():
            return internal(begun, "InternalFailure")
        case Exception() | SystemExit():
            log.error("call %s of %s failed", begun.id, what, exc_info=error)
        case _:
            raise error
    sentence = f"It failed unexpectedly. What happened is in the hub's log under call {begun.id}."
    return Outcome(outcomes.TOOL_ERROR, failure(sentence), None, type(error).__name__, "failed unexpectedly")


def internal(begun: Begun, error_class: str) -> Outcome:
    """Our own fault, already logged."""
    return Outcome(outcomes.TOOL_ERROR, None, InternalFailure(begun.id), error_class, "an error of the hub itself")


def timed_out(begun: Begun, seconds: float) -> Outcome:
    sentence = (
        f"It did not finish within {seconds:g} s and was stopped (call {begun.id}). "
        "Try again with less to do, or ask an administrator for more time."
    )
    return Outcome(outcomes.TIMEOUT, failure(sentence), None, "", f"stopped after {seconds:g} s")


def cancelled(reason: str) -> Outcome:
    error = asyncio.CancelledError(reason) if reason else asyncio.CancelledError()
    return Outcome(outcomes.CANCELLED, None, error, "", reason or "cancelled")
