"""Rules in trial decide nothing; where they would have, the log says so beside the real answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.cache import caches

from audit import outcomes
from audit.models import Call
from audit.types import MAX_REASON_CHARACTERS
from catalog.calls import prompts, resources
from catalog.errors import InvalidArguments, LimitReached, NotApproved, UnknownPrompt, UnknownResource, UnknownTool
from catalog.models import ApprovalRule, Grant, KnownValue, Limit
from catalog.policy import snapshot, visibility
from tests import factories
from tests.catalog import tools
from tests.catalog.approvals.waiting import NAME, approve, ask, attempt, deny, make_rule, start
from tests.catalog.pipeline import RecordingChannel, caller, logged_calls, only_logged_call, publish, run_in_database

pytestmark = pytest.mark.django_db(transaction=True)
EMEA, APAC = {"region": "emea"}, {"region": "apac"}
ONLY_EMEA = [{"path": "/region", "op": "equals", "value": "emea"}]
LARGE = [{"path": "/amount", "op": "range", "exclusiveMinimum": 1000}]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    tools.RAN.clear()
    caches["limits"].clear()
    caches["local"].clear()


def notes_of(call: Call) -> list[Any]:
    found: list[Any] = json.loads(call.rule_reason)[1].get("trials", [])
    return found


async def all_notes() -> list[list[Any]]:
    return [notes_of(call) for call in await logged_calls()]


async def set_up(user: Any) -> tuple[Any, Grant]:
    """The tool of tickets, granted to the user."""
    tool = await run_in_database(publish, None, NAME)
    return tool, await run_in_database(factories.grant, user, tool)


async def try_grant(*args: Any, **fields: Any) -> Grant:
    made: Grant = await run_in_database(factories.grant, *args, trial=True, **fields)
    return made


async def try_limit(*args: Any, **fields: Any) -> Limit:
    made: Limit = await run_in_database(factories.limit, *args, trial=True, **fields)
    return made


async def try_rule(*args: Any, **fields: Any) -> ApprovalRule:
    made: ApprovalRule = await run_in_database(make_rule, *args, trial=True, **fields)
    return made


# --- grants ----------------------------------------------------------------------------------------------------------


async def test_a_grant_in_trial_allows_nothing_and_its_answer_is_in_the_log(charlie: Any) -> None:
    tool = await run_in_database(publish, None, NAME)
    tried = await try_grant(charlie, tool)
    assert not visibility.for_credential(caller(charlie).credential).tools
    with pytest.raises(UnknownTool):
        await attempt(charlie, EMEA)
    call = await only_logged_call()
    assert (call.outcome, notes_of(call)) == (outcomes.REFUSED, [["grant", tried.pk, "deny", "allow"]])
    assert tools.RAN == []


async def test_a_denial_in_trial_denies_nothing(alice: Any, bob: Any) -> None:
    tool, _ = await set_up(alice)
    tried = await try_grant(alice, tool, effect="deny")
    await try_grant(bob, tool, effect="deny")
    await attempt(alice, EMEA)
    assert tools.RAN == [NAME] and await all_notes() == [[["grant", tried.pk, "allow", "deny"]]]


async def test_a_condition_is_tried_in_the_place_of_a_grant(alice: Any) -> None:
    tool, granted = await set_up(alice)
    tried = await try_grant(alice, tool, conditions=ONLY_EMEA, replaces=granted)
    await attempt(alice, EMEA)
    await attempt(alice, APAC)
    assert await all_notes() == [[], [["grant", tried.pk, "allow", "deny"]]]
    (shown,) = visibility.for_credential(caller(alice).credential).tools.values()
    assert shown[0].form is None


async def test_what_conditions_refuse_and_a_trial_would_allow_is_noted(alice: Any) -> None:
    tool = await run_in_database(publish, None, NAME)
    granted = await run_in_database(factories.grant, alice, tool, conditions=ONLY_EMEA)
    tried = await try_grant(alice, tool, replaces=granted)
    await attempt(alice, EMEA)
    with pytest.raises(InvalidArguments):
        await attempt(alice, APAC)
    assert await all_notes() == [[], [["grant", tried.pk, "deny", "allow"]]]


async def test_invalid_arguments_are_not_noted_whatever_rules_say(alice: Any, charlie: Any) -> None:
    tool, _ = await set_up(alice)
    await try_grant(alice, tool, effect="deny")
    await try_grant(charlie, tool)
    with pytest.raises(InvalidArguments):
        await attempt(alice, {"region": 7})
    with pytest.raises(UnknownTool):
        await attempt(charlie, {"region": 7})
    assert [json.loads(call.rule_reason)[1].get("trials") for call in await logged_calls()] == [None, None]


async def test_a_token_for_other_toolsets_gets_no_further_by_a_grant_in_trial(charlie: Any) -> None:
    tool = await run_in_database(publish, None, NAME)
    await try_grant(charlie, tool)
    with pytest.raises(UnknownTool):
        await attempt(charlie, EMEA, toolset_ids=frozenset({99}))
    assert await all_notes() == [[]]


async def test_each_rule_is_tried_by_itself(alice: Any) -> None:
    tool, granted = await set_up(alice)
    denied = await try_grant(alice, tool, effect="deny")
    await try_grant(alice, tool)
    moved = await try_grant(alice, tool, conditions=ONLY_EMEA, replaces=granted)
    await attempt(alice, APAC)
    assert await all_notes() == [[["grant", denied.pk, "allow", "deny"], ["grant", moved.pk, "allow", "deny"]]]


async def test_at_most_twenty_rules_are_noted_and_the_rule_stays_readable(alice: Any) -> None:
    tool, _ = await set_up(alice)
    for _number in range(25):
        await run_in_database(factories.grant, alice, tool, effect="deny", trial=True)
    await attempt(alice, EMEA)
    call = await only_logged_call()
    code, params = json.loads(call.rule_reason)
    assert (code, params["whom"], len(params["trials"])) == ("rule.grant", "alice", 20)
    assert len(call.rule_reason) < MAX_REASON_CHARACTERS


async def test_no_more_than_fifty_rules_are_tried(alice: Any, caplog: pytest.LogCaptureFixture) -> None:
    tool, _ = await set_up(alice)
    rows = [Grant(tool=tool, user=alice, effect="deny", trial=True) for _ in range(51)]
    for row in rows:
        row.date_trial()
    await run_in_database(Grant.everything.bulk_create, rows)
    assert len(snapshot.current().trials) == 50 and "only the oldest 50 are tried" in caplog.text


# --- approval rules --------------------------------------------------------------------------------------------------


async def test_an_approval_rule_in_trial_asks_nobody(alice: Any) -> None:
    tool, _ = await set_up(alice)
    tried = await try_rule(tool, conditions=LARGE)
    await attempt(alice, {**EMEA, "amount": 1000})
    await attempt(alice, {**EMEA, "amount": 1001})
    assert await all_notes() == [[], [["approval_rule", tried.pk, "allow", "ask"]]]
    assert tools.RAN == [NAME, NAME]


async def test_a_rule_for_the_first_time_would_ask_once_about_a_value_and_in_force_it_asks(alice: Any) -> None:
    tool, _ = await set_up(alice)
    tried = await try_rule(tool, first_time="/region")
    for arguments in (EMEA, EMEA, APAC):
        await attempt(alice, arguments)
    noted = [["approval_rule", tried.pk, "allow", "ask"]]
    assert await all_notes() == [noted, [], noted]
    assert await KnownValue.objects.acount() == 2

    def put_in_force() -> None:
        row = ApprovalRule.everything.get(pk=tried.pk)
        row.trial = False
        row.save()

    await run_in_database(put_in_force)
    await ask(alice, EMEA)


async def test_a_call_that_waits_has_the_notes_and_the_run_after_it_has_not(alice: Any, bob: Any) -> None:
    tool, _ = await set_up(alice)
    group = await run_in_database(factories.make_group, "approvers", [bob])
    rule = await run_in_database(make_rule, tool, group)
    free = await try_rule(tool, group, name="Only large ones", conditions=LARGE, replaces=rule)
    await ask(alice, EMEA)
    await approve(bob)
    await attempt(alice, EMEA)
    assert [call.outcome for call in await logged_calls()] == [outcomes.WAITING, outcomes.OK]
    assert await all_notes() == [[["approval_rule", free.pk, "ask", "allow"]], []]
    code, params = json.loads((await logged_calls())[1].rule_reason)
    assert (code, params["approved_by"]) == ("rule.grant", "bob")


async def test_a_denial_in_trial_of_what_asks_is_noted(alice: Any, bob: Any) -> None:
    tool, _ = await set_up(alice)
    group = await run_in_database(factories.make_group, "approvers", [bob])
    await run_in_database(make_rule, tool, group)
    tried = await try_grant(alice, tool, effect="deny")
    with pytest.raises(NotApproved):
        await attempt(alice, EMEA)
    assert await all_notes() == [[["grant", tried.pk, "ask", "deny"]]]


async def test_a_call_that_is_denied_after_it_waited_has_its_notes_once(alice: Any, bob: Any) -> None:
    tool, _ = await set_up(alice)
    group = await run_in_database(factories.make_group, "approvers", [bob])
    await run_in_database(make_rule, tool, group)
    tried = await try_grant(alice, tool, effect="deny")
    waiting = await start(alice, EMEA)
    await deny(bob)
    with pytest.raises(NotApproved):
        await waiting
    assert [call.outcome for call in await logged_calls()] == [outcomes.WAITING, outcomes.APPROVAL_DENIED]
    assert await all_notes() == [[["grant", tried.pk, "ask", "deny"]], []]


# --- rate limits -----------------------------------------------------------------------------------------------------


async def test_a_limit_in_trial_counts_and_lets_every_call_through(alice: Any, bob: Any) -> None:
    tool, _ = await set_up(alice)
    await run_in_database(factories.grant, bob, tool)
    tried = await try_limit("2/d", tool)
    for user in (alice, alice, alice, bob, alice):
        await attempt(user, EMEA)
    noted = [["limit", tried.pk, "allow", "limit"]]
    assert await all_notes() == [[], [], noted, [], noted] and len(tools.RAN) == 5


async def test_a_limit_in_trial_is_noted_beside_a_grant_with_conditions(alice: Any) -> None:
    tool = await run_in_database(publish, None, NAME)
    await run_in_database(factories.grant, alice, tool, conditions=ONLY_EMEA)
    tried = await try_limit("1/d", tool)
    await attempt(alice, EMEA)
    await attempt(alice, EMEA)
    assert await all_notes() == [[], [["limit", tried.pk, "allow", "limit"]]]


async def test_a_wider_limit_is_tried_in_the_place_of_one_in_force(alice: Any) -> None:
    tool, _ = await set_up(alice)
    real = await run_in_database(factories.limit, "1/d", tool)
    tried = await try_limit("3/d", tool, replaces=real)
    await attempt(alice, EMEA)
    for _ in range(3):
        with pytest.raises(LimitReached):
            await attempt(alice, EMEA)
    noted = [["limit", tried.pk, "limit", "allow"]]
    assert await all_notes() == [[], noted, noted, []]


async def test_a_wider_limit_changes_nothing_where_another_one_is_reached(alice: Any) -> None:
    tool, _ = await set_up(alice)
    real = await run_in_database(factories.limit, "1/d", tool)
    await run_in_database(factories.limit, "1/d")
    await try_limit("3/d", tool, replaces=real)
    await attempt(alice, EMEA)
    with pytest.raises(LimitReached):
        await attempt(alice, EMEA)
    assert await all_notes() == [[], []]


# --- prompts and resources -------------------------------------------------------------------------------------------


async def test_prompts_and_resources_have_notes_too(alice: Any, charlie: Any) -> None:
    says = [{"role": "user", "content": {"type": "text", "text": "Look at {region}."}}]
    prompt = await run_in_database(factories.make_prompt, arguments=[{"name": "region"}], messages=says)
    template = await run_in_database(
        factories.make_resource, uri_template="file:///{region}", text="The same everywhere."
    )
    granted = await run_in_database(factories.grant, alice, prompt, template)
    assert granted.resource_id == template.pk
    denied = await try_grant(alice, prompt, effect="deny", conditions=ONLY_EMEA)
    hidden = await try_grant(alice, template, conditions=ONLY_EMEA, replaces=granted)
    opened = await try_grant(charlie, prompt, template)
    first = await Grant.everything.filter(user=charlie, prompt=prompt).aget()
    for values in (EMEA, APAC):
        await prompts.get_prompt(caller(alice), prompt.name, dict(values), RecordingChannel())
        await resources.read_resource(caller(alice), f"file:///{values['region']}", RecordingChannel())
    with pytest.raises(UnknownPrompt):
        await prompts.get_prompt(caller(charlie), prompt.name, dict(EMEA), RecordingChannel())
    with pytest.raises(UnknownResource):
        await resources.read_resource(caller(charlie), "file:///emea", RecordingChannel())
    assert await all_notes() == [
        [["grant", denied.pk, "allow", "deny"]], [], [], [["grant", hidden.pk, "allow", "deny"]],
        [["grant", first.pk, "deny", "allow"]], [["grant", opened.pk, "deny", "allow"]],
    ]  # fmt: skip


async def test_a_rule_that_takes_too_long_is_not_tried_and_the_call_runs(
    alice: Any, caplog: pytest.LogCaptureFixture
) -> None:
    costly = {"path": "/note", "op": "pattern", "pattern": "(?:a{0,30}b{0,30}c{0,30}){1,9}$"}
    tool = await run_in_database(publish, alice, NAME, max_argument_bytes=2_000_000)
    await try_grant(alice, tool, effect="deny", conditions=[costly])
    await attempt(alice, {**EMEA, "note": "abd" * 300_000})
    assert tools.RAN == [NAME] and await all_notes() == [[]]
    assert f"rules in trial could not be tried on calls of {NAME}: BudgetError" in caplog.text


# --- who reads it ----------------------------------------------------------------------------------------------------


async def test_the_caller_reads_nothing_of_it(alice: Any, client: Any) -> None:
    tool, _ = await set_up(alice)
    await try_grant(alice, tool, effect="deny")
    result = await attempt(alice, EMEA)
    assert "trial" not in json.dumps([result.content, result.structured, dict(result.meta or {})], default=str)
