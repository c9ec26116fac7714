"""The judgement of what one person sends by their own form of an item, without blocking the event loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from catalog import threads
from catalog.conditions.forms import Accepted, BaseCheck, Form, Refused
from catalog.schemas import errors, patterns, validator
from catalog.schemas.errors import SchemaProblem


def make_time_check(seconds: float) -> Callable[[], None]:
    """Return a function that raises BudgetError after so many seconds of this thread's processor time from now on."""
    began = time.thread_time()

    def check_time() -> None:
        if time.thread_time() - began > seconds:
            raise patterns.BudgetError

    return check_time


def judge(form: Form, sent: dict[str, Any], find_base_problem: BaseCheck, seconds: float) -> Accepted | Refused:
    """Return the arguments to use, with fixed values filled in, or the problem of what was sent.

    `seconds` of processor time bound the work for conditions, and again for their patterns: beyond them the arguments
    are refused as too complicated.
    """
    check_time = make_time_check(seconds)

    def find_with_own_budget(filled: dict[str, Any]) -> SchemaProblem | None:
        with patterns.regex_budget(seconds):  # a check sets its own, and lifts it afterwards
            return find_base_problem(filled)

    try:
        with patterns.regex_budget(seconds):
            return form.judge(sent, find_with_own_budget, check_time)
    except patterns.BudgetError:
        return Refused(validator.TOO_MUCH)


def judge_small(form: Form, sent: dict[str, Any]) -> Accepted | Refused:
    """Return the judgement of a few short texts that their item itself accepts."""
    return judge(form, sent, lambda filled: None, validator.MAX_LOOP_SECONDS)


async def judge_large(
    form: Form, sent: dict[str, Any], size: int, check: validator.Check, user_id: int | None = None
) -> Accepted | Refused:
    """Return the judgement of arguments of about `size` bytes: of large ones in one of the threads of the user."""
    if size <= validator.MAX_INLINE_BYTES:
        found = _judge(form, sent, check, validator.MAX_LOOP_SECONDS)
        if not isinstance(found, Refused) or found.problem is not validator.TOO_MUCH:
            return found
    try:
        work = threads.checks().run(lambda: _judge(form, sent, check, validator.MAX_ARGUMENTS_SECONDS), user_id=user_id)
        return await work
    except threads.Busy:
        return Refused(SchemaProblem((), errors.BUSY))


def _judge(form: Form, sent: dict[str, Any], check: validator.Check, seconds: float) -> Accepted | Refused:
    def find_base_problem(filled: dict[str, Any]) -> SchemaProblem | None:
        problem = check(filled, seconds)
        if problem is None or problem.code in errors.WHOLE_CODES:
            return problem
        return check.find_others(filled, problem, seconds)

    return judge(form, sent, find_base_problem, seconds)
