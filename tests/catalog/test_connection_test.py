"""The test of an upstream server: its steps while they happen, for whom may test it, and an end in the audit log."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import mcp_types as types
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Permission, User
from django.test import AsyncClient

from audit.models import Action
from catalog.models import Secret
from catalog.models import Upstream as Row
from tests.catalog.test_upstreams import LOCAL, make_upstream
from tests.catalog.test_upstreams import local_networks as local_networks
from tests.catalog.test_upstreams import patient as patient
from tests.polling import wait_until_async
from tests.runners.upstream import Upstream

pytestmark = pytest.mark.django_db(transaction=True)
LINES = "application/x-ndjson"


@pytest.fixture
def started() -> Iterator[Upstream]:
    with Upstream().running() as upstream:
        yield upstream


async def start(user: User, row: Row, **headers: str) -> Any:
    client = AsyncClient()
    await client.aforce_login(user)
    address = f"/admin/catalog/upstream/{row.pk}/tools/"
    return await client.post(address, {"action": "test"}, headers={"accept": LINES, **headers})


async def read(answer: Any) -> AsyncGenerator[dict[str, Any], None]:
    async for chunk in answer.streaming_content:
        for line in chunk.splitlines():
            yield json.loads(line)


def logged() -> list[dict[str, Any]]:
    return [json.loads(action.after or "{}") for action in Action.objects.filter(kind="upstream", verb="tested")]


async def test_whoever_may_not_change_the_server_starts_nothing(started: Upstream, alice: User) -> None:
    alice.is_staff = True
    await alice.asave()
    await alice.user_permissions.aadd(await Permission.objects.aget(codename="view_upstream"))
    row = await sync_to_async(make_upstream)(started)
    answer = await start(alice, row)
    assert answer.status_code == 403 and started.ledger == []


async def test_every_step_is_told_when_it_begins_and_when_it_ends(started: Upstream, root: User) -> None:
    row = await sync_to_async(make_upstream)(started)
    answer = await start(root, row)
    assert (answer["Content-Type"], answer["X-Accel-Buffering"]) == (LINES, "no")
    assert "no-store" in answer["Cache-Control"]
    events = [event async for event in read(answer)]
    steps = [(event["step"], "took" in event) for event in events[:-1]]
    assert steps == [
        (step, ended) for step in ("connect", "initialize", "tool", "resource", "prompt") for ended in (False, True)
    ]
    assert [event["number"] for event in events if event.get("number")] == [str(len(started.tools)), "0", "0"]
    assert events[-1]["end"] == "good" and f"{len(started.tools)} tools" in events[-1]["text"]
    (entry,) = await sync_to_async(logged)()
    assert entry["tools"] == len(started.tools)
    assert (await Action.objects.aget(verb="tested")).actor == "root"
    assert (await Row.objects.aget()).last_seen is not None


async def test_a_name_is_looked_up_before_it_is_connected_to(started: Upstream, root: User, settings: Any) -> None:
    settings.ALLOW_PRIVATE_NETWORKS = [*LOCAL, "::1/128"]
    url = started.url.replace("127.0.0.1", "localhost")
    row = await sync_to_async(make_upstream)(url=url, allowed_networks=[*LOCAL, "::1/128"])
    steps = [event.get("step") async for event in read(await start(root, row))]
    assert steps[:4] == ["resolve", "resolve", "connect", "connect"]


async def test_the_step_that_fails_has_no_end_and_the_reason_is_in_the_language_of_the_page(root: User) -> None:
    row = await sync_to_async(make_upstream)(url="http://127.0.0.1:9/mcp")
    events = [event async for event in read(await start(root, row, **{"accept-language": "zh-hans"}))]
    assert [event["step"] for event in events[:-1]] == ["connect"] and "took" not in events[0]
    assert events[-1]["end"] == "bad" and "other" in events[-1]["text"] and not events[-1]["text"].isascii()
    (entry,) = await sync_to_async(logged)()
    assert entry["problem"].isascii() and (await Row.objects.aget()).last_error


async def test_a_secret_that_is_not_entered_ends_the_test_with_the_next_step(root: User) -> None:
    await Secret.objects.acreate(name="own_token", kind=Secret.Kind.PERSONAL)
    headers = {"Authorization": {"secret": "own_token", "prefix": "Bearer "}}
    row = await sync_to_async(make_upstream)(url="https://mcp.example.com/mcp", headers=headers)
    (event,) = [event async for event in read(await start(root, row))]
    assert event["end"] == "bad" and "own_token" in event["text"] and "/secrets/" in event["text"]


async def test_a_list_that_fails_is_named_and_the_others_are_found(root: User) -> None:
    upstream = Upstream()
    upstream.prompts.append(types.Prompt(name="greeting"))
    upstream.broken.add("prompts")
    with upstream.running():
        row = await sync_to_async(make_upstream)(upstream)
        events = [event async for event in read(await start(root, row))]
    assert events[-1]["end"] == "good"
    assert list(events[-1]["problems"]) == ["prompt"]
    assert (events[-2]["step"], "took" in events[-2]) == ("prompt", False)


async def test_whoever_stops_reading_cancels_the_test_and_the_log_says_so(root: User) -> None:
    async def hang(reader: Any, writer: Any) -> None:
        reached.set()
        await reader.read(-1)
        writer.close()
        await writer.wait_closed()
        gone.set()

    reached, gone = asyncio.Event(), asyncio.Event()
    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    row = await sync_to_async(make_upstream)(url=f"http://127.0.0.1:{port}/mcp")
    events = read(await start(root, row))
    while (await anext(events)).get("step") != "initialize":
        pass
    await reached.wait()
    reading = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0)
    reading.cancel()
    await wait_until_async(gone.is_set)
    await wait_until_async(sync_to_async(logged))
    assert await sync_to_async(logged)() == [{"problem": "cancelled"}]
    assert (await Row.objects.aget()).last_error == ""
    server.close()
    await server.wait_closed()


async def test_without_scripts_the_same_button_answers_at_the_end(started: Upstream, root: User) -> None:
    row = await sync_to_async(make_upstream)(started)
    answer = await start(root, row, accept="text/html")
    assert answer.status_code == 302 and answer["Location"] == f"/admin/catalog/upstream/{row.pk}/tools/"
