"""Calls that ask a person before they run, at the protocol: tasks, questions, answers that nobody asked for."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from audit.models import Call
from catalog.models import Approval
from tests import factories
from tests.catalog.approvals.waiting import approve, deny, make_rule, newest
from tests.polling import wait_until_async
from tests.server.conftest import ASKABLE, TASKS, Client, modern, refresh_catalogue, run_in_database, text, token
from toolhub.wire.meta import APPROVAL, CALL_ID

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("hub")]
SUM = {"a": 2, "b": 3}


@pytest.fixture
async def tool(alice: User, publish: Any) -> Any:
    made = await run_in_database(publish, alice, "server_add")
    await refresh_catalogue()
    return made


@pytest.fixture
def approvers(bob: User) -> Any:
    return factories.make_group("approvers", [bob])


async def add_rule(*args: Any, **fields: Any) -> None:
    await run_in_database(lambda: make_rule(*args, **fields))
    await refresh_catalogue()


async def start_task(client: Client) -> str:
    result = (await client.call("server_add", SUM))["result"]
    assert result["resultType"] == "task", result
    return str(result["taskId"])


async def wait_for(client: Client, task_id: str, *statuses: str) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        found = await client.result("tasks/get", {"taskId": task_id})
        return found if found["status"] in statuses else None

    found = await wait_until_async(look)
    assert found is not None
    return found


async def test_a_client_that_knows_tasks_gets_one_while_others_decide(
    alice: User, bob: User, tool: Any, approvers: Any
) -> None:
    await add_rule(tool, approvers)
    client = modern(await token(alice), {**ASKABLE, **TASKS})
    task_id = await start_task(client)

    async def said() -> bool:
        found = await client.result("tasks/get", {"taskId": task_id})
        return found["status"] == "working" and found.get("statusMessage", "").startswith("Waiting for approval by")

    await wait_until_async(said)
    await approve(bob)
    done = await wait_for(client, task_id, "completed")
    assert done["result"]["content"][0]["text"] == "5"
    assert str((await newest()).used_by) == task_id


async def test_a_denied_task_ends_with_the_reason(alice: User, bob: User, tool: Any, approvers: Any) -> None:
    await add_rule(tool, approvers)
    client = modern(await token(alice), {**ASKABLE, **TASKS})
    task_id = await start_task(client)
    await wait_until_async(lambda: Approval.objects.aexists())
    await deny(bob, "Not today.")
    done = await wait_for(client, task_id, "completed")
    assert done["result"]["isError"] and "bob denied this call: Not today." in done["result"]["content"][0]["text"]


async def test_a_cancelled_task_withdraws_its_request(alice: User, tool: Any, approvers: Any) -> None:
    await add_rule(tool, approvers)
    client = modern(await token(alice), {**ASKABLE, **TASKS})
    task_id = await start_task(client)
    await client.result("tasks/cancel", {"taskId": task_id})
    await wait_for(client, task_id, "cancelled")

    async def is_withdrawn() -> bool:
        return (await newest()).state == "withdrawn"

    await wait_until_async(is_withdrawn)


async def test_a_rule_for_the_person_alone_makes_no_task_of_a_call(alice: User, tool: Any) -> None:
    await add_rule(tool)
    client = modern(await token(alice), {**ASKABLE, **TASKS})
    result = (await client.call("server_add", SUM))["result"]
    assert result["resultType"] == "input_required"
    (question,) = result["inputRequests"].values()
    assert question["params"]["mode"] == "url"
    assert question["params"]["url"].endswith(f"/approvals/{(await newest()).pk}/")


async def test_the_answer_to_a_link_waits_for_the_page_and_a_refusal_denies(alice: User, bob: User, tool: Any) -> None:
    await add_rule(tool)
    client = modern(await token(alice))
    first = (await client.call("server_add", SUM))["result"]
    (key,) = first["inputRequests"]
    again = {"requestState": first["requestState"], "inputResponses": {key: {"action": "accept"}}}
    waiting = client.start("tools/call", {"name": "server_add", "arguments": SUM, **again})

    async def waits_again() -> bool:
        return await Call.objects.filter(outcome="waiting").acount() == 2

    await wait_until_async(waits_again)
    assert not waiting.done() and (await newest()).state == "waiting"
    await approve(alice)
    assert text(await waiting) == "5"
    declined = {"requestState": first["requestState"], "inputResponses": {key: {"action": "decline"}}}
    second = (await client.call("server_add", SUM))["result"]
    (other,) = second["inputRequests"]
    assert other != key, "a used approval answers nothing more"
    declined = {"requestState": second["requestState"], "inputResponses": {other: {"action": "decline"}}}
    denied = (await client.call("server_add", SUM, **declined))["result"]
    assert denied["isError"] and "alice denied this call" in denied["content"][0]["text"]


@pytest.mark.parametrize("key", ["approval", "approval_0123456789abcdef0123456789abcdef", "run"])
async def test_an_answer_that_nobody_asked_for_approves_nothing(alice: User, tool: Any, key: str) -> None:
    await run_in_database(lambda: type(tool).objects.filter(pk=tool.pk).update(destructive=False))
    await add_rule(tool, accepts_client=True)
    client = modern(await token(alice))
    answers = {"inputResponses": {key: {"action": "accept", "content": {"run": True}}}}
    result = (await client.call("server_add", SUM, **answers))["result"]
    assert result["resultType"] == "input_required"
    assert (await newest()).state == "waiting"


async def test_the_answer_names_the_request_for_programs_too(alice: User, bob: User, tool: Any, approvers: Any) -> None:
    await add_rule(tool, approvers)
    client = modern(await token(alice), {})
    call = client.start("tools/call", {"name": "server_add", "arguments": SUM})
    await wait_until_async(lambda: Approval.objects.aexists())
    await deny(bob, "No.")
    meta = (await call)["result"]["_meta"]
    row = await newest()
    assert meta[APPROVAL] == {"status": "denied", "url": meta[APPROVAL]["url"]}
    assert meta[APPROVAL]["url"].endswith(f"/approvals/{row.pk}/")
    last = await Call.objects.order_by("-id").afirst()
    assert last is not None and meta[CALL_ID] == str(last.pk)


# --- tools that ask their own questions, in rounds -------------------------------------------------------------------


NAMED = {"action": "accept", "content": {"name": "Ada"}}


@pytest.fixture
async def asking(alice: User, approvers: Any, publish: Any) -> Client:
    """A client of alice, with a tool that asks for a name and needs an approval."""
    made = await run_in_database(publish, alice, "server_ask_name")
    await add_rule(made, approvers)
    return modern(await token(alice))


async def start_round(client: Client, bob: User) -> dict[str, Any]:
    """The first round of an approved call: what the tool asks."""
    call = client.start("tools/call", {"name": "server_ask_name", "arguments": {}})
    await wait_until_async(lambda: Approval.objects.filter(state="waiting").aexists())
    await approve(bob)
    found: dict[str, Any] = (await call)["result"]
    assert found["resultType"] == "input_required", found
    return found


def answer_of(asked: dict[str, Any]) -> dict[str, Any]:
    responses = dict.fromkeys(asked["inputRequests"], NAMED)
    return {"requestState": asked["requestState"], "inputResponses": responses}


async def test_the_next_round_of_an_approved_call_asks_nobody_again(asking: Client, bob: User) -> None:
    asked = await start_round(asking, bob)
    first = (await newest()).used_by
    assert "Ada" in text(await asking.call("server_ask_name", {}, **answer_of(asked)))
    row = await newest()
    assert row.state == "used" and row.used_by not in (None, first) and await Approval.objects.acount() == 1


async def test_a_round_that_was_answered_is_not_answered_twice(asking: Client, bob: User) -> None:
    asked = await start_round(asking, bob)
    answers = answer_of(asked)
    await asking.call("server_ask_name", {}, **answers)
    again = asking.start("tools/call", {"name": "server_ask_name", "arguments": {}, **answers})
    await wait_until_async(lambda: Approval.objects.filter(state="waiting").aexists())
    await deny(bob, "No.")
    assert "bob denied this call" in text(await again)


@pytest.mark.parametrize("change", ["deactivated", "removed", "over", "written"])
async def test_a_round_goes_on_only_while_its_approval_holds(
    asking: Client, bob: User, approvers: Any, change: str
) -> None:
    asked = await start_round(asking, bob)
    row = await newest()

    def work() -> None:
        if change == "deactivated":
            User.objects.filter(pk=bob.pk).update(is_active=False)
        elif change == "removed":
            approvers.user_set.remove(bob)
        elif change == "over":
            Approval.objects.filter(pk=row.pk).update(expires=row.created)
        else:
            Approval.objects.filter(pk=row.pk).update(client="another")

    await run_in_database(work)
    await refresh_catalogue()
    call = asking.start("tools/call", {"name": "server_ask_name", "arguments": {}, **answer_of(asked)})
    await wait_until_async(lambda: Approval.objects.filter(state="waiting").aexists())
    call.cancel()
