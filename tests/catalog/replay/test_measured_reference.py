"""Random calls and limits of every measure: a replay says what a slow and simple computation says, call by call."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone

from audit import outcomes
from audit.models import Call
from catalog.metering import loops
from catalog.policy import answers
from catalog.policy.changes import NO_CHANGE, Change
from catalog.policy.definitions import LimitRule, Member, Snapshot
from tests.catalog.replay.logged import EVERYTHING, ONE, THREE, TWO, build, call, changes, limit, log, run
from tests.catalog.replay.test_reference import HIDDEN, TARGETS, Reference, _counter, _window, make_grant, make_limit
from tests.catalog.test_policy import ALICE, ANALYSTS, BOB, GONE, MEMBERS

pytestmark = pytest.mark.django_db

CAROL = 7
PEOPLE = {**MEMBERS, CAROL: Member("carol", True, frozenset({ANALYSTS}))}
TOOLS = {1: replace(ONE, cost=2, cost_argument=("amount",)), 2: replace(TWO, cost_per_kilobyte=3), 3: THREE}
POLLED = replace(THREE, polling=True)
HOUR = 3_600
AMOUNTS = {
    "calls": ["1/hour", "3/day", "7/week", "12/month"],
    "cost": ["7/day", "15/week", "30/month"],
    "running": ["1", "2"],
    "repeats": ["1/24h", "2/7d", "1/2h"],
    "errors": ["1/2h", "2/24h"],
}
WINDOWS = {"24h": 24 * HOUR, "2h": 2 * HOUR, "7d": 168 * HOUR, "10m": 600, "h": HOUR, "d": 24 * HOUR}
IDS = ["0199f1d2-0000-7000-8000-000000000001", "0199f1d2-0000-7000-8000-000000000002"]
RAN = [*[outcomes.OK] * 5, *[outcomes.TOOL_ERROR] * 5, outcomes.TIMEOUT, outcomes.CANCELLED]
NOT_RUN = [outcomes.INVALID_ARGUMENTS, outcomes.LIMITED, outcomes.REFUSED, outcomes.RUNNING, outcomes.UNKNOWN]


def make_measured(chance: random.Random, number: int) -> LimitRule:
    """A limit of any measure but rates."""
    measure = chance.choice(list(AMOUNTS))
    scopes: list[Any] = [("each_user", None), ("user", ALICE), ("each_member", ANALYSTS)]
    if measure not in ("repeats", "errors"):
        scopes += [("group_together", ANALYSTS), ("everyone_together", None)] * 2
    scope, subject = chance.choice(scopes)
    zone = chance.choice(["", "Europe/Berlin", "Asia/Kolkata"])
    target: Any = chance.choice([*TARGETS, ("all", None), ("all", None)])
    amount = chance.choice(AMOUNTS[measure])
    return limit(amount, target, scope, subject_id=subject, measure=measure, zone=zone, id=number)


def make_case(chance: random.Random, now: float) -> tuple[Snapshot, Change]:
    limits = [make_limit(chance, 1), *(make_measured(chance, number) for number in range(21, chance.randint(22, 25)))]
    grants = [*EVERYTHING, *(make_grant(chance, number, now) for number in range(11, chance.randint(11, 14)))]
    new: Any = make_measured(chance, 50) if chance.random() < 0.8 else make_grant(chance, 50, now)
    tools = [*TOOLS.values()] if chance.random() < 0.7 else [TOOLS[1], TOOLS[2], POLLED]
    found = build(*grants, items=tools, limits=limits, members=PEOPLE)
    return found, Change.replacing(new, chance.choice([None, 1, 11, 21]))


def make_call(chance: random.Random) -> Call:
    amount, region = chance.choice([{}, {"amount": 0}, {"amount": 3}]), chance.choice([{}, {"region": "emea"}])
    arguments: dict[str, Any] = {**amount, **region}
    if chance.random() < 0.1:
        arguments = {**arguments, chance.choice(["amount", "note"]): HIDDEN}
    text = json.dumps(arguments) if chance.random() < 0.95 else "pruned:sha256:"
    outcome = chance.choice(RAN if chance.random() < 0.85 else NOT_RUN)
    values: dict[str, Any] = {"outcome": outcome, "result": "", "result_bytes": 0}
    values["duration_us"] = int(chance.choice([0.0004, 90, 9_000]) * 1_000_000)
    detail = chance.choice(
        ["no", "no", "no, see 0199f1d2-0000-7000-8000-000000000001", "never", "[redacted hmac-sha256:"]
    )
    if outcome == outcomes.OK:
        values["result_bytes"] = chance.choice([0, 10, 2_500])
    elif outcome == outcomes.TOOL_ERROR:
        content = json.dumps({"content": [{"type": "text", "text": detail}], "isError": True})
        values["result"] = content if chance.random() < 0.9 else "pruned:sha256:"
    elif outcome in (outcomes.RUNNING, outcomes.UNKNOWN):
        values["duration_us"] = None
    else:
        values["detail"] = detail
    if outcome == outcomes.INVALID_ARGUMENTS:
        text = json.dumps({"amount": chance.choice(["many", "few"])})
    user, tool = chance.choice([ALICE, ALICE, ALICE, CAROL, BOB, GONE]), TOOLS[chance.choice([1, 1, 2, 3])]
    made = call(chance.uniform(1, 3 * 86_400), user, tool, text, **values)
    made.credential_id = f"token:{user}{chance.choice('aab')}"
    return made


# --- the slow computation --------------------------------------------------------------------------------------------


class Admitted(NamedTuple):
    """A call that one limit has counted."""

    rule: LimitRule
    key: str
    ms: int
    end_ms: int
    period: Any
    units: int
    units_of_result: int
    error: str | None


class MeasuredReference(Reference):
    """One of the two catalogues: a list of what each limit has counted, read from the start for each call."""

    def __init__(self, catalogue: Snapshot, change: Change, now: float) -> None:
        super().__init__(catalogue, change, now)
        self.counted: list[Admitted] = []

    def list_limits(self, row: Call, tool: Any) -> list[tuple[LimitRule, str]]:
        found = []
        for one in self.change.find_limits(self.catalogue, tool):
            groups = self.catalogue.members[row.user_id or 0].group_ids
            if one.scope == "group_together":
                key = f"group {one.subject_id}" if one.subject_id in groups else None
            else:
                key = _counter(one, row.user_id or 0, self.catalogue)
            if key is not None and one.measure in ("repeats", "errors"):
                key = f"{row.credential_id} {tool.id}"
            if key is not None:
                found.append((one, key))
        return found

    def is_doubtful(self, row: Call, tool: Any, kind: str) -> bool:
        """Return whether a limit looks at something that the log does not show."""
        if kind != answers.ALLOW:
            return False
        arguments, found = read_arguments(row), {one.measure for one, _ in self.list_limits(row, tool)}
        if "repeats" in found and (arguments is None or HIDDEN in arguments.values()):
            return True
        if "cost" in found and tool.cost_argument and (arguments is None or arguments.get("amount") == HIDDEN):
            return True
        return "errors" in found and read_error(row) is None

    def limit(self, row: Call, tool: Any, kind: str) -> str:
        if kind != answers.ALLOW:
            return kind
        found = [(one, key) for one, key in self.list_limits(row, tool)]
        reserved = [pair for pair in found if pair[0].is_reserved]
        arriving = [pair for pair in found if not pair[0].is_reserved]
        is_valid = row.outcome != outcomes.INVALID_ARGUMENTS
        if any(self.is_full(one, key, row, tool) for one, key in arriving):
            return "limit"
        if is_valid and any(self.is_full(one, key, row, tool) for one, key in reserved):
            self.counted += [self.admit(*pair, row, tool) for pair in arriving if pair[0].measure != "errors"]
            return "limit"
        self.counted += [self.admit(*pair, row, tool) for pair in (found if is_valid else arriving)]
        return kind

    def admit(self, rule: LimitRule, key: str, row: Call, tool: Any) -> Admitted:
        at, units = ms_of(row), 1
        if rule.measure == "repeats":
            key = f"{key} {loops.digest_arguments(read_arguments(row))}"
        if rule.measure == "cost" and tool.cost_argument:
            units = tool.cost * max(1, (read_arguments(row) or {}).get("amount", 1))
        size = math.ceil(row.result_bytes / 1_000) * tool.cost_per_kilobyte if rule.measure == "cost" else 0
        return Admitted(rule, key, at, end_of(row), period_of(rule, key, at), units, size, read_error(row))

    def is_full(self, rule: LimitRule, key: str, row: Call, tool: Any) -> bool:
        this = self.admit(rule, key, row, tool)
        same = [one for one in self.counted if (one.rule, one.key) == (rule, this.key)]
        if rule.measure == "running":
            return sum(one.end_ms > this.ms for one in same) >= int(rule.rate)
        if rule.measure == "errors":
            return self.is_loop(rule, this.ms, same)
        amount = int(rule.rate.partition("/")[0])
        same = [one for one in same if one.period == this.period]
        used = sum(one.units for one in same) + sum(one.units_of_result for one in same if one.end_ms <= this.ms)
        return used + this.units > amount

    def is_loop(self, rule: LimitRule, ms: int, same: list[Admitted]) -> bool:
        number, _, period = rule.rate.partition("/")
        text, count, until = "", 0, 0
        for one in sorted(same, key=lambda one: one.end_ms):
            if one.end_ms > ms or one.error == "nothing":
                continue
            if one.error == "success":
                text, count = "", 0
            elif one.error == text and one.end_ms < until:
                count += 1
            else:
                text, count, until = one.error or "", 1, one.end_ms + 1_000 * WINDOWS[period]
        return count >= int(number) and ms < until


def ms_of(row: Call) -> int:
    return row.id.int >> 80


def end_of(row: Call) -> int:
    if row.outcome == outcomes.RUNNING:
        return 2**62
    return ms_of(row) + (math.ceil((row.duration_us or 0) / 1_000) if row.outcome in RAN else 0)


def read_arguments(row: Call) -> dict[str, Any] | None:
    return None if row.arguments.startswith("pruned") else json.loads(row.arguments)


def read_error(row: Call) -> str | None:
    """Return a text of its own for each error, "success" or "nothing"; None where the log hides it."""
    if row.outcome not in (outcomes.TOOL_ERROR, outcomes.TIMEOUT, outcomes.INVALID_ARGUMENTS):
        return "success" if row.outcome == outcomes.OK else "nothing"
    text = row.result or row.detail
    if "pruned" in text or "redacted" in text:
        return None
    return "never" if "never" in text else "no, see" if "see" in text else "no"


def period_of(rule: LimitRule, key: str, ms: int) -> Any:
    """Return something that all times of one period of a limit have in common."""
    if rule.quota is None:
        return _window(key, WINDOWS[rule.rate.partition("/")[2]], ms // 1000) if "/" in rule.rate else None
    local = datetime.fromtimestamp(ms / 1000, UTC).astimezone(ZoneInfo(rule.zone or "UTC"))
    match rule.quota.period:
        case "hour":
            return local.date(), local.hour, local.utcoffset()
        case "day":
            return local.date()
        case "week":
            return local.isocalendar()[:2]
    return local.year, local.month


def compute(catalogue: Snapshot, change: Change, rows: list[Call], now: float) -> tuple[Counter[Any], int]:
    sides = MeasuredReference(catalogue, NO_CHANGE, now), MeasuredReference(catalogue, change, now)
    found: Counter[Any] = Counter()
    unclear = 0
    for row in sorted(rows, key=lambda one: one.id):
        tool = catalogue.items["tool", row.target_id or 0]
        kinds = [side.answer(row, tool) for side in sides]
        pairs = [*zip(sides, kinds, strict=True)]
        if answers.UNCLEAR in kinds or any(side.is_doubtful(row, tool, kind) for side, kind in pairs):
            unclear += 1
            continue
        before, after = (side.limit(row, tool, kind) for side, kind in pairs)
        found[before, after] += before != after and row.outcome != outcomes.INVALID_ARGUMENTS
    return +found, unclear


@pytest.mark.parametrize("seed", range(40))
def test_a_replay_of_measured_limits_says_what_a_slow_computation_says(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr("catalog.replay.attempts.BATCH_ROWS", 17)
    now = timezone.now().timestamp()
    catalogue, change = make_case(chance, now)
    rows = log(*(make_call(chance) for _ in range(150)))
    expected, unclear = compute(catalogue, change, rows, now)
    report = run(catalogue, change, days=4)
    assert changes(report) == expected
    assert report.unclear <= unclear, "calls that the change does not reach are not looked at"
