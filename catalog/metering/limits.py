"""Limits that count when a call or a request arrives: rates, the same call again, and the same error again.

Counting is django-ratelimit's, one atomic increment per limit. Several limits may apply and the tightest answers. With
more than one, all are checked before any is counted, so that a call which one limit rejects does not use up another;
only calls that arrive in the same instant can take from one and then be rejected by the next, never the other way
round: nothing is admitted beyond a rate. What counts before a call runs is in `catalog.metering.reserving`.

Also returns what is left of a person's limits, for pages, without counting.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone
from django_ratelimit.core import get_usage
from redis.exceptions import RedisError

from audit.types import Credential, Reason
from catalog import errors
from catalog.conditions import measures
from catalog.functions.results import size_of
from catalog.metering import loops, quotas, refusals
from catalog.metering.limit_cache import LimitThreads
from catalog.metering.quotas import Charge
from catalog.metering.running import Pair, Slots
from catalog.policy import snapshot
from catalog.policy.definitions import LIMIT_REACHED, LimitRule, Rule, Snapshot, ToolDefinition
from toolhub import deadline
from toolhub.parts import parts

T = TypeVar("T")
MAX_INLINE_BYTES: Final = 65_536
"""Size of arguments above which they are compared off the event loop."""
log = logging.getLogger(__name__)


class LimitReached(Exception):
    """An error that names the limit that is reached, and the time to wait."""

    def __init__(self, limit: LimitRule, seconds: int, sentence: str) -> None:
        super().__init__(f"{limit.rule}: reached; try again in {seconds} s")
        self.rule = limit.rule
        self.seconds = max(1, seconds)
        self.sentence = sentence
        """What to do and when, for the model."""

    @property
    def reason(self) -> Reason:
        return Reason(LIMIT_REACHED, {**self.rule.params, "seconds": self.seconds})

    @property
    def detail(self) -> str:
        """Return what the log says, in English."""
        return f"{self.rule.english}: wait {self.seconds} s"

    def for_client(self, call_id: UUID | None) -> errors.LimitReached:
        """Return the error for the client; `call_id` is that of its entry in the log, if it has one."""
        return errors.LimitReached(self.rule.english, self.seconds, call_id, self.reason, self.sentence)


@dataclass(frozen=True, slots=True)
class Remaining:
    """What is left of a limit, for one person: calls, cost units, or calls that may start now."""

    rule: Rule
    rate: str
    limit: int
    left: int
    seconds: int
    """Seconds until the period ends and the limit resets; 0 for calls at a time."""
    measure: str = measures.CALLS
    """calls | cost | running"""
    zone: str = ""
    """The time zone of a quota; empty: UTC."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A call of a tool, as its limits see it."""

    snapshot: Snapshot
    tool: ToolDefinition
    credential: Credential
    arguments: Any = None
    """As the client sent them, which need not fit the tool."""
    is_continued: bool = False
    """Whether the call brings answers that the same call has asked for: it is no repetition."""

    def find_pairs(self, rules: Iterable[LimitRule]) -> list[Pair]:
        """Return those of the rules that apply to this call, each with the name of its counter."""
        return find_pairs(self.snapshot, rules, self.credential)


class _Request:
    """The request that django-ratelimit needs; with a method of ALL and a key of ours it is never used."""

    method = "POST"


_REQUEST = _Request()


def find_pairs(snapshot: Snapshot, rules: Iterable[LimitRule], credential: Credential) -> list[Pair]:
    """Return the rules that apply to this user, each with the name of its counter."""
    found = []
    user_id = credential.user_id
    for rule in rules:
        if rule.scope == "everyone_together":
            found.append((rule, "everyone"))
        elif rule.scope == "each_user" or (rule.scope == "user" and rule.subject_id == user_id):
            found.append((rule, f"user {user_id}"))
        elif rule.scope in ("each_member", "group_together"):
            member = snapshot.members.get(user_id)
            if member is not None and rule.subject_id in member.group_ids:
                together = rule.scope == "group_together"
                found.append((rule, f"group {rule.subject_id}" if together else f"user {user_id}"))
    return found


# --- taking --------------------------------------------------------------------------------------------------------


