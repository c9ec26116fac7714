"""Limits around calls: what a call takes as it arrives and before it runs, what its end costs, what clients read."""

from __future__ import annotations

import asyncio
import contextlib
import json
from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import caches
from django.utils import timezone

from audit import outcomes
from catalog.calls import call_tool
from catalog.errors import CLIENT_GONE, InvalidArguments, LimitReached, NeedsInput
from catalog.metering import limits
from catalog.models import LimitUsage
from tests import factories
from tests.catalog import tools
from tests.catalog.approvals import waiting
from tests.catalog.approvals.waiting import NAME, approve, ask, make_rule, newest
from tests.catalog.pipeline import MODERN, RecordingChannel, call, logged_calls, publish, run_in_database, text
from toolhub.wire.meta import LIMITS

pytestmark = pytest.mark.django_db(transaction=True)
SUM = {"a": 1, "b": 2}


@pytest.fixture(autouse=True)
def _clear() -> None:
    tools.RAN.clear()
    caches["limits"].clear()


async def used() -> dict[str, int]:
    return {row.counter: row.used async for row in LimitUsage.objects.order_by("id")}


async def refuse(user: Any, name: str = "call_add", arguments: Any = None) -> LimitReached:
    with pytest.raises(LimitReached) as refused:
        await call(user, name, SUM if arguments is None else arguments)
    return refused.value


async def start(user: Any, label: str) -> asyncio.Task[Any]:
    """A call that runs until it is cancelled."""
    tools.GATES[label] = asyncio.Event()
    task = asyncio.create_task(call(user, "call_wait", {"label": label}))
    started = asyncio.create_task(tools.GATES[label].wait())
    await asyncio.wait({task, started}, timeout=30, return_when=asyncio.FIRST_COMPLETED)
    assert started.done(), f"{label} did not start: {task}"
    return task


# --- quotas ----------------------------------------------------------------------------------------------------------


async def test_a_call_beyond_the_quota_names_its_reset_and_does_not_run(alice: Any, bob: Any) -> None:
    tool = await run_in_database(publish, alice, "call_add")
    await run_in_database(factories.grant, bob, tool)
    limit = await run_in_database(factories.limit, "2/month", tool, zone="Europe/Berlin", advice="Ask Carla instead.")
    for _ in range(2):
        await call(alice, "call_add", SUM)
    refused = await refuse(alice)
    assert str(refused).startswith(f"Limit reached: Limit {limit.pk}: 2/month on tool call_add for each user. ")
    assert "The quota is used up. It begins anew at " in str(refused) and "-01 00:00 Europe/Berlin" in str(refused)
    assert str(refused).endswith("Ask Carla instead.")
    assert 0 < refused.seconds <= 31 * 86_400 + 3_600
    await call(bob, "call_add", SUM)
    assert tools.RAN == ["call_add"] * 3
    assert [row.outcome for row in await logged_calls()] == [*[outcomes.OK] * 2, outcomes.LIMITED, outcomes.OK]
    assert await used() == {f"calls month user {alice.pk}": 2, f"calls month user {bob.pk}": 1}


async def test_a_quota_of_none_is_used_up_from_the_beginning(alice: Any) -> None:
    await run_in_database(factories.limit, "0/day", await run_in_database(publish, alice, "call_add"))
    assert "The quota is used up. It begins anew at" in str(await refuse(alice))


async def test_a_quota_survives_counters_that_are_lost(alice: Any) -> None:
    await run_in_database(factories.limit, "1/day", await run_in_database(publish, alice, "call_add"))
    await call(alice, "call_add", SUM)
    caches["limits"].clear()
    await refuse(alice)


async def test_a_call_with_invalid_arguments_takes_nothing_from_a_quota(alice: Any) -> None:
    tool = await run_in_database(publish, alice, "call_add")
    await run_in_database(factories.limit, "1/day", tool)
    with pytest.raises(InvalidArguments):
        await call(alice, "call_add", {"a": "one"})
    await call(alice, "call_add", SUM)
    await refuse(alice)


async def test_of_several_quotas_a_refused_call_takes_from_none(alice: Any) -> None:
    tool = await run_in_database(publish, alice, "call_add")
    await run_in_database(factories.limit, "5/month", tool)
    await run_in_database(factories.limit, "1/day", tool)
    await call(alice, "call_add", SUM)
    await refuse(alice)
    assert await used() == {f"calls month user {alice.pk}": 1, f"calls day user {alice.pk}": 1}


