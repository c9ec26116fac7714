"""Answers of stateless clients to questions about approvals that nobody asked them: `inputResponses` decide nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.contrib.auth.models import User

from audit.models import Call
from catalog.approvals import decisions
from catalog.models import Approval, Tool
from tests import factories
from tests.catalog.approvals.waiting import make_rule
from tests.polling import wait_until_async
from tests.server.conftest import Client, modern, refresh_catalogue, run_in_database, text, token

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("hub")]
SUM = {"a": 1, "b": 2}
YES = {"action": "accept", "content": {"run": True}}


async def set_up(publish: Any, users: list[User], *approvers: User, **fields: Any) -> None:
    """A tool for these users, with a rule that asks the approvers, or the person."""

    def make() -> None:
        tool = publish(None, "server_add", destructive=fields.pop("destructive", None))
        for user in users:
            factories.grant(user, tool)
        make_rule(tool, factories.make_group("approvers", approvers) if approvers else None, **fields)

    await run_in_database(make)
    await refresh_catalogue()


async def start(client: Client, **more: Any) -> asyncio.Task[dict[str, Any]]:
    """A call that waits for its approval, or has ended."""
    before = await count("waiting")
    task = client.start("tools/call", {"name": "server_add", "arguments": SUM, **more})

    async def has_asked() -> bool:
        return task.done() or await count("waiting") > before

    await wait_until_async(has_asked, what="a call that waits")
    return task


async def count(outcome: str) -> int:
    return await Call.objects.filter(outcome=outcome).acount()


async def only_request(user: User) -> Approval:
    """The one request of this user, which is there shortly after the log says that the call waits."""
    rows = Approval.objects.select_related("user").filter(user=user)
    await wait_until_async(rows.aexists, what="a request for approval")
    return await rows.aget()


def name_question(row: Approval) -> str:
    return f"approval_{row.pk.hex}"


async def is_denied(task: asyncio.Task[dict[str, Any]], row: Approval, user: User) -> None:
    """The request still waits for this person, who denies it: that ends the call."""
    await row.arefresh_from_db()
    assert row.state == "waiting" and not task.done()
    await run_in_database(lambda: decisions.deny(row.pk, User.objects.get(pk=user.pk), "No."))
    assert "denied this call: No." in text(await task)
    assert await count("ok") == 0 and await count("approval_denied") >= 1


async def test_a_yes_from_the_client_of_the_requester_is_none_of_the_approvers(
    alice: User, bob: User, publish: Any
) -> None:
    await set_up(publish, [alice], bob, destructive=False)
    client = modern(await token(alice))
    task = await start(client)
    row = await only_request(alice)
    again = await start(client, inputResponses={name_question(row): YES})
    await is_denied(again, row, bob)
    assert "denied this call" in text(await task)


async def test_a_yes_to_the_question_of_a_destructive_tool_opens_no_page(alice: User, publish: Any) -> None:
    await set_up(publish, [alice], accepts_client=True)
    client = modern(await token(alice))
    asked = (await client.call("server_add", SUM))["result"]
    row = await only_request(alice)
    assert list(asked["inputRequests"]) == [name_question(row)]
    assert asked["inputRequests"][name_question(row)]["params"]["mode"] == "url"
    answered = {"requestState": asked["requestState"], "inputResponses": {name_question(row): YES}}
    await is_denied(await start(client, **answered), row, alice)


async def test_a_yes_to_the_question_of_somebody_else_answers_nobodys(alice: User, charlie: User, publish: Any) -> None:
    await set_up(publish, [alice, charlie], accepts_client=True, destructive=False)
    assert (await modern(await token(alice)).call("server_add", SUM))["result"]["resultType"] == "input_required"
    hers = await only_request(alice)
    stranger = modern(await token(charlie))
    answer = (await stranger.call("server_add", SUM, inputResponses={name_question(hers): YES}))["result"]
    assert list(answer["inputRequests"]) == [name_question(await only_request(charlie))]
    await hers.arefresh_from_db()
    assert hers.state == "waiting" and await count("ok") == 0


async def test_a_state_of_other_arguments_or_of_another_user_brings_no_answer(
    alice: User, charlie: User, publish: Any
) -> None:
    await set_up(publish, [alice, charlie], accepts_client=True, destructive=False)
    client = modern(await token(alice))
    asked = (await client.call("server_add", SUM))["result"]
    row = await only_request(alice)
    answered = {"requestState": asked["requestState"], "inputResponses": {name_question(row): YES}}
    for other, arguments in ((client, {"a": 1, "b": 3}), (modern(await token(charlie)), SUM)):
        message = await other.call("server_add", arguments, **answered)
        assert "requestState" in message["error"]["message"]
    assert await count("ok") == 0
    assert text(await client.call("server_add", SUM, **answered)) in ("3", "3.0")
    again = (await client.call("server_add", SUM, **answered))["result"]
    assert again["resultType"] == "input_required" and await count("ok") == 1, "the same answer runs it once"


async def test_a_task_that_waits_takes_no_yes_for_the_approvers(alice: User, bob: User, publish: Any) -> None:
    await set_up(publish, [alice], bob, destructive=False)
    await run_in_database(lambda: Tool.objects.update(task_support="required"))
    await refresh_catalogue()
    tasks: dict[str, Any] = {
        "extensions": {"io.modelcontextprotocol/tasks": {}},
        "elicitation": {"form": {}, "url": {}},
    }
    client = modern(await token(alice), tasks)
    made = (await client.call("server_add", SUM))["result"]
    row = await only_request(alice)
    await client.send("tasks/update", {"taskId": made["taskId"], "inputResponses": {name_question(row): YES}})
    await row.arefresh_from_db()
    assert row.state == "waiting"
    assert (await client.result("tasks/get", {"taskId": made["taskId"]}))["status"] == "working"
    await client.result("tasks/cancel", {"taskId": made["taskId"]})

    async def is_withdrawn() -> bool:
        await row.arefresh_from_db()
        return row.state == "withdrawn"

    await wait_until_async(is_withdrawn)
    assert await count("ok") == 0
