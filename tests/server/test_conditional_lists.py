"""Each person's own form of a tool: in the list, in the notification that it changed, in tasks and subscriptions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User

from catalog.models import Grant, Tool, ValueList
from catalog.policy import narrowed_items, visibility
from tests import factories
from tests.polling import wait_until_async
from tests.server.conftest import Client, handshake, modern, refresh_catalogue, run_in_database, text, token
from tests.server.test_changes import Stream, listen
from tests.server.test_tasks import OPTED, create_task, wait_until_ended

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("hub")]
TEN = {"path": "/a", "op": "range", "maximum": 10}


def publish_sum(conditions: dict[str, list[dict[str, Any]]], users: list[User]) -> Tool:
    tool = factories.make_tool()
    for user in users:
        factories.grant(user, tool, conditions=conditions[user.username]).full_clean()
    return tool


async def list_argument(client: Client, argument: str = "a") -> Any:
    (tool,) = (await client.result("tools/list"))["tools"]
    return tool["inputSchema"]["properties"].get(argument)


@pytest.mark.parametrize("connect", [modern, handshake])
async def test_each_person_lists_and_calls_their_own_form(alice: User, bob: User, connect: Callable[..., Any]) -> None:
    fixed = [{"path": "/b", "op": "fixed", "value": 40}]
    await run_in_database(publish_sum, {"alice": [TEN], "bob": fixed}, [alice, bob])
    await refresh_catalogue()
    clients = {}
    for user in (alice, bob):
        made = connect(await token(user))
        clients[user.username] = await made if asyncio.iscoroutine(made) else made
    assert (await list_argument(clients["alice"]))["maximum"] == 10
    assert await list_argument(clients["bob"], "b") is None and "maximum" not in await list_argument(clients["bob"])
    assert text(await clients["alice"].call("calculate_sum", {"a": 10, "b": 1})) == "11"
    assert text(await clients["bob"].call("calculate_sum", {"a": 2})) == "42"
    refused = await clients["alice"].call("calculate_sum", {"a": 11, "b": 1})
    assert refused["result"]["isError"] and "at most 10" in refused["result"]["content"][0]["text"]
    refused = await clients["bob"].call("calculate_sum", {"a": 2, "b": 40})
    assert refused["result"]["isError"] and '"b"' in refused["result"]["content"][0]["text"]


async def test_only_those_whose_form_changed_hear_of_it(alice: User, bob: User) -> None:
    ours = {"path": "/a", "op": "belongs_to", "list": "numbers"}

    def make() -> Any:
        values = ValueList.objects.create(name="numbers")
        parts = [values.parts.create(user=user, entries=["1", "2"]) for user in (alice, bob)]
        publish_sum({"alice": [ours], "bob": [ours]}, [alice, bob])
        return parts[0]

    part = await run_in_database(make)
    await refresh_catalogue()
    streams = {user.username: Stream(await handshake(await token(user))) for user in (alice, bob)}
    running, outlet = await listen(modern(await token(alice)), toolsListChanged=True)
    part.entries = ["1", "2", "3"]
    await run_in_database(part.save)
    await refresh_catalogue()
    await wait_until_async(lambda: streams["alice"].list_methods() == ["tools/list_changed"])
    await outlet.first("notifications/tools/list_changed")
    assert streams["bob"].list_methods() == []
    running.cancel()
    await asyncio.wait([running])


async def test_a_task_runs_with_the_persons_own_arguments(alice: User, publish: Callable[..., Any]) -> None:
    def make() -> None:
        publish(alice, "server_add")
        Tool.objects.update(task_support="optional")
        Grant.objects.update(conditions=[{"path": "/b", "op": "fixed", "value": 40}])

    await run_in_database(make)
    await refresh_catalogue()
    client = modern(await token(alice), OPTED)
    done = await wait_until_ended(client, await create_task(client, "server_add", {"a": 2}))
    assert done["status"] == "completed" and done["result"]["content"][0]["text"].startswith("42")
    refused = (await client.call("server_add", {"a": 2, "b": 1}))["result"]
    assert "taskId" not in refused and refused["isError"] and '"b"' in refused["content"][0]["text"]


async def test_a_subscription_to_an_address_outside_the_conditions_is_refused(alice: User) -> None:
    def make() -> None:
        row: dict[str, Any] = {
            "uri": "",
            "uri_template": "sample://{kind}/{number}",
            "name": "items",
            "function": "items",
        }
        books = [{"path": "/kind", "op": "equals", "value": "book"}]
        factories.grant(alice, factories.make_resource(**row), conditions=books)

    await run_in_database(make)
    await refresh_catalogue()
    client = await handshake(await token(alice))
    assert await client.result("resources/subscribe", {"uri": "sample://book/1"}) == {}
    assert (await client.error("resources/subscribe", {"uri": "sample://film/1"}))["code"] in (-32002, -32602)


async def test_many_narrowed_definitions_are_made_off_the_event_loop(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[str] = set()
    narrow = narrowed_items.narrow

    def make() -> None:
        toolset = factories.make_toolset()
        for number in range(visibility.MAX_NARROWED_INLINE + 5):
            factories.make_tool(f"sum{number}", toolset=toolset)
        factories.grant(alice, toolset, conditions=[TEN])

    def watched(*given: Any) -> Any:
        threads.add(threading.current_thread().name)
        return narrow(*given)

    monkeypatch.setattr("catalog.policy.rules.narrow", watched)
    await run_in_database(make)
    await refresh_catalogue()
    found = (await modern(await token(alice)).result("tools/list"))["tools"]
    assert len(found) == visibility.MAX_NARROWED_INLINE + 5
    assert threads and threading.current_thread().name not in threads