async def test_fifty_calls_at_once_take_exactly_the_quota(alice: Any) -> None:
    await run_in_database(factories.limit, "20/day", await run_in_database(publish, alice, "call_add"))
    made = await asyncio.gather(*(call(alice, "call_add", SUM) for _ in range(50)), return_exceptions=True)
    assert sum(isinstance(answer, LimitReached) for answer in made) == 30
    assert len(tools.RAN) == 20


async def test_the_members_of_a_group_share_a_budget(alice: Any, bob: Any, charlie: Any) -> None:
    tool = await run_in_database(publish, alice, "call_add")
    await run_in_database(factories.grant, bob, tool)
    await run_in_database(factories.grant, charlie, tool)
    group = await run_in_database(factories.make_group, "sales", [alice, bob])
    await run_in_database(factories.limit, "2/day", tool, group=group, scope="group_together")
    await call(alice, "call_add", SUM)
    await call(bob, "call_add", SUM)
    await refuse(alice)
    await refuse(bob)
    await call(charlie, "call_add", SUM)
    assert await used() == {f"calls day group {group.pk}": 2}


# --- cost ------------------------------------------------------------------------------------------------------------


async def test_a_call_costs_by_its_arguments_and_no_call_is_cheaper_than_one_without_them(alice: Any) -> None:
    tool = await run_in_database(publish, alice, "call_ticket", cost=2, cost_argument="/amount")
    await run_in_database(factories.limit, "100/month", tool, measure="cost")
    counter = f"cost month user {alice.pk}"
    for amount, total in ((10, 20), (0, 22), (-5, 24), (1, 26)):
        await call(alice, "call_ticket", {"region": "emea", "amount": amount})
        assert await used() == {counter: total}
    refused = await refuse(alice, "call_ticket", {"region": "emea", "amount": 38})
    assert "This call takes 76 cost units, and 74 are left. Ask for less, or wait." in str(refused)
    refused = await refuse(alice, "call_ticket", {"region": "emea", "amount": 10**15})
    assert "and the quota has 100. Ask for less at a time." in str(refused)
    await call(alice, "call_ticket", {"region": "emea", "amount": 37})
    assert await used() == {counter: 100}


async def test_the_size_of_a_result_is_charged_when_it_is_known(alice: Any) -> None:
    tool = await run_in_database(publish, alice, "call_echo", cost=1, cost_per_kilobyte=10)
    await run_in_database(factories.limit, "35/month", tool, measure="cost")
    result = await call(alice, "call_echo", {"value": "x" * 2_500})
    counted = (await used())[f"cost month user {alice.pk}"]
    assert counted >= 31 and counted % 10 == 1
    assert (result.meta or {})[LIMITS][0]["left"] == max(0, 35 - counted)
    await call(alice, "call_echo", {"value": "x"}) if counted < 35 else None
    await refuse(alice, "call_echo", {"value": "x"})


async def test_a_tool_that_costs_nothing_runs_when_the_units_are_used_up(alice: Any) -> None:
    await run_in_database(publish, alice, "call_add", cost=0)
    await run_in_database(publish, alice, "call_ticket", cost=5)
    await run_in_database(factories.limit, "5/month", measure="cost")
    await call(alice, "call_ticket", {"region": "emea"})
    await refuse(alice, "call_ticket", {"region": "emea"})
    await call(alice, "call_add", SUM)
    assert await used() == {f"cost month user {alice.pk}": 5}


# --- calls at a time -------------------------------------------------------------------------------------------------


async def test_more_calls_at_a_time_are_refused_until_one_ends(alice: Any, bob: Any) -> None:
    tool = await run_in_database(publish, alice, "call_wait", "call_add")
    tool = await run_in_database(type(tool).objects.get, name="call_wait")
    await run_in_database(factories.grant, bob, tool)
    await run_in_database(factories.limit, "2", tool, measure="running")
    running = [await start(alice, label) for label in ("one", "two")]
    refused = await refuse(alice, "call_wait", {"label": "three"})
    assert "2 calls are running, which is the most at a time. Try again when one has ended" in str(refused)
    assert refused.seconds >= 1
    others = await start(bob, "bob")
    await call(alice, "call_add", SUM)
    running[0].cancel(CLIENT_GONE)
    with pytest.raises(asyncio.CancelledError):
        await running[0]
    again = await start(alice, "four")
    for task in (running[1], others, again):
        task.cancel(CLIENT_GONE)
    await asyncio.gather(running[1], others, again, return_exceptions=True)

    def read_left() -> list[Any]:
        return limits.remaining_for(factories.credential(alice), factories.load().tools["call_wait"])

    left = await run_in_database(read_left)
    assert [(one.left, one.limit) for one in left] == [(2, 2)]


