"""What the calls say about the tools: each finding is plain data, worked out from attempts in order of time."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from audit import outcomes
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
_SENTENCE = re.compile(r'argument "(?P<name>.*?)": (?:(?P<required>is required)|(?P<unknown>is not known)|expected )')
_EXPECTED = re.compile(r": expected (?P<expected>.*?)(?:, got |$)")
_BOUND = re.compile(r"(at least|at most|more than|less than|a multiple of) ")


@dataclass(slots=True)
class Refusal:
    """A parameter of a tool that clients get wrong in the same way."""

    tool: str
    parameter: str
    """Empty: the arguments as a whole."""
    kind: str
    expected: str
    number: int = 0
    of: int = 0
    """How many calls of the tool there were."""
    last: Attempt | None = None


@dataclass(slots=True)
class Loop:
    """One client that called one tool with the same arguments again and again."""

    tool: str
    number: int
    first: Attempt
    last: Attempt
    worst: str
    """The outcome that most of them had."""


@dataclass(slots=True)
class GivenUp:
    """A tool that clients do not try again after an error."""

    tool: str
    number: int
    errors: int
    last: Attempt
    sentence: str


@dataclass(slots=True)
class Trouble:
    """A tool that fails or takes long."""

    tool: str
    ran: int
    failed: int
    timeouts: int
    p95: int | None
    """Microseconds."""
    error: str
    last: Attempt | None


def what_was_wrong(detail: str) -> tuple[str, str, str]:
    """(parameter, kind, what was expected) of the sentence with which arguments were refused."""
    match = _SENTENCE.match(detail)
    if match is None:
        return "", OTHER, ""
    name = re.sub(r"\[\d+\]", "[]", match["name"])
    if match["required"]:
        return name, MISSING, ""
    if match["unknown"]:
        return name, UNKNOWN, ""
    said = _EXPECTED.search(detail, match.end("name"))
    expected = said["expected"] if said is not None else ""
    if expected.startswith(("one of ", '"')):
        return name, CHOICE, expected
    if expected.startswith("text that matches"):
        return name, PATTERN, expected
    return name, BOUND if _BOUND.match(expected) else TYPE, expected


def refusals(attempts: Iterable[Attempt]) -> list[Refusal]:
    calls: Counter[str] = Counter()
    found: dict[tuple[str, str, str], Refusal] = {}
    for one in attempts:
        if not one.known:
            continue
        calls[one.name] += 1
        if one.outcome != outcomes.INVALID_ARGUMENTS:
            continue
        parameter, kind, expected = what_was_wrong(one.detail)
        refusal = found.setdefault((one.name, parameter, kind), Refusal(one.name, parameter, kind, expected))
        refusal.number += 1
        refusal.last, refusal.expected = one, expected
    for refusal in found.values():
        refusal.of = calls[refusal.tool]
    often = [refusal for refusal in found.values() if refusal.number >= REFUSED_LEAST]
    return sorted(often, key=lambda one: (-one.number, one.tool, one.parameter))


def loops(attempts: Iterable[Attempt]) -> list[Loop]:
    """The longest run of each within ten minutes."""
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
    """Tools whose callers mostly did not come back within ten minutes of an error."""
    if not attempts:
        return []
    decided_before = attempts[-1].at - GIVE_UP_SECONDS
    calls: dict[tuple[str, str, str], list[Attempt]] = defaultdict(list)
    for one in attempts:
        if one.known:
            calls[(*one.caller, one.name)].append(one)
    errors: Counter[str] = Counter()
    left: dict[str, list[Attempt]] = defaultdict(list)
    for mine in calls.values():
        for index, one in enumerate(mine):
            if one.outcome not in ERRORS or one.at > decided_before:
                continue
            errors[one.name] += 1
            if index + 1 == len(mine) or mine[index + 1].at - one.at > GIVE_UP_SECONDS:
                left[one.name].append(one)
    found = []
    for tool, ends in left.items():
        if len(ends) >= GIVE_UP_LEAST and 2 * len(ends) >= errors[tool]:
            last = max(ends, key=lambda one: one.id)
            found.append(GivenUp(tool, len(ends), errors[tool], last, last.detail))
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
        errors = Counter(one.detail for one in failed if one.outcome == outcomes.TOOL_ERROR and one.detail)
        error = errors.most_common(1)[0][0] if errors else ""
        slowest = max(calls, key=lambda one: one.took or 0)
        found.append(Trouble(tool, len(calls), len(failed), timeouts, p95, error, failed[-1] if failed else slowest))
    return sorted(found, key=lambda one: (-one.failed, -(one.p95 or 0), one.tool))
