"""Two people, two workers, the same JSON-RPC ids: nothing of one reaches the other; ids of the other are unknown."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from tests.client import WebSocketClient
from tests.e2e import proofs
from tests.e2e.raw import Answer, Raw
from tests.polling import wait_until_async
from tests.real_servers import Hub

pytestmark = [pytest.mark.postgres, pytest.mark.redis]

PAIRS = 200
ROUNDS = 50 if os.environ.get("TOOLHUB_TEST_LONG") == "1" else 2
CONCURRENT_CALLS = 30
"""Calls in flight of one person at one worker over one transport; the product runs 64 of a person at once and refuses
more. So of the 400 calls of a round up to 240 run together, over both transports."""
PEOPLE = ("alice", "bob")
EXTENSIONS: dict[str, Any] = {"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    ledger = tmp_path_factory.mktemp("isolation") / "ledger"
    env = {"TOOLHUB_TOOL_MODULES": proofs.MODULES, "PROOF_LEDGER": str(ledger)}
    with Hub(workers=2, postgres=True, redis=True, env=env, seed=proofs.seed_everything) as running:
        yield running


# --- calls -----------------------------------------------------------------------------------------------------------

Call = Callable[[int, str], Awaitable[str]]
"""Request id and nonce in, what the tool said out."""


def make_params(nonce: str, request_id: int) -> dict[str, Any]:
    # Pauses of different lengths, so that answers come in another order than the questions.
    return {"name": "whose", "arguments": {"nonce": nonce, "pause": (request_id % 7) / 200}}


def make_http_call(connection: Raw, session: str | None) -> Call:
    async def call(request_id: int, nonce: str) -> str:
        if session is None:
            answer = await connection.modern("tools/call", make_params(nonce, request_id), request_id)
        else:
            answer = await connection.handshake("tools/call", make_params(nonce, request_id), session, request_id)
        (message,) = [one for one in answer.messages() if "method" not in one]
        assert message["id"] == request_id, message
        return str(message["result"]["content"][0]["text"])

    return call


def make_websocket_call(client: WebSocketClient) -> Call:
    async def call(request_id: int, nonce: str) -> str:
        result = await client.request("tools/call", make_params(nonce, request_id), request_id=request_id)
        return str(result["content"][0]["text"])

    return call


@asynccontextmanager
async def open_callers(hub: Hub, kind: str) -> AsyncIterator[dict[tuple[str, int], list[Call]]]:
    """For each person and worker, as many ways to call as may be used at once, of both eras."""
    found: dict[tuple[str, int], list[Call]] = {(who, worker): [] for who in PEOPLE for worker in (0, 1)}
    async with AsyncExitStack() as stack:
        for worker in (0, 1):
            with hub.pin_to_worker(worker):
                for who in PEOPLE:
                    ways = found[who, worker]
                    if kind == "http":
                        connections = [Raw(hub.port, hub.seeded[who]) for _ in range(CONCURRENT_CALLS)]
                        for connection in connections:
                            await stack.enter_async_context(connection)
                        session = await connections[0].session()
                        for connection in connections[1:]:
                            assert (await connection.ask("GET", "/healthz", connection.plain().items())).status == 200
                        for index, connection in enumerate(connections):
                            ways.append(make_http_call(connection, session if index % 2 else None))
                    else:
                        sockets = [
                            WebSocketClient(hub.ws_url, hub.seeded[who], revision)
                            for revision in ("2025-11-25", "2026-07-28")
                        ]
                        for socket in sockets:
                            await stack.enter_async_context(socket)
                        ways.extend(make_websocket_call(sockets[index % 2]) for index in range(CONCURRENT_CALLS))
        yield found


async def test_every_answer_carries_the_nonce_of_its_own_caller(hub: Hub) -> None:
    wrong: list[tuple[str, str, str]] = []
    async with open_callers(hub, "http") as http, open_callers(hub, "websocket") as websocket:
        done = 0

        async def work(calls: Iterator[tuple[int, str, str]], way: Call) -> None:
            nonlocal done
            for request_id, who, nonce in calls:
                said = await way(request_id, nonce)
                if said != f"{who} {nonce}":
                    wrong.append((who, nonce, said))
                done += 1

        for number in range(ROUNDS):
            running = []
            for ways in (http, websocket):
                for worker in (0, 1):
                    # Both people count the same ids at the same worker at the same time.
                    for who in PEOPLE:
                        pending = iter(
                            [(n, who, f"{who} {number} {n} {uuid.uuid4()}") for n in range(worker, PAIRS, 2)]
                        )
                        running += [work(pending, way) for way in ways[who, worker]]
            await asyncio.gather(*running)
            assert wrong == []
    assert done == ROUNDS * PAIRS * 2 * 2
    rows = await asyncio.to_thread(hub.call, proofs.list_calls, name="whose")
    assert len(rows) == done and {row[2] for row in rows} == {"ok"}
    assert all(json.loads(row[3])["nonce"].startswith(f"{row[1]} ") for row in rows), "a record of another's call"


# --- ids -------------------------------------------------------------------------------------------------------------


@pytest.fixture
async def alice(hub: Hub) -> AsyncIterator[Raw]:
    async with Raw(hub.port, hub.seeded["alice"]) as connection:
        yield connection


@pytest.fixture
async def bob(hub: Hub) -> AsyncIterator[Raw]:
    async with Raw(hub.port, hub.seeded["bob"]) as connection:
        yield connection


async def assert_same(
    ask: Callable[[str], Awaitable[Answer]], hers: str, nobodys: str, *, status: int, code: int | None = None
) -> None:
    """What is asked with her id gets, byte for byte, the answer to an id that nobody was given."""
    with_hers, with_nobodys = await ask(hers), await ask(nobodys)
    assert with_hers.seen(hers) == with_nobodys.seen(nobodys)
    assert with_hers.status == status, with_hers
    if code is not None:
        assert with_hers.messages()[-1]["error"]["code"] == code


def tamper(signed: str) -> str:
    """The same with a signature that does not fit."""
    return signed[:-1] + ("A" if signed[-1] != "A" else "B")


async def test_a_session_of_somebody_else_is_unknown(alice: Raw, bob: Raw) -> None:
    session = await alice.session()
    params = make_params("x", 1)
    for method, given in (("tools/list", {}), ("tools/call", params), ("ping", {})):
        await assert_same(lambda s, m=method, g=given: bob.handshake(m, g, s), session, tamper(session), status=404)  # type: ignore[misc]
    for verb in ("GET", "DELETE"):
        for token in (session, "nonsense"):
            await assert_same(
                lambda s, v=verb: bob.ask(v, "/mcp", bob.plain({"Mcp-Session-Id": s}).items()),  # type: ignore[misc]
                token,
                tamper(session),
                status=404,
            )
    assert (await alice.handshake("ping", {}, session)).result() == {}, "what he did has ended her session"


async def test_an_event_of_somebody_else_is_unknown(alice: Raw, bob: Raw) -> None:
    hers, his = await alice.session(), await bob.session()
    params = {"name": "two_steps", "arguments": {}, "_meta": {"progressToken": "p"}}
    answer = await alice.handshake("tools/call", params, hers)
    event = next(line[3:].strip().decode() for line in answer.body.split(b"\n") if line.startswith(b"id:"))
    assert b"both steps" in (await resume(alice, hers, event)).body
    await assert_same(lambda e: resume(bob, his, e), event, "A" * 22 + "." + event.partition(".")[2], status=400)
    await assert_same(lambda e: resume(bob, hers, e), event, "A" * 22 + "." + event.partition(".")[2], status=404)
    # Nor is a stream of another session of her own.
    other = await alice.session()
    await assert_same(lambda e: resume(alice, other, e), event, "A" * 22 + ".0", status=400)


async def resume(connection: Raw, session: str, event: str) -> Answer:
    more = {"Mcp-Session-Id": session, "Last-Event-ID": event, "Accept": "text/event-stream"}
    return await connection.ask("GET", "/mcp", connection.plain(more).items(), until=b'"result"')


async def test_a_task_of_somebody_else_is_unknown(alice: Raw, bob: Raw) -> None:
    made = await alice.modern("tools/call", {"name": "ask_in_task", "arguments": {}}, capabilities=EXTENSIONS)
    task = made.result()["taskId"]

    async def state() -> Any:
        return (await alice.modern("tasks/get", {"taskId": task}, capabilities=EXTENSIONS)).result()["status"]

    async def asks() -> bool:
        return bool(await state() == "input_required")

    await wait_until_async(asks, 60)
    more: Mapping[str, dict[str, Any]] = {"tasks/get": {}, "tasks/update": {"inputResponses": {}}, "tasks/cancel": {}}
    for method, params in more.items():
        await assert_same(
            lambda t, m=method, p=params: bob.modern(m, {"taskId": t, **p}, capabilities=EXTENSIONS),  # type: ignore[misc]
            task,
            str(uuid.uuid4()),
            status=400,
            code=-32602,
        )
    assert await state() == "input_required", "what he did has ended her task"
    await alice.modern("tasks/cancel", {"taskId": task}, capabilities=EXTENSIONS)


async def test_a_cursor_of_somebody_else_is_not_valid(hub: Hub, alice: Raw, bob: Raw) -> None:
    await asyncio.to_thread(hub.call, make_many_tools, count=101)

    async def page() -> Any:
        return (await alice.modern("tools/list")).result().get("nextCursor")

    cursor = await wait_until_async(page, 60)
    assert (await alice.modern("tools/list", {"cursor": cursor})).result()["tools"]
    await assert_same(
        lambda c: bob.modern("tools/list", {"cursor": c}), cursor, tamper(cursor), status=400, code=-32602
    )
    his = await bob.session()
    await assert_same(
        lambda c: bob.handshake("tools/list", {"cursor": c}, his), cursor, tamper(cursor), status=200, code=-32602
    )
    # Nor does it fit another list of her own.
    await assert_same(
        lambda c: alice.modern("prompts/list", {"cursor": c}), cursor, tamper(cursor), status=400, code=-32602
    )


def make_many_tools(count: int) -> None:
    """More than a page of them for alice."""
    from django.contrib.auth.models import User
    from django.db import transaction

    from catalog.models import Tool
    from tests.factories import TWO_NUMBERS, grant, make_toolset

    many = make_toolset("Many")
    with transaction.atomic():
        made = Tool.objects.bulk_create(
            Tool(
                name=f"many_{number:03}",
                description="Adds.",
                input_schema=TWO_NUMBERS,
                settings={"function": "plus"},
            )
            for number in range(count)
        )
        many.tools.add(*made)
        grant(User.objects.get(username="alice"), many)


async def test_a_request_state_of_somebody_else_is_not_valid(alice: Raw, bob: Raw) -> None:
    params = {"name": "ask_end", "arguments": {}}
    asked = (await alice.modern("tools/call", params, capabilities=EXTENSIONS)).result()
    state, key = asked["requestState"], next(iter(asked["inputRequests"]))
    given = {"inputResponses": {key: {"action": "accept", "content": {"end": "Ann"}}}}

    def again(who: Raw, state: str) -> Awaitable[Answer]:
        return who.modern("tools/call", {**params, **given, "requestState": state}, capabilities=EXTENSIONS)

    await assert_same(lambda s: again(bob, s), state, tamper(state), status=400, code=-32602)
    assert "Ann" in (await again(alice, state)).result()["content"][0]["text"]


async def test_a_stored_result_of_somebody_else_is_unknown(alice: Raw, bob: Raw) -> None:
    made = (await alice.modern("tools/call", {"name": "overlong", "arguments": {"text": "secret"}})).result()
    uri = next(block["uri"] for block in made["content"] if block["type"] == "resource_link")
    nobodys = f"toolhub://results/{uuid.uuid4()}"
    assert b"secretsecret" in (await alice.modern("resources/read", {"uri": uri})).body
    await assert_same(lambda u: bob.modern("resources/read", {"uri": u}), uri, nobodys, status=400)
    his = await bob.session()
    await assert_same(lambda u: bob.handshake("resources/read", {"uri": u}, his), uri, nobodys, status=200)


async def test_over_a_websocket_ids_of_somebody_else_are_unknown_too(hub: Hub, alice: Raw) -> None:
    made = (await alice.modern("tools/call", {"name": "overlong", "arguments": {"text": "secret"}})).result()
    uri = next(block["uri"] for block in made["content"] if block["type"] == "resource_link")
    asked = await alice.modern("tools/call", {"name": "ask_in_task", "arguments": {}}, capabilities=EXTENSIONS)
    task = asked.result()["taskId"]
    pairs = {
        ("resources/read", "uri"): (uri, f"toolhub://results/{uuid.uuid4()}"),
        ("tasks/get", "taskId"): (task, str(uuid.uuid4())),
        ("tasks/cancel", "taskId"): (task, str(uuid.uuid4())),
    }
    ids = itertools.count(1)
    async with WebSocketClient(
        hub.ws_url, hub.seeded["bob"], "2026-07-28", capabilities=EXTENSIONS, name="same"
    ) as client:
        for (method, member), values in pairs.items():
            seen = []
            for value in values:
                request_id = f"r{next(ids)}"
                with pytest.raises(Exception, match="-32") as refused:
                    await client.request(method, {member: value}, request_id=request_id)
                seen.append(str(refused.value).replace(value, "..."))
                answer = json.dumps(client.messages[-1]).replace(value, "...").replace(request_id, "id")
                seen[-1] += answer
            assert seen[0] == seen[1]
    await alice.modern("tasks/cancel", {"taskId": task}, capabilities=EXTENSIONS)