# --- repetitions -----------------------------------------------------------------------------------------------------


async def test_the_same_call_again_and_again_is_told_to_use_its_answer(alice: Any) -> None:
    tool = await run_in_database(publish, alice, "call_add")
    await run_in_database(factories.limit, "3/10m", tool, measure="repeats")
    for _ in range(3):
        await call(alice, "call_add", {"a": 1, "b": 2})
    refused = await refuse(alice, "call_add", {"b": 2, "a": 1})
    assert "This call was made 3 times within 10m with the same arguments, so it did not run again." in str(refused)
    assert 1 <= refused.seconds <= 600
    await call(alice, "call_add", {"a": 1, "b": 3})
    assert len(tools.RAN) == 4


async def test_a_call_that_brings_its_answers_is_no_repetition(alice: Any) -> None:
    await run_in_database(publish, alice, "call_name")
    await run_in_database(factories.limit, "1/10m", measure="repeats")
    asking = RecordingChannel(modern=True)
    with pytest.raises(NeedsInput) as needed:
        await call(alice, "call_name", {}, asking, revision=MODERN)
    (key,) = needed.value.requests
    answering = RecordingChannel(answers={key: {"action": "accept", "content": {"name": "Ann"}}}, modern=True)
    answering.continues = needed.value.call_id
    assert text(await call(alice, "call_name", {}, answering, revision=MODERN)) == "Hello, Ann!"
    with pytest.raises(LimitReached):
        await call(alice, "call_name", {}, asking, revision=MODERN)


async def test_tools_for_polling_are_left_out_of_repetitions(alice: Any) -> None:
    await run_in_database(publish, alice, "call_add", polling=True)
    await run_in_database(factories.limit, "1/10m", measure="repeats")
    for _ in range(4):
        await call(alice, "call_add", SUM)


async def test_the_same_error_again_and_again_is_told_with_what_to_change(alice: Any) -> None:
    tool = await run_in_database(publish, alice, "call_coded")
    await run_in_database(factories.limit, "2/10m", tool, measure="errors")
    for code in ("no_rights", "no_rights"):
        assert (await call(alice, "call_coded", {"code": code})).is_error
    refused = await refuse(alice, "call_coded", {"code": "other"})
    assert "The last 2 calls of this tool ended with the same error, so it did not run again. The error was: " in str(
        refused
    )
    assert "Change what it names, use another tool, or tell the person about it." in str(refused)


async def test_invalid_arguments_are_errors_that_repeat(alice: Any) -> None:
    tool = await run_in_database(publish, alice, "call_add")
    await run_in_database(factories.limit, "2/10m", tool, measure="errors")
    for _ in range(2):
        with pytest.raises(InvalidArguments):
            await call(alice, "call_add", {"a": "one", "b": 2})
    await refuse(alice)


async def test_a_call_that_succeeds_ends_a_row_of_errors(alice: Any) -> None:
    tool = await run_in_database(publish, alice, "call_add")
    await run_in_database(factories.limit, "2/10m", tool, measure="errors")
    for _ in range(4):
        with pytest.raises(InvalidArguments):
            await call(alice, "call_add", {"a": "one", "b": 2})
        await call(alice, "call_add", SUM)


async def test_an_error_that_names_its_call_is_the_same_error(alice: Any) -> None:
    tool = await run_in_database(publish, alice, "call_slow")
    await run_in_database(factories.limit, "2/10m", tool, measure="errors")
    answers = [text(await call(alice, "call_slow", {})) for _ in range(2)]
    assert answers[0] != answers[1], "each names its call"
    await refuse(alice, "call_slow", {})


# --- what clients read -----------------------------------------------------------------------------------------------


