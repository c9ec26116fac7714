"""Replays of calls that the pipeline itself has logged: with approvals, secrets, conditions and limits as they are."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.cache import caches

from audit import outcomes
from catalog.conditions import definitions
from catalog.errors import InvalidArguments, LimitReached, UnknownTool
from catalog.policy import snapshot
from catalog.policy.changes import Change
from catalog.policy.definitions import GrantRule
from catalog.replay.report import Report
from tests import factories
from tests.catalog.approvals.waiting import NAME, approve, ask, attempt, make_rule, start
from tests.catalog.pipeline import call, logged_calls, publish, run_in_database
from tests.catalog.replay.logged import changes, run

pytestmark = pytest.mark.django_db(transaction=True)
EMEA = [{"path": "/region", "op": "equals", "value": "emea"}]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    caches["limits"].clear()


async def replay(change: Change) -> Report:
    found = snapshot.current()
    return await sync_to_async(lambda: run(found, change))()


async def statuses() -> list[str]:
    return [row.outcome for row in await logged_calls()]


async def test_a_call_that_waits_and_runs_is_counted_once(alice: Any, bob: Any) -> None:
    group = await run_in_database(factories.make_group, "approvers", [bob])
    tool = await run_in_database(publish, alice, NAME)
    rule = await run_in_database(make_rule, tool, group)
    waiting = await start(alice)
    await approve(bob)
    await waiting
    await ask(alice, {"region": "apac"})
    assert await statuses() == [outcomes.WAITING, outcomes.OK, outcomes.WAITING]
    report = await replay(Change(removed_asks=frozenset({rule.pk})))
    assert (report.looked_at, report.compared, changes(report)) == (3, 2, {("ask", "allow"): 2})


async def test_denied_rejected_and_limited_calls_are_compared_too(alice: Any, charlie: Any) -> None:
    tool = await run_in_database(publish, None, NAME)
    granted = await run_in_database(factories.grant, alice, tool, conditions=EMEA)
    limit = await run_in_database(factories.limit, "1/d", tool, user=alice)
    await attempt(alice, {"region": "emea"})
    with pytest.raises(LimitReached):
        await attempt(alice, {"region": "emea"})
    await run_in_database(limit.delete)
    for arguments in ({"region": "apac"}, {"region": 7}):
        with pytest.raises(InvalidArguments):
            await attempt(alice, arguments)
    with pytest.raises(UnknownTool):
        await attempt(charlie, {"region": "emea"})
    assert set(await statuses()) == {outcomes.OK, outcomes.LIMITED, outcomes.INVALID_ARGUMENTS, outcomes.REFUSED}
    report = await replay(Change(grants=(_for_everyone(snapshot.current().grants_by_id[granted.pk]),)))
    assert changes(report) == {("deny", "allow"): 2}, "one that a condition rejected, and the one of charlie"
    assert report.same == 3, "those that are allowed anyway, and the arguments that never fit"


def _for_everyone(grant: GrantRule) -> GrantRule:
    return replace(grant, id=0, subject_kind="everyone", subject_id=None, conditions=())


async def test_what_the_log_hides_is_unclear_and_what_a_digest_stands_for_too(alice: Any, settings: Any) -> None:
    settings.REDACT_VALUES = ["hunter2-hunter2"]
    tool = await run_in_database(publish, alice, NAME)
    await attempt(alice, {"region": "hunter2-hunter2"})
    await attempt(alice, {"region": "emea", "note": "hunter2-hunter2"})
    await run_in_database(_record_digests, tool)
    await attempt(alice, {"region": "emea"})
    report = await replay(Change(grants=(_denial(snapshot.current().grants[0]),)))
    assert (report.unclear, changes(report)) == (2, {("allow", "deny"): 1})


def _record_digests(tool: Any) -> None:
    tool.record_bodies = "digests"
    tool.save()


def _denial(grant: GrantRule) -> GrantRule:
    return replace(grant, id=0, effect="deny", conditions=definitions.parse(EMEA))


@pytest.mark.parametrize(
    ("amount", "name", "sent", "refused"),
    [
        (("3/month", "calls"), "call_add", [{"a": 1, "b": 2}] * 4, 1),
        (("9/month", "cost"), "call_add", [{"a": 1, "b": 2}, {"a": 3, "b": 1}, {"a": 1, "b": 2}, {"a": 2, "b": 2}], 2),
        (("2/90d", "repeats"), "call_add", [{"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 2, "b": 2}, {"a": 1, "b": 2}], 1),
        (("2/10m", "errors"), "call_coded", [{"code": "no_rights"}, {"code": "no_rights"}, {"code": "other"}], 1),
        (("2/10m", "errors"), "call_slow", [{}, {}, {}], 1),
        (("2/10m", "errors"), "call_add", [{"a": "one", "b": 2}, {"a": "one", "b": 2}, {"a": 1, "b": 2}], 1),
    ],
)
async def test_a_limit_that_is_removed_would_have_let_through_what_it_refused(
    alice: Any, amount: tuple[str, str], name: str, sent: list[dict[str, Any]], refused: int
) -> None:
    costs = {"cost": 2, "cost_argument": "/a", "cost_per_kilobyte": 1} if name == "call_add" else {}
    tool = await run_in_database(lambda: publish(alice, name, **costs))
    limit = await run_in_database(lambda: factories.limit(amount[0], tool, measure=amount[1]))
    for arguments in sent:
        with contextlib.suppress(LimitReached, InvalidArguments):
            await call(alice, name, arguments)
    assert (await statuses()).count(outcomes.LIMITED) == refused
    report = await replay(Change(removed_limits=frozenset({limit.pk})))
    assert changes(report) == {("limit", "allow"): refused}
    assert (report.compared, report.unclear) == (len(sent), 0)
