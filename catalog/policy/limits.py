"""Rate limits of tools and of methods. Counting is django-ratelimit's, one atomic increment per limit.

Several limits may apply and the tightest answers. With more than one, all are checked before any is counted, so that
a call which one limit rejects does not use up another; only calls that arrive in the same instant can take from
one and then be rejected by the next, never the other way round: nothing is admitted beyond a rate.

Also returns the remaining calls of a person's limits, for pages, without counting.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django_ratelimit.core import get_usage
from redis.exceptions import RedisError

from audit.types import Credential, Reason
from catalog.policy import snapshot
from catalog.policy.changes import Change
from catalog.policy.definitions import LIMIT_REACHED, LimitRule, Rule, Snapshot, ToolDefinition
from toolhub import deadline
from toolhub.parts import parts


class LimitThreads:
    """The threads in which a process asks Redis whether a limit is reached."""

    def __init__(self) -> None:
        self.executor = ThreadPoolExecutor(4, "limits")


class LimitReached(Exception):
    """An error that names the limit that is reached, and the time to wait."""

    def __init__(self, rule: Rule, seconds: int) -> None:
        super().__init__(f"{rule}: reached; try again in {seconds} s")
        self.rule = rule
        self.seconds = seconds

    @property
    def reason(self) -> Reason:
        return Reason(LIMIT_REACHED, {**self.rule.params, "seconds": self.seconds})


@dataclass(frozen=True, slots=True)
class Remaining:
    rule: Rule
    rate: str
    limit: int
    left: int
    seconds: int
    """Seconds until the period ends and the limit resets."""


class _Request:
    """The request that django-ratelimit needs; with a method of ALL and a key of ours it is never used."""

    method = "POST"


_REQUEST = _Request()


def take(snapshot: Snapshot, definition: ToolDefinition, credential: Credential) -> None:
    """Count this call against every limit that applies, or raise LimitReached. Blocks for Redis, if configured."""
    rules = snapshot.limits_by_tool.get(definition.id)
    if rules:
        _take(_applying(snapshot, rules, credential))


async def atake(snapshot: Snapshot, definition: ToolDefinition, credential: Credential) -> None:
    """Run `take` from an event loop: on a thread when the counters are in Redis, directly when they are in memory.

    Raises LimitReached, and TimeoutError at the deadline of the request.
    """
    if rules := snapshot.limits_by_tool.get(definition.id):
        await _atake(snapshot, rules, credential)


async def atake_method(snapshot: Snapshot, method: str, credential: Credential) -> None:
    """Count this request against every limit that names its method. Raises as `atake` does."""
    if rules := snapshot.limits_by_method.get(method):
        await _atake(snapshot, rules, credential)


async def _atake(snapshot: Snapshot, rules: Sequence[LimitRule], credential: Credential) -> None:
    applying = _applying(snapshot, rules, credential)
    if settings.REDIS_URL and applying:
        counting = asyncio.get_running_loop().run_in_executor(parts.get(LimitThreads).executor, _take, applying)
        await deadline.within(counting, settings.RECORD_SECONDS)
    else:
        _take(applying)


async def atry(
    snapshot: Snapshot,
    definition: ToolDefinition,
    credential: Credential,
    changes: Sequence[Change],
    *,
    is_counted: bool,
) -> list[bool]:
    """Return for each change of limits whether it would refuse this call, and count the call where it would not.

    `is_counted`: the limits in force have let the call through, and counted it. Raises TimeoutError.
    """

    def work() -> list[bool]:
        return [_try(snapshot, definition, credential, change, is_counted) for change in changes]

    if not settings.REDIS_URL:
        return work()
    counting = asyncio.get_running_loop().run_in_executor(parts.get(LimitThreads).executor, work)
    return await deadline.within(counting, settings.RECORD_SECONDS)


def _try(
    snapshot: Snapshot, definition: ToolDefinition, credential: Credential, change: Change, is_counted: bool
) -> bool:
    ids = {rule.id for rule in change.limits}
    applying = _applying(snapshot, change.find_limits(snapshot, definition), credential)
    if not is_counted:
        others = [pair for pair in applying if pair[0].id not in ids]
        if any(usage["count"] >= usage["limit"] for _, usage in _usages(others, increment=False)):
            return True
    mine = [pair for pair in applying if pair[0].id in ids]
    if any(usage["count"] >= usage["limit"] for _, usage in _usages(mine, increment=False)):
        return True
    return any(usage["should_limit"] for _, usage in _usages(mine, increment=True))


def remaining(snapshot: Snapshot, definition: ToolDefinition, credential: Credential) -> list[Remaining]:
    """Return the remaining calls of each limit that applies, without counting; the tightest first."""
    found = [left for _, left in remaining_of(snapshot, snapshot.limits_by_tool.get(definition.id, ()), credential)]
    return sorted(found, key=lambda entry: (entry.left, -entry.seconds))


def applying(snapshot: Snapshot, credential: Credential) -> list[LimitRule]:
    """Return every limit that applies to this user, in the order in which they were made."""
    return [rule for rule, _ in _applying(snapshot, snapshot.limits, credential)]


def remaining_of(
    snapshot: Snapshot, rules: Sequence[LimitRule], credential: Credential
) -> list[tuple[LimitRule, Remaining]]:
    """Return the remaining calls of those rules that apply to this user, without counting; in the order of `rules`."""
    found = []
    for rule, subject in _applying(snapshot, rules, credential):
        usage = _usage(rule, subject, increment=False)
        left = max(0, usage["limit"] - usage["count"])
        found.append((rule, Remaining(rule.rule, rule.rate, usage["limit"], left, max(0, usage["time_left"]))))
    return found


def _applying(snapshot: Snapshot, rules: Sequence[LimitRule], credential: Credential) -> list[tuple[LimitRule, str]]:
    """Return the rules that apply to this user, each with the name of its counter."""
    found = []
    user_id = credential.user_id
    for rule in rules:
        if rule.scope == "everyone_together":
            found.append((rule, "everyone"))
        elif rule.scope == "each_user" or (rule.scope == "user" and rule.subject_id == user_id):
            found.append((rule, f"user {user_id}"))
        elif rule.scope == "each_member":
            member = snapshot.members.get(user_id)
            if member is not None and rule.subject_id in member.group_ids:
                found.append((rule, f"user {user_id}"))
    return found


def _take(applying: list[tuple[LimitRule, str]]) -> None:
    if len(applying) > 1:
        _raise_if_reached(
            [(rule, usage) for rule, usage in _usages(applying, increment=False) if usage["count"] >= usage["limit"]]
        )
    _raise_if_reached([(rule, usage) for rule, usage in _usages(applying, increment=True) if usage["should_limit"]])


def _usages(applying: list[tuple[LimitRule, str]], *, increment: bool) -> list[tuple[LimitRule, dict[str, Any]]]:
    found = []
    for rule, subject in applying:
        usage = _usage(rule, subject, increment=increment)
        found.append((rule, usage))
        if increment and usage["should_limit"]:
            break
    return found


def _raise_if_reached(reached: list[tuple[LimitRule, dict[str, Any]]]) -> None:
    if reached:
        rule, usage = max(reached, key=lambda pair: pair[1]["time_left"])
        raise LimitReached(rule.rule, max(1, usage["time_left"]))


def _usage(rule: LimitRule, subject: str, *, increment: bool) -> dict[str, Any]:
    usage: dict[str, Any] | None = get_usage(
        _REQUEST, group=f"limit {rule.id}", key=lambda group, request: subject, rate=rule.rate, increment=increment
    )
    if usage is None:  # RATELIMIT_ENABLE is off: an operator's decision, which no setting of ours makes
        return {"count": 0, "limit": 1, "should_limit": False, "time_left": 0}
    return usage


log = logging.getLogger(__name__)


def remaining_for(credential: Credential, tool: ToolDefinition) -> list[Remaining]:
    """Return the remaining calls of each limit, tightest first.

    Empty when there is no limit, or while the counters cannot be read.
    """
    try:
        return remaining(snapshot.current(), tool, credential)
    except (RedisError, OSError) as error:
        log.warning("cannot read what is left of a limit: %s", type(error).__name__)
        return []


def list_rules_for(credential: Credential) -> list[LimitRule]:
    """Return every limit that applies to this person, in the order in which they were made."""
    return applying(snapshot.current(), credential)


def remaining_of_rules(credential: Credential, rules: Sequence[LimitRule]) -> list[tuple[LimitRule, Remaining | None]]:
    """Return the remaining calls of each of these limits; None while the counters cannot be read."""
    try:
        return [*remaining_of(snapshot.current(), rules, credential)]
    except (RedisError, OSError) as error:
        log.warning("cannot read what is left of a limit: %s", type(error).__name__)
        return [(rule, None) for rule in rules]
