"""What rules in trial would have decided about a call, noted in its log entry beside the rule that did.

A note is [kind of the rule, its id, real answer, tried answer], each answer one of allow, deny, ask and limit; there is
one only where they differ. Each rule in trial is tried by itself. Nothing that goes wrong here changes the call: where
a rule cannot be tried, a warning is logged and nothing is noted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings
from redis.exceptions import RedisError

from audit.recorder import Intent
from catalog import threads
from catalog.approvals import known_values
from catalog.calls import judgement
from catalog.calls.approval_wait import in_storage
from catalog.errors import CallNotLogged
from catalog.functions.results import size_of
from catalog.metering.limits import Attempt
from catalog.metering.reserving import QuotasUnavailable
from catalog.metering.trying import Tried, try_change
from catalog.policy import answers, asking, matching, rules
from catalog.policy.answers import ALLOW, Answer, Sent
from catalog.policy.changes import NO_CHANGE, Change
from catalog.policy.definitions import LIMIT_KIND, GrantRule, Item, Snapshot, ToolDefinition, Trial
from catalog.policy.rules import Requester
from catalog.schemas import patterns, validator
from toolhub.log_throttle import ThrottledWarning
from toolhub.parts import parts

LIMIT: Final = "limit"
log = logging.getLogger(__name__)


class TrialWarnings:
    """The warnings of this process that a rule could not be tried."""

    def __init__(self) -> None:
        self.warning = ThrottledWarning(log)


def find_trials(catalogue: Snapshot, item: Item) -> tuple[Trial, ...]:
    """Return the rules in trial that can change the answer to a call of this item."""
    return catalogue.trials_by_item.get((item.kind, item.id), ()) if catalogue.trials else ()


async def note_answers(what: Intent, catalogue: Snapshot, item: Item, arguments: dict[str, Any]) -> None:
    """Note what grants and approval rules in trial would have answered to valid arguments, as they were sent."""
    trials = find_trials(catalogue, item)
    if not trials:
        return
    credential = what.caller.credential
    who = Requester(credential.user_id, credential.toolset_ids)
    trials = tuple(one for one in trials if _can_matter(one, catalogue, who, item))
    if not trials:
        return
    item = catalogue.items.get((item.kind, item.id), item)  # the person may have a form of their own
    changes = [Change.of(trial) for trial in trials]
    try:
        first_times = _find_first_times(catalogue, item, arguments, changes)
        case = _Case(catalogue, who, item, arguments, changes, first_times)
        known = await _find_known(case)
        real, tried = await _decide(case, known)
        _add(what, trials, real.kind, [answer.kind for answer in tried])
        if real.kind == ALLOW and case.first_times:
            await _remember(case, tried)
    except (patterns.BudgetError, threads.Busy, CallNotLogged, RecursionError) as error:
        _warn(item, error)


def has_limits(catalogue: Snapshot, tool: ToolDefinition) -> bool:
    """Return whether a limit in trial counts calls of this tool."""
    return any(trial.kind == LIMIT_KIND for trial in find_trials(catalogue, tool))


def _can_matter(trial: Trial, catalogue: Snapshot, who: Requester, item: Item) -> bool:
    """Return whether a rule in trial could answer otherwise to this person, as far as that is quickly seen."""
    if not isinstance(trial.rule, GrantRule):
        return trial.kind != LIMIT_KIND
    replaced = catalogue.grants_by_id.get(trial.replaces or 0)
    return any(
        rules.applies_to(catalogue, rule, who, item, settings.ENVIRONMENT)
        for rule in (trial.rule, replaced)
        if rule is not None
    )


async def note_limits(
    what: Intent, attempt: Attempt, *, units: int = 1, is_valid: bool = True, limited: bool = False
) -> Tried:
    """Note what limits in trial would have answered, and count the call; `limited`: one in force refused it.

    Each counts by itself the calls that it and the other limits let through. `units`: what the call costs before it
    runs. A call whose arguments are not valid takes nothing but rates. The caller gives back what the answer has.
    """
    trials = [trial for trial in find_trials(attempt.snapshot, attempt.tool) if trial.kind == LIMIT_KIND]
    found, tried = Tried(), []
    try:
        for trial in trials:
            change = Change.of(trial)
            tried.append(
                await try_change(attempt, change, found, units=units, is_valid=is_valid, is_counted=not limited)
            )
    except (RedisError, OSError, TimeoutError, QuotasUnavailable) as error:
        _warn(attempt.tool, error)
    except BaseException:
        found.leave()
        raise
    real = LIMIT if limited else ALLOW
    _add(what, trials[: len(tried)], real, [LIMIT if is_reached else ALLOW for is_reached in tried])
    return found


def _add(what: Intent, trials: Iterable[Trial], real: str, tried: Iterable[str]) -> None:
    """Add a note of each rule that would have answered otherwise."""
    found = zip(trials, tried, strict=True)
    what.notes += tuple([trial.kind, trial.id, real, to] for trial, to in found if to != real)


@dataclass(frozen=True, slots=True)
class _Case:
    catalogue: Snapshot
    requester: Requester
    item: Item
    arguments: dict[str, Any]
    changes: list[Change]
    first_times: dict[int, Any]
    """The values that rules for the first time ask about: those in force by id, those in trial by -id."""


def _find_first_times(
    catalogue: Snapshot, item: Item, arguments: dict[str, Any], changes: Iterable[Change]
) -> dict[int, Any]:
    if not isinstance(item, ToolDefinition):
        return {}
    complete = matching.complete(item, arguments)
    found = asking.find_first_times(catalogue, item, complete)
    for change in changes:
        tried = asking.find_first_values(change.asks, complete)
        found |= {-rule: value for rule, value in tried.items()}
    return found


async def _find_known(case: _Case) -> tuple[frozenset[int], frozenset[int]]:
    """Return the rules for the first time, in force and in trial, by id, whose value is known of this person."""
    if not case.first_times:
        return frozenset(), frozenset()
    user_id = case.requester.user_id
    known = await in_storage(lambda: known_values.find(user_id, case.item.id, case.first_times))
    return frozenset(one for one in known if one > 0), frozenset(-one for one in known if one < 0)


async def _remember(case: _Case, tried: Iterable[Answer]) -> None:
    """Keep the values about which rules in trial would have asked: they would have been approved."""
    asked = {-rule.id for answer in tried for ask in answer.asks for rule in ask.rules if rule.first_time}
    found = {rule: case.first_times[rule] for rule in asked if rule in case.first_times}
    if found:
        user_id = case.requester.user_id
        await in_storage(lambda: known_values.remember(user_id, case.item.id, found))


async def _decide(case: _Case, known: tuple[frozenset[int], frozenset[int]]) -> tuple[Answer, list[Answer]]:
    """Return the answer of the rules in force and those of each change; large arguments are looked at in a thread.

    Raises BudgetError and Busy where that takes too long.
    """
    if size_of(case.arguments, validator.MAX_INLINE_BYTES) <= validator.MAX_INLINE_BYTES:
        try:
            return _find(case, known, validator.MAX_LOOP_SECONDS)
        except patterns.BudgetError:
            pass
    seconds, user_id = validator.MAX_ARGUMENTS_SECONDS, case.requester.user_id
    return await threads.checks().run(lambda: _find(case, known, seconds), user_id=user_id)


def _find(case: _Case, known: tuple[frozenset[int], frozenset[int]], seconds: float) -> tuple[Answer, list[Answer]]:
    now, check_time = time.time(), judgement.make_time_check(seconds)
    real_known, tried_known = known

    def decide(change: Change) -> Answer:
        of_change = frozenset(rule.id for rule in change.asks)
        return answers.answer(
            case.catalogue,
            case.requester,
            case.item,
            now,
            settings.ENVIRONMENT,
            Sent(case.arguments),
            change=change,
            known=(real_known - of_change) | (tried_known & of_change),
            check_time=check_time,
        )

    with patterns.regex_budget(seconds):
        return decide(NO_CHANGE), [decide(change) for change in case.changes]


def _warn(item: Item, error: Exception) -> None:
    parts.get(TrialWarnings).warning.warn(
        "rules in trial could not be tried on calls of %s: %s", item.name, type(error).__name__
    )
