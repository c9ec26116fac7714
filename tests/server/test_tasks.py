"""The tasks extension: calls that outlive their request, seen by their own user only."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError

from audit.models import Call
from audit.types import Credential
from catalog.calls import tasks as store
from catalog.errors import CLIENT_GONE
from tests import factories
from tests.polling import wait_until_async
from tests.server import functions
from tests.server.conftest import (
    ASKABLE,
    TASKS,
    Client,
    Outlet,
    modern,
    refresh_catalogue,
    run_in_database,
    server,
    text,
    token,
)
from toolhub.server import task_runner

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("hub")]

NAME = {"action": "accept", "content": {"name": "Ada"}}
OPTED: dict[str, Any] = {**ASKABLE, **TASKS}


@pytest.fixture
async def client(alice: User, publish: Any) -> Client:
    await run_in_database(
        publish,
        alice,
        "server_add",
        "server_wait",
        "server_refuse",
        "server_confirm",
        "server_two_questions",
        "server_must_be_task",
        "server_ask_then_task",
    )
    await refresh_catalogue()
    return modern(await token(alice), OPTED)


async def create_task(client: Client, name: str, arguments: dict[str, Any] | None = None, **more: Any) -> str:
    result = (await client.call(name, arguments, **more))["result"]
    assert result["resultType"] == "task", result
    found: str = result["taskId"]
    return found


async def wait_until_ended(client: Client, task_id: str) -> dict[str, Any]:
    return await wait_for_status(client, task_id, "completed", "failed", "cancelled")


async def wait_for_status(client: Client, task_id: str, *statuses: str) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        found = await client.result("tasks/get", {"taskId": task_id})
        return found if found["status"] in statuses else None

    found = await wait_until_async(look, what=f"{statuses}")
    assert found is not None
    return found


async def test_another_users_task_reads_like_one_that_never_was(client: Client, bob: User) -> None:
    task_id = await create_task(client, "server_confirm", {"filename": "a.txt"})
    stranger = modern(await token(bob), OPTED)
    for unknown in (task_id, str(uuid4()), "x", task_id.upper()):
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            error = await stranger.error(method, {"taskId": unknown, "inputResponses": {}})
            assert error == {"code": -32602, "message": "Invalid params: unknown task"}
    outlet = stranger.outlet()
    running = stranger.start("subscriptions/listen", {"notifications": {"taskIds": [task_id]}}, outlet=outlet)
    acknowledged = await outlet.first("notifications/subscriptions/acknowledged")
    assert "taskIds" not in acknowledged["params"]["notifications"]
    running.cancel()
    await asyncio.wait([running])
    assert (await client.result("tasks/get", {"taskId": task_id}))["status"] in ("working", "input_required")


async def test_a_strangers_real_answers_reach_no_task(client: Client, bob: User) -> None:
    task_id = await create_task(client, "server_confirm", {"filename": "a.txt"})
    await wait_for_status(client, task_id, "input_required")
    stranger = modern(await token(bob), OPTED)
    answers = {"confirm": {"action": "accept", "content": {"name": "Mallory"}}}
    error = await stranger.error("tasks/update", {"taskId": task_id, "inputResponses": answers})
    assert error == {"code": -32602, "message": "Invalid params: unknown task"}
    still = await client.result("tasks/get", {"taskId": task_id})
    assert still["status"] == "input_required" and list(still["inputRequests"]) == ["confirm"]
    await client.result("tasks/update", {"taskId": task_id, "inputResponses": {"confirm": {"action": "decline"}}})
    done = await wait_until_ended(client, task_id)
    assert "deleted" not in json.dumps(done)


async def test_without_opting_in_calls_run_in_place_and_tasks_are_out_of_reach(alice: User, client: Client) -> None:
    plain = modern(await token(alice))
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        error = await plain.error(method, {"taskId": "unknown"})
        assert error["code"] == -32021
        assert error["data"]["requiredCapabilities"]["extensions"] == {"io.modelcontextprotocol/tasks": {}}
    assert (await plain.error("tools/call", {"name": "server_must_be_task"}))["code"] == -32021
    assert (await plain.error("tools/call", {"name": "server_refuse"}))["code"] == -31000
    same = await client.call("server_add", {"a": 1, "b": 1}, task={"ttl": 1})
    assert same["result"]["resultType"] == "complete" and text(same) in ("2", "2.0")


async def test_a_task_can_be_read_at_once_and_ends_with_the_result_of_its_call(client: Client) -> None:
    result = (await client.call("server_must_be_task"))["result"]
    first = await client.result("tasks/get", {"taskId": result["taskId"]})
    assert first["createdAt"] == result["createdAt"] and first["ttlMs"] == result["ttlMs"] > 0
    done = await wait_until_ended(client, result["taskId"])
    assert done["status"] == "completed"
    assert done["result"]["isError"] is True and done["result"]["content"][0]["text"] == "It did not work out."
    call = await run_in_database(lambda: Call.objects.get(pk=UUID(result["taskId"])))
    assert call.outcome == "tool_error"
    assert await client.result("tasks/cancel", {"taskId": result["taskId"]}) is not None


async def test_an_error_of_the_protocol_fails_the_task(client: Client) -> None:
    done = await wait_until_ended(client, await create_task(client, "server_refuse"))
    assert done["status"] == "failed"
    assert done["error"] == {"code": -31000, "message": "Not today", "data": {"why": "holiday"}}


async def test_a_call_refused_before_it_begins_creates_no_task(client: Client) -> None:
    assert (await client.call("server_confirm", {}))["result"]["isError"] is True
    assert (await client.call("server_wait", {"label": 5}))["result"]["isError"] is True
    assert (await client.call("server_absent"))["error"]["message"] == "Unknown tool: server_absent"
    assert server().requests.count_running() == 0


async def test_a_running_task_is_cancelled_on_request(client: Client) -> None:
    functions.STARTED["task"] = asyncio.Event()
    task_id = await create_task(client, "server_wait", {"label": "task"})
    await functions.STARTED["task"].wait()
    await client.result("tasks/cancel", {"taskId": task_id})
    assert (await wait_until_ended(client, task_id))["status"] == "cancelled"
    assert functions.ENDED["task"] == "tasks/cancel"
    call = await run_in_database(lambda: Call.objects.get(pk=UUID(task_id)))
    assert call.outcome == "cancelled"


async def test_a_request_to_cancel_takes_effect_even_without_an_announcement(client: Client, alice: User) -> None:
    functions.STARTED["quiet"] = asyncio.Event()
    task_id = await create_task(client, "server_wait", {"label": "quiet"})
    await functions.STARTED["quiet"].wait()
    await store.request_cancel(factories.credential(alice), task_id)
    assert (await wait_until_ended(client, task_id))["status"] == "cancelled"


async def test_a_task_asks_and_goes_on_with_the_answer(client: Client) -> None:
    task_id = await create_task(client, "server_confirm", {"filename": "a.txt"})
    waiting = await wait_for_status(client, task_id, "input_required")
    assert waiting["inputRequests"]["confirm"]["method"] == "elicitation/create"
    await client.result("tasks/update", {"taskId": task_id, "inputResponses": {"nobody asked": NAME}})
    assert (await client.result("tasks/get", {"taskId": task_id}))["status"] == "input_required"
    await client.result("tasks/update", {"taskId": task_id, "inputResponses": {"confirm": NAME}})
    done = await wait_until_ended(client, task_id)
    assert done["result"]["content"][0]["text"] == "deleted a.txt"


async def test_of_two_questions_one_may_be_answered_first_and_without_an_announcement(
    client: Client, alice: User
) -> None:
    task_id = await create_task(client, "server_two_questions")
    assert set((await wait_for_status(client, task_id, "input_required"))["inputRequests"]) == {"one", "two"}
    await client.result("tasks/update", {"taskId": task_id, "inputResponses": {"two": NAME}})
    left = await client.result("tasks/get", {"taskId": task_id})
    assert left["status"] == "input_required" and list(left["inputRequests"]) == ["one"]
    bob = {"action": "accept", "content": {"name": "Bob"}}
    await store.answer(factories.credential(alice), task_id, {"one": bob, "two": bob})
    assert (await wait_until_ended(client, task_id))["result"]["content"][0]["text"] == "Bob Ada"


async def test_a_tool_that_asks_before_it_is_a_task_asks_in_its_result(client: Client) -> None:
    first = (await client.call("server_ask_then_task"))["result"]
    assert first["resultType"] == "input_required" and "taskId" not in first
    task_id = await create_task(
        client, "server_ask_then_task", requestState=first["requestState"], inputResponses={"user_name": NAME}
    )
    assert (await wait_until_ended(client, task_id))["result"]["content"][0]["text"] == "for Ada"


async def test_a_task_outlives_its_connection_and_not_its_users_access(client: Client, alice: User) -> None:
    connected = modern(await token(alice), OPTED, connection="ws-9")
    functions.STARTED["outlives"] = asyncio.Event()
    task_id = await create_task(connected, "server_wait", {"label": "outlives"})
    await functions.STARTED["outlives"].wait()
    server().requests.cancel_scope("ws-9", CLIENT_GONE)
    assert (await client.result("tasks/get", {"taskId": task_id}))["status"] == "working"
    await run_in_database(lambda: User.objects.filter(pk=alice.pk).update(is_active=False))
    await wait_until_async(lambda: server().requests.count_running() == 0)
    state = await store.get(factories.credential(alice), task_id)
    assert state is not None and state.status == "cancelled" and "revoked" in state.status_message


async def subscribe_to_waiting_task(client: Client, filename: str) -> tuple[str, Outlet, asyncio.Task[Any]]:
    """Return a task that waits for an answer, the outlet of a subscription to it, and the running subscription."""
    task_id = await create_task(client, "server_confirm", {"filename": filename})
    outlet = client.outlet()
    running = client.start("subscriptions/listen", {"notifications": {"taskIds": [task_id]}}, outlet=outlet)
    acknowledged = await outlet.first("notifications/subscriptions/acknowledged")
    assert acknowledged["params"]["notifications"] == {"taskIds": [task_id]}
    await wait_for_status(client, task_id, "input_required")
    return task_id, outlet, running


async def test_a_subscriber_hears_every_state_of_its_task(client: Client) -> None:
    task_id, outlet, running = await subscribe_to_waiting_task(client, "b.txt")
    await client.result("tasks/update", {"taskId": task_id, "inputResponses": {"confirm": NAME}})
    await wait_until_async(
        lambda: any(one["params"]["status"] == "completed" for one in outlet.of("notifications/tasks"))
    )
    last = outlet.of("notifications/tasks")[-1]["params"]
    assert last["result"]["content"][0]["text"] == "deleted b.txt" and last["taskId"] == task_id
    assert last["_meta"]["io.modelcontextprotocol/subscriptionId"]
    running.cancel()
    await asyncio.wait([running])


async def test_a_state_that_was_read_late_never_follows_a_newer_one(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id, outlet, running = await subscribe_to_waiting_task(client, "c.txt")
    read, go_on = asyncio.Event(), asyncio.Event()
    get = store.get

    async def read_slowly_once(credential: Credential, number: str) -> store.TaskState | None:
        state = await get(credential, number)
        if not read.is_set():
            read.set()
            await go_on.wait()
        return state

    def statuses() -> list[str]:
        return [one["params"]["status"] for one in outlet.of("notifications/tasks")[before:]]

    before = len(outlet.of("notifications/tasks"))
    monkeypatch.setattr(store, "get", read_slowly_once)
    server().tasks.publish_change(task_id)
    await read.wait()
    await client.result("tasks/update", {"taskId": task_id, "inputResponses": {"confirm": NAME}})
    await wait_for_status(client, task_id, "completed")
    go_on.set()
    await wait_until_async(lambda: {"input_required", "completed"} <= set(statuses()))
    assert statuses()[-1] == "completed"
    running.cancel()


async def test_a_change_is_told_although_the_read_of_the_one_before_it_failed(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id, outlet, running = await subscribe_to_waiting_task(client, "d.txt")
    read, go_on = asyncio.Event(), asyncio.Event()
    get = store.get

    async def fail_once(credential: Credential, number: str) -> store.TaskState | None:
        if read.is_set():
            return await get(credential, number)
        read.set()
        await go_on.wait()
        raise OperationalError("the database is away")

    monkeypatch.setattr(store, "get", fail_once)
    server().tasks.publish_change(task_id)
    await read.wait()
    await client.result("tasks/update", {"taskId": task_id, "inputResponses": {"confirm": NAME}})
    await wait_for_status(client, task_id, "completed")
    go_on.set()
    await wait_until_async(
        lambda: any(one["params"]["status"] == "completed" for one in outlet.of("notifications/tasks"))
    )
    running.cancel()


async def test_a_task_of_a_worker_that_died_ends_as_failed(
    client: Client, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = uuid4()
    await store.create(number, alice.pk, "token:1", "server_wait", "gone")
    assert (await client.result("tasks/cancel", {"taskId": str(number)})) is not None
    monkeypatch.setattr(store, "GRACE_PERIOD", store.GRACE_PERIOD * 0)
    monkeypatch.setattr(task_runner, "CLEANUP_INTERVAL_SECONDS", 0.0)
    done = await wait_until_ended(client, str(number))
    assert done["status"] == "failed" and "unknown" in done["error"]["message"]


async def test_one_user_cannot_start_tasks_without_end(client: Client, settings: Any) -> None:
    settings.MAX_CALLS_PER_USER = 2
    first = await create_task(client, "server_confirm", {"filename": "1"})
    error = (await client.call("server_confirm", {"filename": "2"}))["error"]
    assert "Busy" in error["message"]
    await client.result("tasks/cancel", {"taskId": first})
    await wait_until_ended(client, first)
    await wait_until_async(lambda: server().requests.count_running() == 0)
    await create_task(client, "server_confirm", {"filename": "3"})