async def test_a_result_tells_what_is_left_of_each_limit_the_tightest_first(alice: Any) -> None:
    tool = await run_in_database(publish, alice, "call_add")
    await run_in_database(factories.limit, "30/h", tool)
    day = await run_in_database(factories.limit, "5/day", tool)
    await run_in_database(factories.limit, "7", tool, measure="running")
    result = await call(alice, "call_add", SUM)
    told = (result.meta or {})[LIMITS]
    assert [(one["measure"], one["left"], one["of"]) for one in told] == [("calls", 4, 5), ("calls", 29, 30)]
    assert told[0]["limit"] == f"Limit {day.pk}: 5/day on tool call_add for each user"
    ends = timezone.now() + timedelta(seconds=told[0]["resetsInSeconds"])
    assert abs((ends - ends.replace(hour=0, minute=0, second=0)).total_seconds()) < 60 or ends.hour == 23
    json.dumps(told)


async def test_a_tool_without_limits_tells_nothing(alice: Any) -> None:
    await run_in_database(publish, alice, "call_add")
    assert not (await call(alice, "call_add", SUM)).meta


# --- approvals -------------------------------------------------------------------------------------------------------


async def test_a_call_that_waits_for_approval_takes_nothing_and_one_that_a_quota_refuses_uses_none(
    alice: Any, bob: Any
) -> None:
    tool = await run_in_database(publish, alice, NAME)
    group = await run_in_database(factories.make_group, "approvers", [bob])
    await run_in_database(make_rule, tool, group)
    await run_in_database(factories.limit, "1/day", tool)
    await run_in_database(factories.limit, "1/10m", tool, measure="repeats")
    for _ in range(3):
        await ask(alice)
    assert await used() == {}
    await approve(bob)
    await ask_and_run(alice)
    await ask(alice, {"region": "apac"})
    await approve(bob)
    with pytest.raises(LimitReached):
        await waiting.attempt(alice, {"region": "apac"})
    assert (await newest()).state == "approved" and tools.RAN == [NAME]


async def ask_and_run(user: Any) -> None:
    assert not (await waiting.attempt(user)).is_error


# --- in trial --------------------------------------------------------------------------------------------------------


async def all_notes() -> list[Any]:
    rows = await logged_calls()
    return [json.loads(row.rule_reason)[1].get("trials", []) for row in rows]


async def attempt(user: Any, name: str, arguments: Any) -> None:
    with contextlib.suppress(LimitReached, InvalidArguments):
        await call(user, name, arguments)


@pytest.mark.parametrize(
    ("rate", "measure", "expected"),
    [("2/day", "calls", 2), ("2/10m", "repeats", 2), ("4/day", "cost", 2)],
)
async def test_every_measure_can_be_tried(alice: Any, rate: str, measure: str, expected: int) -> None:
    tool = await run_in_database(publish, alice, "call_add", cost=2)
    tried = await run_in_database(factories.limit, rate, tool, measure=measure, trial=True)
    for _ in range(4):
        await attempt(alice, "call_add", SUM)
    noted = [["limit", tried.pk, "allow", "limit"]]
    assert await all_notes() == [[] if number < expected else noted for number in range(4)]
    assert len(tools.RAN) == 4


async def test_errors_and_calls_at_a_time_can_be_tried(alice: Any) -> None:
    tool = await run_in_database(publish, alice, "call_coded")
    tried = await run_in_database(factories.limit, "2/10m", tool, measure="errors", trial=True)
    await run_in_database(factories.limit, "1", tool, measure="running", trial=True)
    for _ in range(4):
        await attempt(alice, "call_coded", {"code": "no_rights"})
    noted = [["limit", tried.pk, "allow", "limit"]]
    assert await all_notes() == [[], [], noted, noted]


async def test_a_wider_quota_is_tried_in_the_place_of_one_in_force(alice: Any) -> None:
    tool = await run_in_database(publish, alice, "call_add")
    real = await run_in_database(factories.limit, "1/day", tool)
    tried = await run_in_database(factories.limit, "3/day", tool, trial=True, replaces=real)
    for _ in range(4):
        await attempt(alice, "call_add", SUM)
    noted = [["limit", tried.pk, "limit", "allow"]]
    assert await all_notes() == [[], noted, noted, []]


async def test_a_call_with_invalid_arguments_takes_nothing_from_a_quota_in_trial(alice: Any) -> None:
    tool = await run_in_database(publish, alice, "call_add")
    await run_in_database(factories.limit, "1/day", tool, trial=True)
    await attempt(alice, "call_add", {"a": "one"})
    assert await used() == {}
    assert call_tool.is_known("tools/call", "call_add")
