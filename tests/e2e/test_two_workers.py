"""Two workers, each pinned: what is done at one, by pages or by protocol, counts at the other, for every stream."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest

from tests.client import HttpClient, HttpRefusal, RpcError, WebSocketClient
from tests.e2e import proofs
from tests.e2e.pages import Pages
from tests.e2e.raw import MODERN, Raw
from tests.polling import wait_until_async
from tests.real_servers import Hub

pytestmark = [pytest.mark.postgres, pytest.mark.redis]

CHANGED = "notifications/tools/list_changed"
TASKS: dict[str, Any] = {"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}
MAX_WAIT_SECONDS = 45.0
"""What must happen within five seconds, with room for a machine that does much else."""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    ledger = tmp_path_factory.mktemp("workers") / "ledger"
    env = {"TOOLHUB_TOOL_MODULES": proofs.MODULES, "PROOF_LEDGER": str(ledger), "TOOLHUB_STOP_SECONDS": "5"}
    with Hub(workers=2, postgres=True, redis=True, env=env, seed=seed_with_pages) as running:
        yield running


def seed_with_pages() -> dict[str, str]:
    tokens = proofs.seed_everything()
    proofs.allow_sign_in("bob")
    return tokens


async def connect_at(hub: Hub, worker: int, client: HttpClient) -> HttpClient:
    """The client, with the one connection that it has at this worker."""
    with hub.pin_to_worker(worker):
        assert (await client.http.get(f"{hub.url}/healthz")).status_code == 200
    return client


def single(hub: Hub, revision: str, user: str = "alice", **options: Any) -> HttpClient:
    return HttpClient(hub.mcp_url, hub.seeded[user], revision, single=True, **options)


def is_closed(client: HttpClient) -> bool:
    return not client._background


async def open_pages_at(hub: Hub, worker: int, user: str, stack: AsyncExitStack) -> Pages:
    """A signed-in browser at this worker."""
    pages = await stack.enter_async_context(Pages(hub, user))
    with hub.pin_to_worker(worker):
        assert (await pages.http.get("/healthz")).status_code == 200
    await pages.sign_in()
    return pages


async def open_streams_at(hub: Hub, worker: int, user: str, stack: AsyncExitStack) -> list[Any]:
    """One of each kind of open stream at this worker."""
    session = await stack.enter_async_context(await connect_at(hub, worker, single(hub, "2025-11-25", user)))
    listening = await connect_at(hub, worker, session.same_session())
    stack.push_async_callback(listening.http.aclose)
    await listening.listen()
    subscribed = await stack.enter_async_context(await connect_at(hub, worker, single(hub, MODERN, user)))
    await subscribed.subscribe(toolsListChanged=True)
    with hub.pin_to_worker(worker):
        socket = await stack.enter_async_context(WebSocketClient(hub.ws_url, hub.seeded[user], "2025-06-18"))
    stack.push_async_callback(listening._cancel_background)
    return [listening, subscribed, socket]


async def test_a_kept_connection_stays_with_the_worker_it_was_pinned_to(hub: Hub) -> None:
    """What the other tests of this module rest on."""
    pids = sorted(hub.worker_pids())
    for worker in (0, 1):
        async with await connect_at(hub, worker, single(hub, "2025-11-25")) as client:
            for _ in range(5):
                assert await client.text("which_worker") == str(pids[worker])
        with hub.pin_to_worker(worker):
            socket = WebSocketClient(hub.ws_url, hub.seeded["alice"], MODERN)
            await socket.__aenter__()
        assert await socket.text("which_worker") == str(pids[worker])
        await socket.__aexit__(None)


async def test_a_change_saved_at_one_worker_is_heard_on_every_stream_of_the_other(hub: Hub) -> None:
    tool = (await asyncio.to_thread(hub.call, tool_ids))["plus"]
    async with AsyncExitStack() as stack:
        streams = await open_streams_at(hub, 1, "alice", stack)
        admin = await open_pages_at(hub, 0, proofs.ROOT, stack)
        await admin.send(f"/admin/catalog/tool/{tool}/change/", enabled=None)
        for client in streams:
            await client.wait_for_message(CHANGED)
        assert "plus" not in await streams[2].tools()
        await admin.send(f"/admin/catalog/tool/{tool}/change/", enabled="on")
        for client in streams:
            await client.wait_for_message(CHANGED, 2)
        assert "plus" in await streams[2].tools()


def tool_ids() -> dict[str, int]:
    from catalog.models import Tool

    return dict(Tool.objects.values_list("name", "id"))


async def test_a_token_revoked_at_one_worker_closes_streams_and_ends_calls_at_the_other(
    hub: Hub, tmp_path: Any
) -> None:
    started = tmp_path / "started"
    number = await asyncio.to_thread(hub.call, proofs.token_id, user="bob")
    async with AsyncExitStack() as stack:
        listening, subscribed, socket = await open_streams_at(hub, 1, "bob", stack)
        caller = Raw(hub.port, hub.seeded["bob"])
        with hub.pin_to_worker(1):
            await caller.ask("GET", "/healthz", caller.plain().items())
        arguments = {"name": "hold", "arguments": {"started": str(started)}}
        call = asyncio.ensure_future(caller.modern("tools/call", arguments))
        await wait_until_async(started.exists, 60)
        browser = await open_pages_at(hub, 0, "bob", stack)
        before = time.monotonic()
        await browser.send("/tokens/", to=f"/tokens/{number}/revoke/")
        for client in (listening, subscribed):
            await wait_until_async(partial(is_closed, client), MAX_WAIT_SECONDS, "the stream was closed")
        assert await asyncio.wait_for(socket.closed(), MAX_WAIT_SECONDS) == 1008
        await asyncio.wait_for(asyncio.wait([call]), MAX_WAIT_SECONDS)
        assert time.monotonic() - before < MAX_WAIT_SECONDS
        call.exception()  # whatever it ended with: the audit log says what became of it
        for worker in (0, 1):
            with hub.pin_to_worker(worker):
                async with Raw(hub.port, hub.seeded["bob"]) as again:
                    answer = await again.modern("tools/list")
                    assert answer.status == 401 and "www-authenticate" in answer.headers
        for client in (listening, subscribed, socket):
            client._failures.clear()
        caller.close()

    async def ended() -> list[list[str]]:
        rows = await asyncio.to_thread(hub.call, proofs.list_calls, name="hold")
        return [row[1:3] for row in rows if row[2] != "running"]

    assert await wait_until_async(ended, 60) == [["bob", "cancelled"]]


async def test_a_task_of_one_worker_is_seen_answered_and_cancelled_at_the_other(hub: Hub) -> None:
    async with AsyncExitStack() as stack:
        first, second = [
            await stack.enter_async_context(await connect_at(hub, worker, single(hub, MODERN, capabilities=TASKS)))
            for worker in (0, 1)
        ]

        async def begin() -> str:
            task = (await first.call("ask_in_task"))["taskId"]

            async def asks() -> bool:
                return (await second.request("tasks/get", {"taskId": task}))["status"] == "input_required"

            await wait_until_async(asks, 60)
            return str(task)

        task = await begin()
        (key,) = (await second.request("tasks/get", {"taskId": task}))["inputRequests"]
        answers = {key: {"action": "accept", "content": {"end": "happily"}}}
        await second.request("tasks/update", {"taskId": task, "inputResponses": answers})

        async def has(status: str) -> dict[str, Any] | None:
            state = await second.request("tasks/get", {"taskId": task})
            return state if state["status"] == status else None

        done = await wait_until_async(lambda: has("completed"), 60)
        assert done is not None and "happily" in done["result"]["content"][0]["text"]
        task = await begin()
        await second.request("tasks/cancel", {"taskId": task})
        assert await wait_until_async(lambda: has("cancelled"), 60)


async def test_a_session_that_was_ended_at_one_worker_is_at_once_not_found_at_the_other(hub: Hub) -> None:
    """Without waiting: a client that hears that its session is gone may ask at any worker the moment after."""
    async with AsyncExitStack() as stack:
        for _ in range(10):
            first = await stack.enter_async_context(await connect_at(hub, 0, single(hub, "2025-11-25")))
            second = await connect_at(hub, 1, first.same_session())
            stack.push_async_callback(second.http.aclose)
            assert await second.tools()
            assert await first.close_session() in {200, 204}
            with pytest.raises((HttpRefusal, RpcError)) as refused:
                await second.tools()
            assert getattr(refused.value, "status", None) == 404


def make_limits() -> None:
    from catalog.models import Tool
    from tests.e2e.seed import grant_tool
    from tests.factories import limit

    limit("7/month", Tool.objects.get(pk=grant_tool("metered", ["alice"], "plus")))
    limit("1", Tool.objects.get(pk=grant_tool("narrow", ["alice"], "hold")), measure="running")


async def test_quotas_and_calls_at_a_time_are_counted_over_both_workers(hub: Hub, tmp_path: Any) -> None:
    await asyncio.to_thread(hub.call, make_limits)
    async with AsyncExitStack() as stack:
        callers = []
        for worker in (0, 1):
            with hub.pin_to_worker(worker):
                callers.append(await stack.enter_async_context(Raw(hub.port, hub.seeded["alice"])))
                await callers[worker].ask("GET", "/healthz", callers[worker].plain().items())

        async def call(worker: int, name: str, **arguments: Any) -> dict[str, Any]:
            answer = await callers[worker].modern("tools/call", {"name": name, "arguments": arguments})
            result: dict[str, Any] = answer.result()
            return result

        async def call_often(worker: int) -> list[bool]:
            return [not (await call(worker, "metered", a=1)).get("isError", False) for _ in range(8)]

        await wait_until_async(lambda: _is_listed(callers), MAX_WAIT_SECONDS)
        made = await asyncio.gather(call_often(0), call_often(1))
        assert sum(map(sum, made)) == 7

        held = asyncio.ensure_future(call(0, "narrow", started=str(tmp_path / "first")))
        await wait_until_async((tmp_path / "first").exists, MAX_WAIT_SECONDS)

        async def find_text() -> str:
            result = await call(1, "narrow", started=str(tmp_path / "second"), seconds=0)
            text: str = result["content"][0]["text"]
            return text

        async def is_refused() -> bool:
            return "1 call is running, which is the most at a time." in await find_text()

        # On a machine that does much else Redis may answer too late: then each counts for itself until it does.
        await wait_until_async(is_refused, MAX_WAIT_SECONDS)
        callers[0].close()  # which cancels the call
        await asyncio.wait([held])
        held.exception()

        async def is_free() -> bool:
            return not await is_refused()

        await wait_until_async(is_free, MAX_WAIT_SECONDS)


async def _is_listed(callers: list[Raw]) -> bool:
    """Whether both workers have the limits: the tools are of the same change."""
    for caller in callers:
        answer = await caller.modern("tools/list", {})
        if "narrow" not in [tool["name"] for tool in answer.result()["tools"]]:
            return False
    return True


async def test_the_hub_goes_on_while_a_killed_worker_is_replaced(hub: Hub) -> None:
    """Calls at the worker that lives are all answered; then there are two again, and news flows between them."""
    pids = sorted(hub.worker_pids())
    async with AsyncExitStack() as stack:
        living = await stack.enter_async_context(await connect_at(hub, 1, single(hub, "2025-11-25")))
        done = 0
        enough = asyncio.Event()

        async def work() -> None:
            nonlocal done
            while not enough.is_set():
                assert await living.text("whose", {"nonce": str(done)}) == f"alice {done}"
                done += 1

        working = asyncio.ensure_future(work())
        await wait_until_async(lambda: done > 5 or working.done(), 60)
        os.kill(pids[0], signal.SIGKILL)
        await wait_until_async(lambda: len(set(hub.worker_pids()) - {pids[0]}) == 2, 60, "another worker")
        enough.set()
        await working
        new = next(pid for pid in hub.worker_pids() if pid not in pids)
        place = sorted(hub.worker_pids()).index(new)
        client = single(hub, MODERN)
        client.http.timeout = 120  # it may still be starting
        fresh = await stack.enter_async_context(await connect_at(hub, place, client))
        assert await fresh.text("which_worker") == str(new)
        await fresh.subscribe(toolsListChanged=True)
        admin = await stack.enter_async_context(Pages(hub, proofs.ROOT))
        with hub.pin_to_worker(1 - place):
            assert (await admin.http.get("/healthz")).status_code == 200
        await admin.sign_in()
        tool = (await asyncio.to_thread(hub.call, tool_ids))["plus"]
        await admin.send(f"/admin/catalog/tool/{tool}/change/", description="Adds two numbers, still.")
        await fresh.wait_for_message(CHANGED)