def take(attempt: Attempt) -> list[Remaining]:
    """Count a call that arrives against every limit of its tool that applies, or raise LimitReached.

    Returns what is left of rates. Blocks for Redis, if configured.
    """
    rules = attempt.snapshot.limits_by_tool.get(attempt.tool.id, ())
    return take_counters(find_counters(attempt, [rule for rule in rules if not rule.is_reserved]))


async def atake(attempt: Attempt) -> list[Remaining]:
    """Run `take` from an event loop: on a thread when the counters are in Redis, directly when they are in memory.

    Raises LimitReached, and TimeoutError at the deadline of the request.
    """
    rules = attempt.snapshot.limits_by_tool.get(attempt.tool.id, ())
    if all(rule.is_reserved for rule in rules):
        return []
    is_large = any(rule.measure == measures.REPEATS for rule in rules) and is_large_value(attempt.arguments)
    return await run(partial(take, attempt), in_thread=is_large)


async def atake_method(snapshot: Snapshot, method: str, credential: Credential) -> None:
    """Count this request against every limit that names its method. Raises as `atake` does."""
    pairs = find_pairs(snapshot, snapshot.limits_by_method.get(method, ()), credential)
    if pairs:
        await run(partial(take_counters, [Counter(rule, subject) for rule, subject in pairs]))


async def run(work: Callable[[], T], *, in_thread: bool = False) -> T:
    """Run work that counts: in a thread when the counters are in Redis. Raises TimeoutError at the deadline."""
    if not (settings.REDIS_URL or in_thread):
        return work()
    counting = asyncio.get_running_loop().run_in_executor(parts.get(LimitThreads).executor, work)
    return await deadline.within(counting, settings.RECORD_SECONDS)


def is_large_value(value: Any) -> bool:
    return size_of(value, MAX_INLINE_BYTES) > MAX_INLINE_BYTES


@dataclass(frozen=True, slots=True)
class Counter:
    """The counter of one limit that a call counts in when it arrives."""

    rule: LimitRule
    key: str
    loop: loops.Loop | None = None
    """The errors that one after the other were the same, when there were enough of them."""

    def read(self) -> dict[str, Any]:
        return _usage(self.rule, self.key, increment=False)

    def count(self) -> dict[str, Any]:
        return _usage(self.rule, self.key, increment=True)

    def refuse(self, seconds: int) -> LimitReached:
        return LimitReached(self.rule, seconds, refusals.describe(self.rule, max(1, seconds)))


def find_counters(attempt: Attempt, rules: Iterable[LimitRule]) -> list[Counter]:
    """Return the counters of those rules that apply to this call when it arrives."""
    found = []
    digest = ""
    for rule, subject in attempt.find_pairs(rules):
        match rule.measure:
            case measures.ERRORS:
                loop = loops.find_loop(rule, attempt.credential.id, attempt.tool.id)
                if loop is not None:
                    found.append(Counter(rule, subject, loop))
            case measures.REPEATS if attempt.is_continued:
                continue
            case measures.REPEATS:
                digest = digest or _digest(attempt.arguments)
                found.append(Counter(rule, f"{attempt.credential.id} {attempt.tool.id} {digest}"))
            case _:
                found.append(Counter(rule, subject))
    return found


def _digest(arguments: Any) -> str:
    try:
        return loops.digest_arguments(arguments)
    except RecursionError:
        return "nested too deeply"  # no tool accepts them


def take_counters(counters: Sequence[Counter]) -> list[Remaining]:
    """Count in all of them, or raise LimitReached and count in none. Returns what is left of rates."""
    for counter in counters:
        if counter.loop is not None:
            loop = counter.loop
            raise LimitReached(counter.rule, loop.seconds, refusals.describe_errors(counter.rule, loop))
    if len(counters) > 1:
        _raise_if_reached([(one, usage) for one in counters if is_full(usage := one.read())])
    found = []
    for counter in counters:
        usage = counter.count()
        if usage["should_limit"]:
            _raise_if_reached([(counter, usage)])
        if counter.rule.measure == measures.CALLS:
            found.append(_remaining(counter.rule, usage))
    return found


def is_full(usage: Mapping[str, Any]) -> bool:
    return bool(usage["count"] >= usage["limit"])


def _raise_if_reached(reached: list[tuple[Counter, dict[str, Any]]]) -> None:
    if reached:
        counter, usage = max(reached, key=lambda pair: pair[1]["time_left"])
        raise counter.refuse(usage["time_left"])


