"""Random calls, rules and changes: a replay says what a slow and simple computation says, call by call."""

from __future__ import annotations

import json
import random
import zlib
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from django.utils import timezone

from audit.models import Call
from catalog.conditions import definitions
from catalog.conditions import windows as recurring
from catalog.policy import answers
from catalog.policy.answers import Sent
from catalog.policy.changes import NO_CHANGE, Change
from catalog.policy.definitions import AskRule, GrantRule, LimitRule, Snapshot
from catalog.policy.rules import Requester
from tests.catalog.replay.logged import EMEA, EVERYTHING, ONE, THREE, TWO, ask, build, call, changes, limit, log, run
from tests.catalog.test_policy import ALICE, ANALYSTS, BOB, FILES, GONE, NUMBERS, rule

pytestmark = pytest.mark.django_db

TARGETS: list[tuple[str, int]] = [("tool", 1), ("tool", 2), ("tool", 3), ("toolset", FILES), ("toolset", NUMBERS)]
SUBJECTS: list[Any] = ["everyone", "everyone", ("user", ALICE), ("user", BOB), ("group", ANALYSTS)]
SMALL = {"path": "/amount", "op": "range", "maximum": 2}
CONDITIONS: list[list[dict[str, Any]]] = [[], [], [], [EMEA], [SMALL], [EMEA, SMALL]]
HIDDEN = {"$redacted": "hmac-sha256:0123456789abcdef", "length": 4}


def make_windows(chance: random.Random) -> Any:
    if chance.random() < 0.7:
        return ()
    days = chance.sample(recurring.DAYS, 4)
    first, last = sorted(chance.sample(range(24), 2))
    return recurring.parse([{"days": days, "from": f"{first:02}:00", "to": f"{last:02}:30", "zone": "Europe/Berlin"}])


def make_grant(chance: random.Random, number: int, now: float) -> GrantRule:
    effect = chance.choice(["allow", "allow", "allow", "deny"])
    conditions = definitions.parse(chance.choice(CONDITIONS))
    times = {
        "starts": chance.choice([None, None, now - 50, now + 500]),
        "ends": chance.choice([None, None, None, now - 9]),
    }
    subject = chance.choice(SUBJECTS)
    return rule(
        number, effect, chance.choice(TARGETS), subject, conditions=conditions, windows=make_windows(chance), **times
    )  # fmt: skip


def make_ask(chance: random.Random, number: int, grants: list[GrantRule]) -> AskRule:
    target: Any = chance.choice([*TARGETS, ("all", None), ("grant", grants[0].id)])
    first_time = chance.choice([(), ("region",)])
    windows = make_windows(chance)
    outside = bool(windows) and chance.random() < 0.5
    values = {"id": number, "first_time": first_time, "windows": windows, "outside_windows": outside}
    return ask(target, *chance.choice(CONDITIONS), **values)


def make_limit(chance: random.Random, number: int) -> LimitRule:
    target: Any = chance.choice([*TARGETS, ("all", None)])
    scope, subject = chance.choice(
        [("each_user", None), ("everyone_together", None), ("user", BOB), ("each_member", ANALYSTS)]
    )
    return limit(chance.choice(["1/h", "2/d", "3/2h", "2/10m"]), target, scope, subject_id=subject, id=number)


def make_case(chance: random.Random, now: float) -> tuple[Snapshot, Change]:
    grants = [make_grant(chance, number, now) for number in range(11, 17)]
    asks = [make_ask(chance, number, grants) for number in range(1, chance.randint(1, 4))]
    limits = [make_limit(chance, number) for number in range(1, chance.randint(2, 4))]
    if chance.random() < 0.7:  # otherwise most calls are denied in any case
        grants = [*(one for one in grants if one.effect == "allow" or one.conditions), *EVERYTHING]
    kind = chance.choice(["grant", "grant", "ask", "limit"])
    replaced = chance.choice([None, 1, 11])
    new: Any = make_grant(chance, 50, now)
    if kind == "ask":
        new = make_ask(chance, 50, grants)
    elif kind == "limit":
        new = make_limit(chance, 50)
    return build(*grants, asks=asks, limits=limits), Change.replacing(new, replaced)


def make_calls(chance: random.Random, count: int) -> list[Call]:
    found = []
    for _ in range(count):
        arguments: Any = {}
        if chance.random() < 0.9:
            arguments["region"] = chance.choice(["emea", "apac", "amer"] if chance.random() < 0.9 else [HIDDEN])
        if chance.random() < 0.7:
            arguments["amount"] = chance.randint(0, 4)
        text = json.dumps(arguments) if chance.random() < 0.95 else "pruned:sha256:"
        user, tool = chance.choice([ALICE, ALICE, BOB, GONE]), chance.choice([ONE, TWO, THREE])
        found.append(call(chance.uniform(1, 3 * 86_400), user, tool, text))
    return found


# --- the slow computation --------------------------------------------------------------------------------------------


