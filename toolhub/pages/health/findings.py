"""Findings about tools from their calls: plain data, computed from attempts in chronological order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from audit import outcomes
from audit.types import Reason
from catalog.schemas import errors
from catalog.schemas.errors import SchemaProblem
from toolhub.pages.health.queries import Attempt

MIN_REJECTED_CALLS = 3
MIN_LOOP_CALLS = 5
LOOP_SECONDS = 600.0
MIN_ABANDONED_ERRORS = 3
ABANDONED_SECONDS = 600.0
MIN_FAILED_CALLS = 5
MIN_FAILED_SHARE = 0.2
MIN_SLOW_MICROSECONDS = 10_000_000
MIN_TIMEOUTS = 3
ERROR_OUTCOMES = frozenset({outcomes.TOOL_ERROR, outcomes.TIMEOUT, outcomes.INVALID_ARGUMENTS})
EXECUTED_OUTCOMES = frozenset({outcomes.OK, outcomes.TOOL_ERROR, outcomes.TIMEOUT, outcomes.UNKNOWN})

MISSING, UNKNOWN, CHOICE, BOUND, PATTERN, TYPE, OTHER = (
    "missing", "unknown", "choice", "bound", "pattern", "type", "other",
)  # fmt: skip
_KINDS = {
    errors.MISSING: MISSING,
    errors.PROMPT_MISSING: MISSING,
    errors.UNKNOWN: UNKNOWN,
    errors.PROMPT_UNKNOWN: UNKNOWN,
    errors.ENUM: CHOICE,
    errors.CONST: CHOICE,
    errors.PROMPT_CHOICE: CHOICE,
    errors.PATTERN: PATTERN,
    **dict.fromkeys(errors.BOUNDS, BOUND),
    **dict.fromkeys((errors.TOO_LARGE, errors.TOO_COMPLEX, errors.UNUSABLE, errors.BUSY, errors.PROMPT_OBJECT), OTHER),
}
"""The kind that a problem code is counted as; every other code is about the type."""


@dataclass(slots=True)
class RejectedArgument:
    """A parameter of a tool that clients repeatedly get wrong in the same way."""

    tool: str
    parameter: str
    """The name of the parameter; empty for the arguments as a whole."""
    kind: str
    problem: SchemaProblem | None
    """The problem of the last such call."""
    number: int = 0
    calls: int = 0
    """The number of calls of the tool."""
    last: Attempt | None = None


@dataclass(slots=True)
class Loop:
    """Repeated calls of one tool by one client with the same arguments."""

    tool: str
    number: int
    first: Attempt
    last: Attempt
    outcome: str
    """The most frequent outcome of these calls."""


@dataclass(slots=True)
class AbandonedTool:
    """A tool that clients do not retry after an error."""

    tool: str
    number: int
    errors: int
    last: Attempt


@dataclass(slots=True)
class Trouble:
    """A tool that fails often or is slow."""

    tool: str
    ran: int
    failed: int
    timeouts: int
    p95: int | None
    """p95 latency, in microseconds."""
    error: Attempt | None
    """An attempt with the most frequent error."""
    last: Attempt | None


@lru_cache(maxsize=2_000)
def _parse_problem(reason: str) -> SchemaProblem | None:
    # Clients repeat the same mistakes, and one page reads thousands of calls.
    return SchemaProblem.from_reason(Reason.read(reason))


def classify_problem(problem: SchemaProblem | None) -> tuple[str, str]:
    """Return (parameter, kind) of a problem of arguments; items of a list count as one parameter."""
    if problem is None or not problem.path:
        return "", OTHER
    return errors.path_text(problem.path, any_item=True), _KINDS.get(problem.code, TYPE)


def find_rejected_arguments(attempts: Iterable[Attempt]) -> list[RejectedArgument]:
    calls: Counter[str] = Counter()
    found: dict[tuple[str, str, str], RejectedArgument] = {}
    for one in attempts:
        if not one.known:
            continue
        calls[one.name] += 1
        if one.outcome != outcomes.INVALID_ARGUMENTS:
            continue
        problem = _parse_problem(one.reason)
        parameter, kind = classify_problem(problem)
        argument = found.setdefault((one.name, parameter, kind), RejectedArgument(one.name, parameter, kind, problem))
        argument.number += 1
        argument.last, argument.problem = one, problem
    for argument in found.values():
        argument.calls = calls[argument.tool]
    often = [argument for argument in found.values() if argument.number >= MIN_REJECTED_CALLS]
    return sorted(often, key=lambda one: (-one.number, one.tool, one.parameter))


def find_loops(attempts: Iterable[Attempt]) -> list[Loop]:
    """Return, for each caller, tool and arguments, the longest run of calls within ten minutes."""
    same: dict[tuple[str, str, str, str], list[Attempt]] = defaultdict(list)
    for one in attempts:
        same[(*one.caller, one.name, one.digest)].append(one)
    found = []
    for calls in same.values():
        if len(calls) < MIN_LOOP_CALLS:
            continue
        start, longest = 0, (0, 0)
        for end, one in enumerate(calls):
            while one.at - calls[start].at > LOOP_SECONDS:
                start += 1
            if end + 1 - start > longest[1] - longest[0]:
                longest = start, end + 1
        run = calls[slice(*longest)]
        if len(run) >= MIN_LOOP_CALLS:
            most_frequent = Counter(one.outcome for one in run).most_common(1)[0][0]
            found.append(Loop(run[0].name, len(run), run[0], run[-1], most_frequent))
    return sorted(found, key=lambda loop: (-loop.number, loop.tool))


def find_abandoned_tools(attempts: Sequence[Attempt]) -> list[AbandonedTool]:
    """Return the tools that most callers did not call again within ten minutes of an error."""
    if not attempts:
        return []
    decided_before = attempts[-1].at - ABANDONED_SECONDS
    calls: dict[tuple[str, str, str], list[Attempt]] = defaultdict(list)
    for one in attempts:
        if one.known:
            calls[(*one.caller, one.name)].append(one)
    failed: Counter[str] = Counter()
    abandoned: dict[str, list[Attempt]] = defaultdict(list)
    for mine in calls.values():
        for index, one in enumerate(mine):
            if one.outcome not in ERROR_OUTCOMES or one.at > decided_before:
                continue
            failed[one.name] += 1
            if index + 1 == len(mine) or mine[index + 1].at - one.at > ABANDONED_SECONDS:
                abandoned[one.name].append(one)
    found = []
    for tool, ends in abandoned.items():
        if len(ends) >= MIN_ABANDONED_ERRORS and 2 * len(ends) >= failed[tool]:
            last = max(ends, key=lambda one: one.id)
            found.append(AbandonedTool(tool, len(ends), failed[tool], last))
    return sorted(found, key=lambda one: (-one.number, one.tool))


def find_troubles(attempts: Iterable[Attempt]) -> list[Trouble]:
    ran: dict[str, list[Attempt]] = defaultdict(list)
    for one in attempts:
        if one.known and one.outcome in EXECUTED_OUTCOMES:
            ran[one.name].append(one)
    found = []
    for tool, calls in ran.items():
        failed = [one for one in calls if one.outcome != outcomes.OK]
        timeouts = sum(one.outcome == outcomes.TIMEOUT for one in failed)
        took = sorted(one.took for one in calls if one.took is not None)
        p95 = took[min(len(took) - 1, int(len(took) * 0.95))] if took else None
        often = len(failed) >= MIN_FAILED_CALLS and len(failed) >= MIN_FAILED_SHARE * len(calls)
        slow = len(calls) >= MIN_FAILED_CALLS and p95 is not None and p95 >= MIN_SLOW_MICROSECONDS
        if not (often or slow or timeouts >= MIN_TIMEOUTS):
            continue
        by_detail = {one.detail: one for one in failed if one.outcome == outcomes.TOOL_ERROR and one.detail}
        detail_counts = Counter(one.detail for one in failed if one.outcome == outcomes.TOOL_ERROR and one.detail)
        error = by_detail[detail_counts.most_common(1)[0][0]] if by_detail else None
        slowest = max(calls, key=lambda one: one.took or 0)
        found.append(Trouble(tool, len(calls), len(failed), timeouts, p95, error, failed[-1] if failed else slowest))
    return sorted(found, key=lambda one: (-one.failed, -(one.p95 or 0), one.tool))
