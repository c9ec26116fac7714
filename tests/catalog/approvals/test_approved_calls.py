"""Calls that ask before they run: what the client reads, what is in the log, and when the tool runs."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone

from audit import outcomes
from audit.models import Action
from catalog.approvals import decisions, inbox, requests
from catalog.calls import approval_answers, approval_wait, tasks
from catalog.errors import CLIENT_GONE, InvalidArguments, LimitReached, NeedsInput, NotApproved, UnknownTool
from catalog.models import Approval, ApprovalRule, KnownValue, Task, Tool
from tests import factories
from tests.catalog import tools
from tests.catalog.approvals.waiting import (
    ARGUMENTS,
    NAME,
    approve,
    ask,
    attempt,
    change,
    deny,
    make_rule,
    newest,
    start,
)
from tests.catalog.pipeline import MODERN, RecordingChannel, call, logged_calls, publish, run_in_database, text
from tests.polling import wait_until_async
from toolhub.parts import parts

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _clear_runs() -> None:
    tools.RAN.clear()


@pytest.fixture
def approvers(bob: Any) -> Any:
    return factories.make_group("approvers", [bob])


async def set_up(alice: Any, group: Any = None, **fields: Any) -> ApprovalRule:
    """The tool of tickets, granted to alice, with a rule that asks the group, or her."""
    tool = await run_in_database(publish, alice, NAME)
    return await run_in_database(make_rule, tool, group, **fields)


# --- before anything is asked --------------------------------------------------------------------------------------


async def test_nobody_is_asked_about_a_call_that_is_denied_or_invalid(alice: Any, charlie: Any, approvers: Any) -> None:
    await set_up(alice, approvers)
    with pytest.raises(UnknownTool):
        await attempt(charlie)
    with pytest.raises(InvalidArguments):
        await attempt(alice, {"region": 7})
    assert not await Approval.objects.aexists()
    assert [row.outcome for row in await logged_calls()] == [outcomes.REFUSED, outcomes.INVALID_ARGUMENTS]


async def test_a_rule_that_does_not_apply_asks_nobody(alice: Any, approvers: Any) -> None:
    large = {"path": "/amount", "op": "range", "exclusiveMinimum": 1000}
    rule = await set_up(alice, approvers, conditions=[large])
    await attempt(alice, {"region": "emea", "amount": 1000})
    assert "has not run" in str(await ask(alice, {"region": "emea", "amount": 1001}))
    await run_in_database(ApprovalRule.objects.filter(pk=rule.pk).update, enabled=False)
    await attempt(alice, {"region": "emea", "amount": 1002})
    assert tools.RAN == [NAME, NAME]


# --- asking, without a wait ----------------------------------------------------------------------------------------


async def test_a_call_that_waits_says_who_decides_and_where_and_is_in_the_log(alice: Any, approvers: Any) -> None:
    await set_up(alice, approvers)
    waiting = await ask(alice)
    row = await newest()
    assert waiting.status == "waiting" and waiting.link.endswith(f"/approvals/{row.pk}/")
    for part in ("has not run", "the group approvers", "Tickets need a second person", waiting.link, "same arguments"):
        assert part in str(waiting)
    (logged,) = await logged_calls()
    assert (logged.outcome, logged.pk) == (outcomes.WAITING, row.call_id) and str(logged.pk) in str(waiting)
    assert json.loads(logged.arguments) == json.loads(row.arguments) == ARGUMENTS
    assert json.loads(logged.detail_reason) == ["approval.waiting", {"rules": "Tickets need a second person"}]


async def test_the_same_call_finds_its_request_and_another_one_asks_again(alice: Any, approvers: Any) -> None:
    await set_up(alice, approvers)
    first = await ask(alice)
    assert (await ask(alice, {"amount": 7, "region": "emea"})).link == first.link
    assert (await ask(alice, {"region": "emea", "amount": 8})).link != first.link
    assert await Approval.objects.acount() == 2
    assert [row.outcome for row in await logged_calls()] == [outcomes.WAITING] * 3


async def test_an_approval_runs_one_call_with_these_arguments_and_is_named_in_the_log(
    alice: Any, bob: Any, approvers: Any
) -> None:
    await set_up(alice, approvers)
    await ask(alice)
    granted = await approve(bob)
    assert json.loads(text(await attempt(alice)))["amount"] == 7
    await ask(alice)
    assert tools.RAN == [NAME]
    waited, ran, _again = await logged_calls()
    used = await Approval.objects.aget(pk=granted.pk)
    assert (used.state, used.call_id, used.used_by) == ("used", waited.pk, ran.pk)
    assert ran.outcome == outcomes.OK and ran.rule.endswith("to user alice, approved by bob")
    code, params = json.loads(ran.rule_reason)
    assert (code, params["approved_by"], params["approvals"]) == ("rule.grant", "bob", [str(granted.pk)])
    verbs = [action.verb async for action in Action.objects.filter(kind=requests.KIND).order_by("id")]
    assert verbs == ["approved", "used"]


async def test_a_denial_tells_the_model_why_and_stands_for_a_while(alice: Any, bob: Any, approvers: Any) -> None:
    await set_up(alice, approvers)
    await ask(alice)
    row = await deny(bob, "Use the test region")
    for _ in range(2):
        denied = await ask(alice)
        assert denied.status == "denied"
        assert "bob denied this call: Use the test region. It has not run." in str(denied)
    assert await Approval.objects.acount() == 1
    assert [call.outcome for call in await logged_calls()][1:] == [outcomes.APPROVAL_DENIED] * 2
    later = timezone.now() - timedelta(seconds=1)
    await Approval.objects.filter(pk=row.pk).aupdate(expires=later)
    assert (await ask(alice)).status == "waiting"


async def test_who_tries_to_decide_what_is_not_theirs_is_in_the_log(
    alice: Any, bob: Any, charlie: Any, approvers: Any
) -> None:
    await run_in_database(approvers.user_set.add, alice)
    await set_up(alice, approvers)
    await ask(alice)
    for person, code in ((charlie, "gone"), (alice, "own")):
        for decide in (approve, deny):
            with pytest.raises(decisions.Refused, match=code):
                await decide(person)
    tried = [action async for action in Action.objects.filter(verb="failed to decide about").order_by("id")]
    assert [action.actor for action in tried] == ["charlie", "charlie", "alice", "alice"]
    number = str((await newest()).pk)
    assert all(number in action.target for action in tried)
    with pytest.raises(decisions.Refused, match="gone"):
        await approve(charlie, Approval(pk=uuid4()))
    assert await Action.objects.filter(verb="failed to decide about").acount() == 4, "there is nothing to name"


async def test_an_approval_is_over_with_its_time_and_the_call_asks_anew(alice: Any, bob: Any, approvers: Any) -> None:
    await set_up(alice, approvers, minutes=1)
    await ask(alice)
    row = await approve(bob)
    assert timedelta(seconds=50) < row.expires - timezone.now() <= timedelta(minutes=1)
    assert await run_in_database(requests.expire, row.expires - timedelta(milliseconds=1)) == 0
    assert await run_in_database(requests.expire, row.expires) == 1
    assert (await ask(alice)).link != approval_answers.link(row)
    last = await Action.objects.filter(kind=requests.KIND).order_by("-id").afirst()
    assert last is not None and (last.verb, last.actor) == ("expired", "toolhub")


async def test_requests_go_with_the_calls_that_retention_removes(
    alice: Any, bob: Any, approvers: Any, settings: Any
) -> None:
    await set_up(alice, approvers)
    await ask(alice)
    await deny(bob)
    await ask(alice, {"region": "apac"})
    far = timezone.now() + timedelta(days=400)
    assert await run_in_database(requests.remove_old, far) == 0, "without retention everything stays"
    settings.KEEP_CALLS_DAYS = 30
    assert await run_in_database(requests.remove_old, timezone.now() + timedelta(days=29)) == 0
    assert await run_in_database(requests.remove_old, far) == 1
    assert (await newest()).state == "waiting", "what still waits is ended first"


async def test_rate_limits_count_calls_that_run_not_those_that_wait(alice: Any, bob: Any, approvers: Any) -> None:
    await set_up(alice, approvers)
    tool = await Tool.objects.aget(name=NAME)
    await run_in_database(factories.limit, "1/h", tool)
    for _ in range(3):
        await ask(alice)
    await approve(bob)
    await attempt(alice)
    await ask(alice)
    await approve(bob)
    with pytest.raises(LimitReached):
        await attempt(alice)
    assert (await newest()).state == "approved", "a call that the limit denied uses no approval"
    assert tools.RAN == [NAME]


async def test_every_rule_that_applies_asks_its_own_people(alice: Any, bob: Any, charlie: Any, approvers: Any) -> None:
    rule = await set_up(alice, approvers)
    others = await run_in_database(factories.make_group, "owners", [charlie])
    await run_in_database(make_rule, None, others, name="Everything needs an owner")
    waiting = await ask(alice)
    assert "the group approvers and the group owners" in str(waiting)
    first, second = [row async for row in Approval.objects.order_by("rule_id")]
    assert first.rule_id == rule.pk
    await approve(bob, first)
    assert "the group owners" in str(await ask(alice)) and tools.RAN == []
    await approve(charlie, second)
    await attempt(alice)
    assert tools.RAN == [NAME]
    assert (await logged_calls())[-1].rule.endswith("approved by bob, charlie")


async def test_a_rule_for_the_first_time_asks_once_for_each_person_and_value(
    alice: Any, bob: Any, charlie: Any, approvers: Any
) -> None:
    await set_up(alice, approvers, first_time="/region")
    await run_in_database(lambda: factories.grant(charlie, Tool.objects.get(name=NAME)))
    await ask(alice)
    await ask(alice, {"region": "emea", "amount": 8})
    row = await Approval.objects.order_by("created").afirst()
    await approve(bob, row)
    await ask(alice, {"region": "emea", "amount": 8})
    await attempt(alice)
    await attempt(alice, {"region": "emea", "amount": 9})
    await ask(alice, {"region": "apac", "amount": 9})
    await ask(charlie)
    assert tools.RAN == [NAME, NAME]
    await run_in_database(KnownValue.objects.update, digest="0" * 64)
    await ask(alice, {"region": "emea", "amount": 10})


@pytest.mark.parametrize("path", ["region", "/nothing", "/sender/*", "/" + "x/" * 9])
async def test_a_rule_for_the_first_time_names_one_argument_of_the_tool(alice: Any, approvers: Any, path: str) -> None:
    with pytest.raises(ValidationError) as refused:
        await set_up(alice, approvers, first_time=path)
    assert list(refused.value.message_dict) == ["first_time"]


async def test_one_person_has_at_most_twenty_requests_that_wait(alice: Any, approvers: Any) -> None:
    await set_up(alice, approvers)
    for number in range(requests.MAX_PENDING):
        await ask(alice, {"region": "emea", "amount": number})
    assert await Approval.objects.acount() == requests.MAX_PENDING
    refused = await ask(alice, {"region": "emea", "amount": 99})
    assert "20 calls of this user wait" in str(refused) and refused.status == "denied"
    assert await Approval.objects.acount() == requests.MAX_PENDING
    assert (await logged_calls())[-1].outcome == outcomes.LIMITED
    assert (await ask(alice, {"region": "emea", "amount": 1})).status == "waiting"


async def test_approvers_read_no_secret_argument(alice: Any, bob: Any, approvers: Any) -> None:
    schema = {
        "type": "object",
        "properties": {"region": {"type": "string"}, "note": {"type": "string", "x-secret": True}},
        "required": ["region"],
    }
    await run_in_database(publish, alice, NAME, input_schema=schema)
    tool = await Tool.objects.aget(name=NAME)
    await run_in_database(make_rule, tool, approvers)
    await ask(alice, {"region": "emea", "note": "open sesame"})
    row = await newest()
    assert "sesame" not in row.arguments and "emea" in row.arguments
    await approve(bob)
    await ask(alice, {"region": "emea", "note": "open sesamo"})
    assert json.loads(text(await attempt(alice, {"region": "emea", "note": "open sesame"})))["note"] == "open sesame"


# --- a request that waits ------------------------------------------------------------------------------------------


async def test_a_call_that_waits_runs_when_it_is_approved(alice: Any, bob: Any, approvers: Any) -> None:
    await set_up(alice, approvers)
    channel = RecordingChannel()
    task = await start(alice, channel=channel)
    await wait_until_async(lambda: channel.reports)
    await approve(bob)
    assert json.loads(text(await task))["region"] == "emea"
    assert channel.reports[0][2] == "Waiting for approval by the group approvers" and channel.reports[0][0] < 0.001
    assert [row.outcome for row in await logged_calls()] == [outcomes.WAITING, outcomes.OK]


async def test_a_call_that_waits_hears_of_a_denial(alice: Any, bob: Any, approvers: Any) -> None:
    await set_up(alice, approvers)
    task = await start(alice)
    await deny(bob, "No.")
    with pytest.raises(NotApproved, match="bob denied this call: No"):
        await task
    assert tools.RAN == []
    assert [row.outcome for row in await logged_calls()] == [outcomes.WAITING, outcomes.APPROVAL_DENIED]


async def test_a_request_outlives_the_client_that_left_and_its_next_call_finds_it(
    alice: Any, bob: Any, approvers: Any
) -> None:
    await set_up(alice, approvers)
    task = await start(alice)
    CLIENT_GONE.cancel(task)
    with pytest.raises(asyncio.CancelledError):
        await task
    await approve(bob)
    await attempt(alice)
    assert tools.RAN == [NAME] and await Approval.objects.acount() == 1


async def test_two_calls_that_wait_for_one_approval_run_once(alice: Any, bob: Any, approvers: Any) -> None:
    await set_up(alice, approvers)
    first = await start(alice)
    second = asyncio.ensure_future(call(alice, NAME, dict(ARGUMENTS)))
    await wait_until_async(lambda: has_logged(2))
    await approve(bob)
    ended = await asyncio.gather(first, second, return_exceptions=True)
    assert sorted(type(one).__name__ for one in ended) == ["NotApproved", "ToolResult"]
    assert tools.RAN == [NAME] and await Approval.objects.acount() == 1


async def has_logged(count: int) -> bool:
    return len(await logged_calls()) >= count


async def test_a_call_is_decided_again_after_the_wait(alice: Any, bob: Any, approvers: Any) -> None:
    await set_up(alice, approvers)
    task = await start(alice)
    await approve(bob)
    await change(Tool.objects.filter(name=NAME).update, enabled=False)
    with pytest.raises(UnknownTool):
        await task
    assert tools.RAN == []


async def test_a_task_waits_with_a_message_and_its_cancellation_withdraws_the_request(
    alice: Any, approvers: Any
) -> None:
    await set_up(alice, approvers)
    announced: list[Any] = []

    async def begun(number: Any) -> None:
        announced.append(number)

    task = await start(alice, begun=begun, detached=True)
    await wait_until_async(lambda: announced)
    assert not [row for row in await logged_calls() if row.pk in announced]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await newest()).state == "withdrawn" and tools.RAN == []


async def test_a_task_runs_under_the_id_that_it_was_announced_with(alice: Any, bob: Any, approvers: Any) -> None:
    await set_up(alice, approvers)
    announced: list[Any] = []

    async def begun(number: Any) -> None:
        announced.append(number)

    task = await start(alice, begun=begun, detached=True)
    await approve(bob)
    assert (await task).call_id == announced[0] and len(announced) == 1
    assert (await newest()).used_by == announced[0]


async def test_a_waiting_task_is_abandoned_only_when_its_worker_no_longer_says_so(alice: Any, approvers: Any) -> None:
    assert tasks.WAITING_GRACE_PERIOD.total_seconds() > approval_wait.PROGRESS_SECONDS * 5
    number = uuid4()
    await tasks.create(number, alice.pk, "token:1", NAME, "w1")
    await tasks.set_message(number, f"{tasks.WAITING_MESSAGE} by the group approvers")
    for seconds, abandoned in ((59, 0), (61, 1)):
        await Task.objects.filter(pk=number).aupdate(updated_at=timezone.now() - timedelta(seconds=seconds))
        assert await tasks.end_abandoned() == abandoned


async def test_a_call_that_waits_ends_with_its_process_and_its_request_stays(alice: Any, approvers: Any) -> None:
    await set_up(alice, approvers)
    task = await start(alice)
    waits = parts.get(approval_wait.Waits)
    try:
        waits.are_over = True
        with pytest.raises(NotApproved, match="waits for approval by the group approvers"):
            await task
    finally:
        waits.are_over = False
    assert (await newest()).state == "waiting"


# --- the person themself -------------------------------------------------------------------------------------------


async def test_the_person_confirms_in_the_client_where_the_rule_accepts_that(alice: Any) -> None:
    await set_up(alice, accepts_client=True)
    tool = await Tool.objects.aget(name=NAME)
    await run_in_database(Tool.objects.filter(pk=tool.pk).update, destructive=False)
    channel = AnsweringChannel({"action": "accept", "content": {"run": True}})
    task = await start(alice, channel=channel)
    assert json.loads(text(await task))["amount"] == 7
    (question,) = channel.asked[0].values()
    assert question[0] == "elicitation/create" and question[1]["mode"] == "form"
    assert '"amount":7' in question[1]["message"]
    row = await newest()
    assert (row.state, row.by_client, row.decided_by_name) == ("used", True, "alice")


@pytest.mark.parametrize(
    "answer", [{"action": "decline"}, {"action": "accept", "content": {"run": False}}, {"action": "accept"}]
)
async def test_the_person_declines_in_the_client(alice: Any, answer: dict[str, Any]) -> None:
    await set_up(alice, accepts_client=True)
    await run_in_database(Tool.objects.filter(name=NAME).update, destructive=False)
    with pytest.raises(NotApproved, match="alice denied this call"):
        await (await start(alice, channel=AnsweringChannel(answer)))
    assert tools.RAN == []


async def test_a_destructive_tool_asks_in_the_browser_whatever_the_rule_accepts(alice: Any) -> None:
    await set_up(alice, accepts_client=True)
    channel = AnsweringChannel({"action": "accept", "content": {"run": True}})
    task = await start(alice, channel=channel)
    await wait_until_async(lambda: channel.asked)
    (question,) = channel.asked[0].values()
    assert question[1]["mode"] == "url" and question[1]["url"].endswith(f"/approvals/{(await newest()).pk}/")
    assert question[1]["elicitationId"]
    assert (await newest()).state == "waiting" and tools.RAN == []
    await approve(alice)
    await task
    row = await newest()
    assert (row.state, row.by_client) == ("used", False)


async def test_a_client_that_cannot_be_asked_waits_for_the_page(alice: Any) -> None:
    await set_up(alice, accepts_client=True)
    task = await start(alice, channel=RecordingChannel(capabilities={}))
    await approve(alice)
    await task
    assert tools.RAN == [NAME]


async def test_the_stateless_client_gets_the_question_and_brings_the_answer(alice: Any) -> None:
    await set_up(alice, accepts_client=True)
    await run_in_database(Tool.objects.filter(name=NAME).update, destructive=False)
    with pytest.raises(NeedsInput) as needs:
        await (await start(alice, channel=RecordingChannel(modern=True), revision=MODERN))
    (key,) = needs.value.requests
    assert key == f"approval_{(await newest()).pk.hex}" and needs.value.call_id == (await newest()).call_id
    answers = {key: {"action": "accept", "content": {"run": True}}}
    result = await call(alice, NAME, dict(ARGUMENTS), RecordingChannel(modern=True, answers=answers), revision=MODERN)
    assert json.loads(text(result))["region"] == "emea"
    assert [row.outcome for row in await logged_calls()] == [outcomes.WAITING, outcomes.WAITING, outcomes.OK]


async def test_the_inbox_has_what_one_may_decide_and_nothing_else(alice: Any, bob: Any, approvers: Any) -> None:
    await set_up(alice, approvers)
    await ask(alice)
    row = await newest()

    def lists(user: Any) -> tuple[list[Any], list[Any]]:
        return [one.pk for one in inbox.waiting_for(user)], [one.pk for one in inbox.own_open(user)]

    assert await run_in_database(lists, bob) == ([row.pk], [])
    assert await run_in_database(lists, alice) == ([], [row.pk])
    await run_in_database(approvers.user_set.add, alice)
    assert await run_in_database(lists, alice) == ([], [row.pk])
    await run_in_database(approvers.user_set.remove, bob)
    assert await run_in_database(lists, bob) == ([], [])


class AnsweringChannel(RecordingChannel):
    """A channel whose client gives the same answer to every question."""

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__()
        self._answer = answer

    async def ask(self, requests: Any) -> dict[str, dict[str, Any]]:
        self.asked.append(dict(requests))
        return dict.fromkeys(requests, self._answer)