def _usage(rule: LimitRule, key: str, *, increment: bool) -> dict[str, Any]:
    usage: dict[str, Any] | None = get_usage(
        _REQUEST, group=f"limit {rule.id}", key=lambda group, request: key, rate=rule.rate, increment=increment
    )
    if usage is None:  # RATELIMIT_ENABLE is off: an operator's decision, which no setting of ours makes
        return {"count": 0, "limit": 1, "should_limit": False, "time_left": 0}
    return usage


# --- what is left ----------------------------------------------------------------------------------------------------


def sort_by_left(found: Iterable[Remaining]) -> list[Remaining]:
    return sorted(found, key=lambda entry: (entry.left, -entry.seconds))


def remaining_of(
    snapshot: Snapshot, rules: Iterable[LimitRule], credential: Credential
) -> list[tuple[LimitRule, Remaining | None]]:
    """Return what is left of those rules that apply to this user, without counting; in the order of `rules`.

    None for repetitions, which have no number of their own. One query for all quotas.
    """
    pairs = find_pairs(snapshot, dict.fromkeys(rules), credential)
    used = _find_used(pairs)
    return [(rule, _find_remaining(rule, subject, used)) for rule, subject in pairs]


def _find_used(pairs: Iterable[Pair]) -> dict[LimitRule, Remaining]:
    charges = [Charge(rule, subject, 0) for rule, subject in pairs if rule.quota is not None]
    return {
        usage.rule: remaining_of_quota(usage) for usage in (quotas.find(charges, timezone.now()) if charges else ())
    }


def _find_remaining(rule: LimitRule, subject: str, used: Mapping[LimitRule, Remaining]) -> Remaining | None:
    if rule.measure in measures.LOOPS:
        return None
    if rule.quota is not None:
        return used[rule]
    if rule.measure == measures.RUNNING:
        most = int(rule.rate)
        left = max(0, most - parts.get(Slots).count(rule, subject))
        return Remaining(rule.rule, rule.rate, most, left, 0, rule.measure)
    return _remaining(rule, _usage(rule, subject, increment=False))


def _remaining(rule: LimitRule, usage: Mapping[str, Any]) -> Remaining:
    left = max(0, usage["limit"] - usage["count"])
    return Remaining(rule.rule, rule.rate, usage["limit"], left, max(0, usage["time_left"]))


def remaining_of_quota(usage: quotas.Usage) -> Remaining:
    rule = usage.rule
    amount = rule.quota.amount if rule.quota is not None else 0
    seconds = max(0, int((usage.ends - timezone.now()).total_seconds()))
    return Remaining(rule.rule, rule.rate, amount, max(0, amount - usage.used), seconds, rule.measure, rule.zone)


def remaining_for(credential: Credential, tool: ToolDefinition) -> list[Remaining]:
    """Return what is left of each limit, tightest first.

    Empty when there is no limit, or while the counters cannot be read.
    """
    return remaining_for_tools(credential, [tool])[tool.id]


def remaining_for_tools(credential: Credential, tools: Sequence[ToolDefinition]) -> dict[int, list[Remaining]]:
    """Return what is left of the limits of each tool, by its id, as `remaining_for` does; one query for all quotas."""
    current = snapshot.current()
    rules = {tool.id: current.limits_by_tool.get(tool.id, ()) for tool in tools}
    found = dict(remaining_of_rules(credential, [rule for of_tool in rules.values() for rule in of_tool]))
    return {
        tool_id: sort_by_left(left for rule in of_tool if (left := found.get(rule)) is not None)
        for tool_id, of_tool in rules.items()
    }


def list_rules_for(credential: Credential) -> list[LimitRule]:
    """Return every limit that applies to this person, in the order in which they were made."""
    current = snapshot.current()
    return [rule for rule, _ in find_pairs(current, current.limits, credential)]


def remaining_of_rules(credential: Credential, rules: Sequence[LimitRule]) -> list[tuple[LimitRule, Remaining | None]]:
    """Return what is left of each of these limits that apply to this person.

    None for repetitions, and for all of them while the counters cannot be read.
    """
    try:
        return remaining_of(snapshot.current(), rules, credential)
    except (RedisError, OSError, DatabaseError) as error:
        log.warning("cannot read what is left of a limit: %s", type(error).__name__)
        return [(rule, None) for rule in rules]
