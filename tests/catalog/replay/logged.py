"""Calls in the log, and replays of them, for tests: people and tools are those of the policy's tests."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from django.utils import timezone

from audit.models import Call
from catalog.conditions import definitions
from catalog.policy.changes import NO_CHANGE, Change
from catalog.policy.definitions import AskRule, LimitRule, Snapshot
from catalog.replay import walk
from catalog.replay.report import Report, Viewer
from tests.audit.rows import build_call, save
from tests.catalog import test_policy
from tests.catalog.test_policy import ALICE, FILES, MEMBERS, NUMBERS, rule

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "region": {"type": "string"},
        "amount": {"type": "integer", "default": 1},
        "note": {"type": "string"},
    },
}
ONE = test_policy.tool(1, FILES, input_schema=SCHEMA)
TWO = test_policy.tool(2, FILES, NUMBERS, input_schema=SCHEMA)
THREE = test_policy.tool(3, NUMBERS, input_schema=SCHEMA)
EVERYTHING = [rule(1, target=("toolset", FILES)), rule(2, target=("toolset", NUMBERS))]
"""Grants by which everyone may call all tools."""
EMEA = {"path": "/region", "op": "equals", "value": "emea"}
AUDITOR = Viewer(99, True)


def build(*grants: Any, items: Any = (ONE, TWO, THREE), **parts: Any) -> Snapshot:
    return Snapshot.build(revision=1, items=items, grants=grants, **{"members": MEMBERS, **parts})


def deny(*conditions: dict[str, Any], target: tuple[str, int] = ("tool", 1), **fields: Any) -> Change:
    """A denial that is added."""
    return Change(grants=(rule(7, "deny", target, conditions=definitions.parse(list(conditions)), **fields),))


def limit(
    rate: str, target: tuple[str, int | None] = ("tool", 1), scope: str = "each_user", **fields: Any
) -> LimitRule:
    values = {"id": 4, "subject_id": None, **fields}
    return LimitRule(target_kind=target[0], target_id=target[1], scope=scope, rate=rate, **values)


def ask(target: tuple[str, int | None] = ("tool", 1), *conditions: dict[str, Any], **fields: Any) -> AskRule:
    values = {"id": 5, "name": "Ask", "asks": "person", "group_id": None, **fields}
    found = definitions.parse(list(conditions))
    return AskRule(target_kind=target[0], target_id=target[1], conditions=found, **values)


def call(ago: float = 60.0, user: int | None = ALICE, tool: Any = ONE, /, arguments: Any = None, **fields: Any) -> Call:
    """A call so many seconds ago, not saved; arguments that are a text are logged as they are."""
    text = arguments if isinstance(arguments, str) else json.dumps({} if arguments is None else arguments)
    values = {"target_id": tool.id, "name": getattr(tool, "uri", tool.name), "username": f"user{user}"}
    values["credential_id"] = f"token:{user}"
    number = call.number = getattr(call, "number", 0) + 1  # type: ignore[attr-defined]  # ids differ
    started = timezone.now() - timedelta(seconds=ago)
    return build_call(number, started_at=started, user_id=user, arguments=text, **{**values, **fields})


def run(
    before: Snapshot,
    change: Change = NO_CHANGE,
    *,
    after: Snapshot | None = None,
    days: int = 1,
    viewer: Viewer = AUDITOR,
    **options: Any,
) -> Report:
    *_, report = walk.replay(before, before if after is None else after, change, days, viewer, **options)
    assert isinstance(report, Report)
    return report


def changes(report: Report) -> dict[tuple[str, str], int]:
    return {(one.before, one.after): one.calls for one in report.changed}


def log(*calls: Call) -> list[Call]:
    return save(*calls)
