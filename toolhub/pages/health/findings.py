"""Findings about tools from their calls: plain data, computed from attempts in chronological order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
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
MIN_YOUNG_CALLS = 20
"""Minimum number of calls from which a tool in its first day is judged: people try a new tool with wrong values."""
MIN_SLOW_MICROSECONDS = 10_000_000
MIN_TIMEOUTS = 3
MIN_INVENTED_CALLS = 3
MIN_SAME_CAUSE = 0.8
"""Share of calls from which on one thing counts as the cause of another."""
MAX_CAUSES = 3
MAX_CAUSE_CHARACTERS = 200
TIMED_OUT, CRASHED, INTERRUPTED, OWN = "timed out", "crashed", "interrupted", ""
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
    errors.NOT_ENUM: CHOICE,
    **dict.fromkeys((errors.PATTERN, errors.PREFIX_TEXT, errors.NOT_PATTERN, errors.NOT_PREFIX), PATTERN),
    **dict.fromkeys((*errors.BOUNDS, errors.NOT_RANGE, errors.NOT_LENGTH), BOUND),
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
    intended: tuple[str | int, ...] = ()
    """For an invented parameter, the path of the one that was missing in nearly all of these calls; () without one."""


@dataclass(slots=True)
class InventedName:
    """A tool name that clients call although they are not given such a tool."""

    name: str
    number: int
    users: int
    """The number of users whose clients called it."""
    last: Attempt


@dataclass(frozen=True, slots=True)
class Cause:
    """Why calls of a tool failed, as far as the log tells."""

    code: str
    """A code of an error ("401", "unreachable"), CRASHED, TIMED_OUT, or OWN for what only the tool's sentence says."""
    detail: str
    """The class of the exception for CRASHED; the sentence of the tool for OWN."""
    number: int


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
    causes: list[Cause] = field(default_factory=list)
    began_failing: float | None = None
    """Start of the first failed call, in Unix seconds, when all calls before it in the sample succeeded."""


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
    """Return what is often wrong with arguments; a call counts for each of its problems.

    A parameter that is missing because clients call it by another name is no finding of its own.
    """
    calls: Counter[str] = Counter()
    found: dict[tuple[str, str, str], RejectedArgument] = {}
    beside: dict[tuple[str, str], Counter[tuple[str | int, ...]]] = defaultdict(Counter)
    for one in attempts:
        if not one.known:
            continue
        calls[one.name] += 1
        if one.outcome != outcomes.INVALID_ARGUMENTS:
            continue
        first = _parse_problem(one.reason)
        problems = {classify_problem(problem): problem for problem in (first.all if first is not None else (None,))}
        missing = [problem.path for (_, kind), problem in problems.items() if kind == MISSING and problem is not None]
        for (parameter, kind), problem in problems.items():
            argument = found.setdefault(
                (one.name, parameter, kind), RejectedArgument(one.name, parameter, kind, problem)
            )
            argument.number += 1
            argument.last, argument.problem = one, problem
            if kind == UNKNOWN:
                beside[one.name, parameter].update(missing)
    for argument in found.values():
        argument.calls = calls[argument.tool]
    often = [argument for argument in found.values() if argument.number >= MIN_REJECTED_CALLS]
    explained: Counter[tuple[str, str]] = Counter()
    for argument in often:
        if argument.kind == UNKNOWN and (candidates := beside[argument.tool, argument.parameter].most_common(1)):
            path, number = candidates[0]
            if number >= MIN_SAME_CAUSE * argument.number:
                argument.intended = path
                explained[argument.tool, errors.path_text(path, any_item=True)] += number
    causes = [
        argument
        for argument in often
        if argument.kind != MISSING or explained[argument.tool, argument.parameter] < MIN_SAME_CAUSE * argument.number
    ]
    return sorted(causes, key=lambda one: (-one.number, one.tool, one.parameter))


def find_invented_names(attempts: Iterable[Attempt]) -> list[InventedName]:
    """Return the names that clients called several times and were answered “unknown tool”."""
    called: dict[str, list[Attempt]] = defaultdict(list)
    for one in attempts:
        if one.outcome == outcomes.UNKNOWN_TOOL or (one.outcome == outcomes.REFUSED and not one.error_class):
            called[one.name].append(one)
    found = [
        InventedName(name, len(calls), len({one.user for one in calls}), calls[-1])
        for name, calls in called.items()
        if len(calls) >= MIN_INVENTED_CALLS
    ]
    return sorted(found, key=lambda one: (-one.number, one.name))


def find_causes(failed: Iterable[Attempt]) -> list[Cause]:
    """Return the causes of failed calls, the most frequent first."""
    counts: Counter[tuple[str, str]] = Counter(_cause(one) for one in failed)
    return [Cause(code, detail, number) for (code, detail), number in counts.most_common(MAX_CAUSES)]


def _cause(one: Attempt) -> tuple[str, str]:
    if one.outcome == outcomes.TIMEOUT:
        return TIMED_OUT, ""
    if one.outcome == outcomes.UNKNOWN:
        return INTERRUPTED, ""
    reason = Reason.read(one.reason)
    if reason is not None and reason.code == "tool.error" and isinstance(reason.params.get("code"), str):
        return reason.params["code"], ""
    if reason is not None and reason.code == "run.failed":
        return CRASHED, one.error_class
    return OWN, one.detail[:MAX_CAUSE_CHARACTERS]


def find_loops(attempts: Iterable[Attempt]) -> list[Loop]:
    """Return, for each caller, tool and arguments, the longest run of calls within ten minutes."""
    same: dict[tuple[str, str, str, str], list[Attempt]] = defaultdict(list)
    for one in attempts:
        if one.outcome != outcomes.WAITING:  # its client is told to call again with the same arguments
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
            last = max(ends, key=lambda one: one.hex)
            found.append(AbandonedTool(tool, len(ends), failed[tool], last))
    return sorted(found, key=lambda one: (-one.number, one.tool))


def _find_turn(calls: Sequence[Attempt]) -> float | None:
    """Return when a tool that had worked began to fail: successes before, and hardly any after."""
    first = next((index for index, one in enumerate(calls) if one.outcome != outcomes.OK), None)
    if first is None or first < MIN_FAILED_CALLS:
        return None
    after = calls[first:]
    failed = sum(one.outcome != outcomes.OK for one in after)
    return calls[first].at if failed >= MIN_SAME_CAUSE * len(after) else None


def find_troubles(attempts: Iterable[Attempt], young: Container[str] = ()) -> list[Trouble]:
    """Return the tools that fail often or are slow; those that are `young` only from more calls on."""
    ran: dict[str, list[Attempt]] = defaultdict(list)
    for one in attempts:
        if one.known and one.outcome in EXECUTED_OUTCOMES:
            ran[one.name].append(one)
    found = []
    for tool, calls in ran.items():
        if tool in young and len(calls) < MIN_YOUNG_CALLS:
            continue
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
        trouble = Trouble(tool, len(calls), len(failed), timeouts, p95, error, failed[-1] if failed else slowest)
        trouble.causes = find_causes(failed)
        trouble.began_failing = _find_turn(calls)
        found.append(trouble)
    return sorted(found, key=lambda one: (-one.failed, -(one.p95 or 0), one.tool))