class Reference:
    """One of the two catalogues: rules as they are, a list of what was admitted, and no memory of answers."""

    def __init__(self, catalogue: Snapshot, change: Change, now: float) -> None:
        def strip(grants: Any) -> Any:
            here = [one for one in grants if (one.starts or 0) <= now and (one.ends is None or now < one.ends)]
            return tuple(replace(one, starts=None, ends=None) for one in here)

        self.catalogue = build(
            *strip(catalogue.grants),
            asks=[*{id(one): one for group in _asks(catalogue) for one in group}.values()],
            items=catalogue.items.values(),
            members=catalogue.members,
            limits=catalogue.limits,
        )
        self.change = replace(change, grants=strip(change.grants))
        self.admitted: list[tuple[LimitRule, str, int]] = []
        self.approved: list[tuple[int, int, int, Any]] = []

    def answer(self, row: Call, tool: Any) -> str:
        at = row.id.int >> 80
        try:
            sent = Sent(json.loads(row.arguments), lambda value: value == HIDDEN)
        except ValueError:
            sent = Sent(None)
        region = None if sent.arguments is None else sent.arguments.get("region")
        doubtful = sent.arguments is None or region == HIDDEN
        user_id = row.user_id or 0
        firsts = {one.id for group in (*_asks(self.catalogue), self.change.asks) for one in group if one.first_time}
        known = {number for number in firsts if (number, user_id, tool.id, region) in self.approved and not doubtful}
        found = [self._ask(user_id, tool, at, sent, known)]
        if doubtful:
            found.append(self._ask(user_id, tool, at, sent, firsts))
        if len({one.kind for one in found}) > 1 or found[0].kind == answers.UNCLEAR:
            return answers.UNCLEAR
        self.asked = (
            [] if doubtful else [(one.id, user_id, tool.id, region) for ask in found[0].asks for one in ask.rules]
        )
        return found[0].kind

    def _ask(self, user_id: int, tool: Any, ms: int, sent: Sent, known: set[int]) -> answers.Answer:
        change = self.change
        return answers.answer(
            self.catalogue, Requester(user_id), tool, ms / 1000, "development", sent, change=change, known=known
        )

    def finish(self, row: Call, tool: Any, kind: str) -> str:
        """Return the answer with the limits, and remember that the call ran."""
        if kind not in (answers.ALLOW, answers.ASK):
            return kind
        seconds, counted = (row.id.int >> 80) // 1000, []
        for one in self.change.find_limits(self.catalogue, tool):
            key = _counter(one, row.user_id or 0, self.catalogue)
            if key is not None:
                count, period = _rate(one.rate)
                window = _window(key, period, seconds)
                same = [1 for other, name, end in self.admitted if (other, name, end) == (one, key, window)]
                if len(same) >= count:
                    return "limit"
                counted.append((one, key, window))
        self.admitted += counted
        if kind == answers.ASK:
            self.approved += self.asked
        return kind


def _asks(catalogue: Snapshot) -> list[Any]:
    return [*catalogue.asks_by_tool.values(), *catalogue.asks_by_grant.values()]


def _counter(one: LimitRule, user_id: int, catalogue: Snapshot) -> str | None:
    if one.scope == "everyone_together":
        return "everyone"
    if one.scope == "user" and one.subject_id != user_id:
        return None
    if one.scope == "each_member" and one.subject_id not in catalogue.members[user_id].group_ids:
        return None
    return f"user {user_id}"


def _rate(rate: str) -> tuple[int, int]:
    return {"1/h": (1, 3_600), "2/d": (2, 86_400), "3/2h": (3, 7_200), "2/10m": (2, 600)}[rate]


def _window(key: str, period: int, seconds: int) -> int:
    end = seconds // period * period + zlib.crc32(key.encode()) % period
    while end < seconds:
        end += period
    return end


def compute(catalogue: Snapshot, change: Change, rows: list[Call], now: float) -> tuple[Counter[Any], int]:
    tools = {1: ONE, 2: TWO, 3: THREE}
    before, after = Reference(catalogue, NO_CHANGE, now), Reference(catalogue, change, now)
    found: Counter[Any] = Counter()
    unclear = 0
    for row in sorted(rows, key=lambda one: one.id):
        tool = tools[row.target_id or 0]
        kinds = before.answer(row, tool), after.answer(row, tool)
        if answers.UNCLEAR in kinds:
            unclear += 1
            continue
        kinds = before.finish(row, tool, kinds[0]), after.finish(row, tool, kinds[1])
        found[kinds] += kinds[0] != kinds[1]
    return +found, unclear


@pytest.mark.parametrize("seed", range(40))
def test_a_replay_says_what_a_slow_computation_says(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr("catalog.replay.attempts.BATCH_ROWS", 17)
    now = timezone.now().timestamp()
    catalogue, change = make_case(chance, now)
    rows = log(*make_calls(chance, 120))
    expected, unclear = compute(catalogue, change, rows, now)
    report = run(catalogue, change, days=4)
    assert changes(report) == expected
    assert report.unclear <= unclear, "calls that the change does not reach are not looked at"
    assert report.looked_at == len(rows)
