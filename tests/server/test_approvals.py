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
