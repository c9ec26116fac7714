"""Two workers behind one port: whichever one a request reaches, the answer is the same. Pinned, not left to luck."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.client import HttpClient, HttpRefusal, RpcError, WebSocketClient
from tests.e2e import seed
from tests.polling import wait_until_async
from tests.real_servers import Hub

pytestmark = [pytest.mark.postgres, pytest.mark.redis]
ROUNDS = int(os.environ.get("TOOLHUB_TEST_ROUNDS", "2"))
"""How often the isolation test repeats its 200 pairs; 50 for a long look."""
PAIRS = 200


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    env = {"TOOLHUB_TOOL_MODULES": "tests.e2e.functions", "TOOLHUB_STOP_SECONDS": "5"}
    with Hub(workers=2, postgres=True, redis=True, env=env, seed=seed.seed_examples) as running:
        yield running


async def connect_at(hub: Hub, worker: int, client: HttpClient) -> HttpClient:
    """The client with its one connection opened to this worker."""
    with hub.pin_to_worker(worker):
        response = await client.http.get(f"{hub.url}/healthz")
        assert response.status_code == 200
    return client


def single(hub: Hub, revision: str = "2025-11-25", user: str = "alice", **options: Any) -> HttpClient:
    return HttpClient(hub.mcp_url, hub.seeded[user], revision, single=True, **options)


async def first_and_second(hub: Hub, **options: Any) -> tuple[HttpClient, HttpClient]:
    """Two clients of one session, at different workers."""
    first = await connect_at(hub, 0, single(hub, **options))
    await first.initialize()
    return first, await connect_at(hub, 1, first.same_session())


async def test_a_question_asked_by_one_worker_is_answered_at_the_other(hub: Hub) -> None:
    first, second = await first_and_second(hub, capabilities={"elicitation": {}})
    call = asyncio.ensure_future(first.text("ask_name"))
    await wait_until_async(lambda: first.received_params("elicitation/create"))
    question = next(message for message in first.messages if message.get("method") == "elicitation/create")
    await second._reply(
        {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"name": "Ann"}}}
    )
    assert "Ann" in await call
    for client in (first, second):
        await client.__aexit__(None)


async def test_a_call_at_one_worker_is_cancelled_at_the_other(hub: Hub, tmp_path: Any) -> None:
    first, second = await first_and_second(hub)
    started, ended = tmp_path / "started", tmp_path / "ended"
    arguments = {"seconds": 100, "started": str(started), "ended": str(ended)}
    call = asyncio.ensure_future(first.call("wait", arguments, request_id="cancel me"))
    await wait_until_async(started.exists)
    await second.notify("notifications/cancelled", {"requestId": "cancel me"})
    await wait_until_async(ended.exists)
    with pytest.raises(AssertionError, match="without an answer"):
        await call
    for client in (first, second):
        await client.__aexit__(None)


async def test_a_stream_of_one_worker_is_resumed_at_the_other(hub: Hub) -> None:
    first, second = await first_and_second(hub)
    body = first.message("tools/call", {"name": "come_back", "arguments": {}, "_meta": {"progressToken": 1}})
    headers = first.headers(body, {"Content-Type": "application/json"})
    response = await first.http.post(hub.mcp_url, json=body, headers=headers)
    assert b"welcome back" not in response.content
    last = [line[4:] for line in response.text.splitlines() if line.startswith("id: ")][-1]
    async with second.stream(last) as rest:
        _, answer = await second._follow(rest, body["id"], "tools/call", None)
    assert answer is not None and answer["result"]["content"][0]["text"] == "welcome back"
    for client in (first, second):
        await client.__aexit__(None)


async def test_a_session_ended_at_one_worker_is_gone_at_the_other(hub: Hub) -> None:
    first, second = await first_and_second(hub)
    listening = await connect_at(hub, 0, first.same_session())
    await listening.listen()
    assert await second.close_session() in {200, 204}
    await wait_until_async(lambda: not listening._background)

    async def gone() -> bool:
        try:
            await first.tools()
        except HttpRefusal as refusal:
            return refusal.status == 404
        except RpcError as error:
            return error.status == 404
        return False

    await wait_until_async(gone, 30)
    for client in (first, second, listening):
        await client.__aexit__(None)


async def test_a_change_is_heard_at_both_workers_and_only_by_affected_clients(hub: Hub) -> None:
    bobs = [await connect_at(hub, worker, single(hub, user="bob")) for worker in (0, 1)]
    alice = await connect_at(hub, 0, single(hub, user="alice"))
    charlie = await connect_at(hub, 1, single(hub, "2026-07-28", user="charlie"))
    for client in (*bobs, alice):
        await client.initialize()
    listening = [
        await connect_at(hub, worker, client.same_session())
        for worker, client in zip((0, 1, 0), (*bobs, alice), strict=True)
    ]
    for client in listening:
        await client.listen()
    subscription = await charlie.subscribe(toolsListChanged=True)
    await asyncio.to_thread(hub.call, seed.grant_tool, name="late", function="add", users=["bob"])
    for client in listening[:2]:
        await client.wait_for_message("notifications/tools/list_changed")
    assert await bobs[0].tools() == await bobs[1].tools() == ["echo", "late"]
    # Whoever was not concerned has heard nothing by the time that those who were have heard of a second change.
    await asyncio.to_thread(hub.call, seed.grant_tool, name="later", function="add", users=["bob"])
    for client in listening[:2]:
        await client.wait_for_message("notifications/tools/list_changed", 2)
    assert listening[2].received_params("notifications/tools/list_changed") == []
    assert charlie.received_params("notifications/tools/list_changed") == []
    subscription.cancel()
    for client in (*bobs, alice, charlie, *listening):
        await client.__aexit__(None)


async def test_a_session_with_streams_at_both_workers_hears_each_change_once(hub: Hub) -> None:
    """The witnesses came last, so they hear of a change after everything was sent to the session."""
    uri = "docs://touched"
    await asyncio.to_thread(hub.call, seed.grant_resource, uri=uri, users=["alice"])
    first, second = await first_and_second(hub)

    async def both_know() -> bool:
        found = [str(await client.request("resources/list")) for client in (first, second)]
        return all(uri in one for one in found)

    await wait_until_async(both_know)
    streams = [await connect_at(hub, worker, first.same_session()) for worker in (0, 0, 1, 1)]
    witnesses = [await connect_at(hub, worker, single(hub)) for worker in (0, 1)]
    for witness in witnesses:
        await witness.initialize()
    subscribers = [first, *witnesses]
    for client in subscribers:
        await client.request("resources/subscribe", {"uri": uri})
    listening = [await connect_at(hub, worker, client.same_session()) for worker, client in enumerate(witnesses)]
    for client in (*streams, *listening):
        await client.listen()

    def count(kind: str, *clients: HttpClient) -> int:
        method = f"notifications/{kind}"
        return sum(message.get("method") == method for client in clients for message in client.messages)

    async def all_told(kind: str, number: int) -> None:
        await wait_until_async(lambda: all(count(kind, witness) >= number for witness in listening), 60)
        assert count(kind, *streams) == number

    for number in range(1, 4):
        await asyncio.to_thread(hub.call, seed.change_title, name="add", title=f"Title {number}")
        await all_told("tools/list_changed", number)
    for number in range(1, 4):
        await second.text("touch", {"uri": uri})
        await all_told("resources/updated", number)
    # The one that spoke may go: another of its streams speaks on.
    for gone in (streams[1], streams[3]):
        await gone.__aexit__(None)
    await asyncio.to_thread(hub.call, seed.change_title, name="add", title="Title 4")
    await wait_until_async(lambda: all(count("tools/list_changed", witness) >= 4 for witness in listening), 60)
    assert count("tools/list_changed", *streams) == 4
    for client in (first, second, streams[0], streams[2], *witnesses, *listening):
        await client.__aexit__(None)


async def test_a_worker_that_is_killed_is_replaced_and_its_call_becomes_unknown(hub: Hub, tmp_path: Any) -> None:
    client = await connect_at(hub, 0, single(hub, "2026-07-28"))
    started = tmp_path / "started"
    call = asyncio.ensure_future(client.call("wait", {"seconds": 100, "started": str(started)}))
    await wait_until_async(started.exists)
    before = sorted(hub.worker_pids())
    os.kill(before[0], signal.SIGKILL)
    with pytest.raises(Exception):  # noqa: B017  (whatever the HTTP client makes of a connection that breaks)
        await call
    await wait_until_async(lambda: len(set(hub.worker_pids()) - set(before)) == 1)
    await wait_until_async(lambda: asyncio.to_thread(hub.call, seed.count_calls, name="wait", outcome="unknown"), 90)
    async with HttpClient(hub.mcp_url, hub.seeded["alice"], "2026-07-28") as other:
        assert await other.text("echo", {"text": "still here"}) == "still here"
    await client.http.aclose()


@pytest.mark.parametrize("kind", ["http", "websocket"])
async def test_answers_never_cross_between_two_people_with_the_same_ids(hub: Hub, kind: str) -> None:
    def make(user: str) -> Any:
        if kind == "http":
            return HttpClient(hub.mcp_url, hub.seeded[user], "2026-07-28")
        return WebSocketClient(hub.ws_url, hub.seeded[user], "2026-07-28")

    async with make("alice") as alice, make("bob") as bob:
        room = {"alice": asyncio.Semaphore(24), "bob": asyncio.Semaphore(24)}

        async def one(client: Any, user: str, request_id: int) -> None:
            nonce = f"{user}-{random.random()}"
            async with room[user]:
                assert await client.text("echo", {"text": nonce}, request_id=request_id) == nonce

        for _ in range(ROUNDS):
            pairs = [one(client, user, n) for n in range(PAIRS) for client, user in ((alice, "alice"), (bob, "bob"))]
            await asyncio.gather(*pairs)
