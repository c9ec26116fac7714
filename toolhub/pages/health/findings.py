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

REFUSED_LEAST = 3
LOOP_LEAST = 5
LOOP_SECONDS = 600.0
GIVE_UP_LEAST = 3
GIVE_UP_SECONDS = 600.0
FAILED_LEAST = 5
FAILED_SHARE = 0.2
SLOW_MICROSECONDS = 10_000_000
TIMEOUTS_LEAST = 3
ERRORS = frozenset({outcomes.TOOL_ERROR, outcomes.TIMEOUT, outcomes.INVALID_ARGUMENTS})
RAN = frozenset({outcomes.OK, outcomes.TOOL_ERROR, outcomes.TIMEOUT, outcomes.UNKNOWN})

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
class Refusal:
    """A parameter of a tool that clients repeatedly get wrong in the same way."""

    tool: str
    parameter: str
    """The name of the parameter; empty for the arguments as a whole."""
    kind: str
    problem: SchemaProblem | None
    """The problem of the last such call."""
    number: int = 0
    of: int = 0
    """The number of calls of the tool."""
    last: Attempt | None = None


@dataclass(slots=True)
class Loop:
    """Repeated calls of one tool by one client with the same arguments."""

    tool: str
    number: int
    first: Attempt
    last: Attempt
    worst: str
    """The most frequent outcome of these calls."""


@dataclass(slots=True)
class GivenUp:
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
def _problem_of(reason: str) -> SchemaProblem | None:
    # Clients repeat the same mistakes, and one page reads thousands of calls.
    return SchemaProblem.of(Reason.read(reason))


def what_was_wrong(problem: SchemaProblem | None) -> tuple[str, str]:
    """Return (parameter, kind) of a problem of arguments; items of a list count as one parameter."""
    if problem is None or not problem.path:
        return "", OTHER
    return errors.path_text(problem.path, any_item=True), _KINDS.get(problem.code, TYPE)


def refusals(attempts: Iterable[Attempt]) -> list[Refusal]:
    calls: Counter[str] = Counter()
    found: dict[tuple[str, str, str], Refusal] = {}
    for one in attempts:
        if not one.known:
            continue
        calls[one.name] += 1
        if one.outcome != outcomes.INVALID_ARGUMENTS:
            continue
        problem = _problem_of(one.reason)
        parameter, kind = what_was_wrong(problem)
        refusal = found.setdefault((one.name, parameter, kind), Refusal(one.name, parameter, kind, problem))
        refusal.number += 1
        refusal.last, refusal.problem = one, problem
    for refusal in found.values():
        refusal.of = calls[refusal.tool]
    often = [refusal for refusal in found.values() if refusal.number >= REFUSED_LEAST]
    return sorted(often, key=lambda one: (-one.number, one.tool, one.parameter))


def loops(attempts: Iterable[Attempt]) -> list[Loop]:
    """Return, for each caller, tool and arguments, the longest run of calls within ten minutes."""
    same: dict[tuple[str, str, str, str], list[Attempt]] = defaultdict(list)
    for one in attempts:
        same[(*one.caller, one.name, one.digest)].append(one)
    found = []
    for calls in same.values():
        if len(calls) < LOOP_LEAST:
            continue
        start, longest = 0, (0, 0)
        for end, one in enumerate(calls):
            while one.at - calls[start].at > LOOP_SECONDS:
                start += 1
            if end + 1 - start > longest[1] - longest[0]:
                longest = start, end + 1
        run = calls[slice(*longest)]
        if len(run) >= LOOP_LEAST:
            worst = Counter(one.outcome for one in run).most_common(1)[0][0]
            found.append(Loop(run[0].name, len(run), run[0], run[-1], worst))
    return sorted(found, key=lambda loop: (-loop.number, loop.tool))


def given_up(attempts: Sequence[Attempt]) -> list[GivenUp]:
    """Return the tools that most callers did not call again within ten minutes of an error."""
    if not attempts:
        return []
    decided_before = attempts[-1].at - GIVE_UP_SECONDS
    calls: dict[tuple[str, str, str], list[Attempt]] = defaultdict(list)
    for one in attempts:
        if one.known:
            calls[(*one.caller, one.name)].append(one)
    failed: Counter[str] = Counter()
    left: dict[str, list[Attempt]] = defaultdict(list)
    for mine in calls.values():
        for index, one in enumerate(mine):
            if one.outcome not in ERRORS or one.at > decided_before:
                continue
            failed[one.name] += 1
            if index + 1 == len(mine) or mine[index + 1].at - one.at > GIVE_UP_SECONDS:
                left[one.name].append(one)
    found = []
    for tool, ends in left.items():
        if len(ends) >= GIVE_UP_LEAST and 2 * len(ends) >= failed[tool]:
            last = max(ends, key=lambda one: one.id)
            found.append(GivenUp(tool, len(ends), failed[tool], last))
    return sorted(found, key=lambda one: (-one.number, one.tool))


def troubles(attempts: Iterable[Attempt]) -> list[Trouble]:
    ran: dict[str, list[Attempt]] = defaultdict(list)
    for one in attempts:
        if one.known and one.outcome in RAN:
            ran[one.name].append(one)
    found = []
    for tool, calls in ran.items():
        failed = [one for one in calls if one.outcome != outcomes.OK]
        timeouts = sum(one.outcome == outcomes.TIMEOUT for one in failed)
        took = sorted(one.took for one in calls if one.took is not None)
        p95 = took[min(len(took) - 1, int(len(took) * 0.95))] if took else None
        often = len(failed) >= FAILED_LEAST and len(failed) >= FAILED_SHARE * len(calls)
        slow = len(calls) >= FAILED_LEAST and p95 is not None and p95 >= SLOW_MICROSECONDS
        if not (often or slow or timeouts >= TIMEOUTS_LEAST):
            continue
        said = {one.detail: one for one in failed if one.outcome == outcomes.TOOL_ERROR and one.detail}
        often_said = Counter(one.detail for one in failed if one.outcome == outcomes.TOOL_ERROR and one.detail)
        error = said[often_said.most_common(1)[0][0]] if said else None
        slowest = max(calls, key=lambda one: one.took or 0)
        found.append(Trouble(tool, len(calls), len(failed), timeouts, p95, error, failed[-1] if failed else slowest))
    return sorted(found, key=lambda one: (-one.failed, -(one.p95 or 0), one.tool))
