"""Redis goes away for twenty seconds while people work, and comes back: no call is lost or unrecorded, nobody sees a
tool that is not theirs, news is late and not missing, and the log says what was worse meanwhile."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.client import HttpClient
from tests.e2e import proofs
from tests.e2e.raw import MODERN, Raw
from tests.polling import wait_until_async
from tests.real_servers import Hub

pytestmark = [pytest.mark.postgres, pytest.mark.redis]

AWAY_SECONDS = 20.0
PAUSE_SECONDS = 0.1
"""Between two calls of one connection; eight connections call."""
MAX_POLL_SECONDS = 45.0
"""News that Redis does not carry arrives by polling within five seconds; with room for a busy machine."""
CHANGED = "notifications/tools/list_changed"
LOGGED = (
    "change notifications between workers are delayed",
    "sessions go on with what this worker knows",
    "every process counts limits for itself",
)


def seed_users() -> dict[str, str]:
    from tests.e2e.seed import create_cast, grant_tool
    from tests.factories import limit

    tokens = create_cast()
    grant_tool("whose", ["alice", "bob"])
    grant_tool("ask_end", ["alice"])
    grant_tool("hers", ["alice"], "plus")
    grant_tool("his", ["bob"], "plus")
    grant_tool("withdrawn", ["bob"], "plus")
    from catalog.models import Tool

    limit("5/m", Tool.objects.get(pk=grant_tool("limited", ["alice"], "plus")))
    return tokens


OWN_TOOLS = {
    "alice": {"whose", "ask_end", "hers", "limited", "granted_late"},
    "bob": {"whose", "his", "withdrawn"},
    "charlie": set(),
}


@pytest.fixture
def hub() -> Iterator[Hub]:
    env = {"TOOLHUB_TOOL_MODULES": proofs.MODULES, "PROOF_LEDGER": "/dev/null"}
    with Hub(workers=2, postgres=True, redis=True, env=env, seed=seed_users) as running:
        yield running


class Load:
    """What people do all the while, with a ledger of its own of what they were answered."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.answered: dict[str, str] = {}
        self.lists = 0
        self.over = asyncio.Event()
        self.withdrawn = float("inf")
        """From when on nobody is shown `withdrawn` any more."""

    async def work(self, user: str, connection: Raw, session: str | None) -> None:
        async def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
            if session is None:
                return (await connection.modern(method, params)).result()
            return (await connection.handshake(method, params, session)).result()

        while not self.over.is_set():
            begun = time.monotonic()
            names = {tool["name"] for tool in (await ask("tools/list", {}))["tools"]}
            assert names <= OWN_TOOLS[user], f"{user} was shown {names - OWN_TOOLS[user]}"
            assert begun < self.withdrawn or "withdrawn" not in names, "a tool was shown after it had been withdrawn"
            self.lists += 1
            for _ in range(3 if user != "charlie" else 0):
                nonce = str(uuid.uuid4())
                result = await ask("tools/call", {"name": "whose", "arguments": {"nonce": nonce}})
                assert result["content"][0]["text"] == f"{user} {nonce}"
                self.answered[nonce] = user
                await asyncio.sleep(PAUSE_SECONDS)
            await asyncio.sleep(PAUSE_SECONDS)


def withdraw_grant() -> None:
    from catalog.models import Grant

    Grant.objects.filter(tool__name="withdrawn").delete()


def add_grant() -> None:
    from tests.e2e.seed import grant_tool

    grant_tool("granted_late", ["alice"], "plus")


async def connect_at(hub: Hub, worker: int, client: HttpClient) -> HttpClient:
    with hub.pin_to_worker(worker):
        assert (await client.http.get(f"{hub.url}/healthz")).status_code == 200
    return client


async def test_twenty_seconds_without_redis_lose_nothing_and_show_nothing(hub: Hub) -> None:
    load = Load(hub)
    assert hub.redis is not None
    async with AsyncExitStack() as stack:
        working: list[asyncio.Task[None]] = []
        limited: list[Raw] = []
        listening: list[HttpClient] = []
        for worker in (0, 1):
            for user in ("alice", "bob", "charlie"):
                for era in ("modern", "handshake"):
                    connection = Raw(hub.port, hub.seeded[user])
                    with hub.pin_to_worker(worker):
                        await stack.enter_async_context(connection)
                        session = await connection.session() if era == "handshake" else None
                        await connection.ask("GET", "/healthz", connection.plain().items())
                    working.append(asyncio.ensure_future(load.work(user, connection, session)))
            with hub.pin_to_worker(worker):
                other = await stack.enter_async_context(Raw(hub.port, hub.seeded["alice"]))
                await other.ask("GET", "/healthz", other.plain().items())
            limited.append(other)
            for user in ("alice", "bob"):
                client = HttpClient(hub.mcp_url, hub.seeded[user], MODERN, single=True)
                await stack.enter_async_context(await connect_at(hub, worker, client))
                await client.subscribe(toolsListChanged=True)
                listening.append(client)

        async def go_on(calls: int) -> None:
            enough = len(load.answered) + calls
            await wait_until_async(lambda: len(load.answered) >= enough or any(one.done() for one in working), 90)
            assert not any(one.done() for one in working), [one.exception() for one in working if one.done()]

        await go_on(50)
        leaving = time.monotonic()
        await asyncio.to_thread(hub.redis.stop)
        gone = time.monotonic()
        await go_on(20)

        # News: who loses a tool and who gets one hear of it at both workers.
        alice, bob = listening[0::2], listening[1::2]
        await asyncio.to_thread(hub.call, withdraw_grant)
        told = time.monotonic()
        for client in bob:
            await client.wait_for_message(CHANGED)
        load.withdrawn = time.monotonic()
        took = load.withdrawn - told
        assert took < MAX_POLL_SECONDS, f"news took {took:.1f} s"
        assert not any(client.received_params(CHANGED) for client in alice)
        await asyncio.to_thread(hub.call, add_grant)
        for client in alice:
            await client.wait_for_message(CHANGED)

        # Limits: each worker counts for itself and refuses.
        for connection in limited:
            answers = []
            for _ in range(11):
                answer = await connection.modern("tools/call", {"name": "limited", "arguments": {"a": 1}})
                answers.append(answer.result().get("isError", False))
            assert answers[0] is False and True in answers, "five a minute, and in two periods ten"

        await go_on(20)
        await wait_until_async(lambda: time.monotonic() - gone > AWAY_SECONDS, 60)
        await asyncio.to_thread(hub.redis.start)
        await go_on(50)

        # Limits are counted together again, which is noticed by those who are limited.
        async def together() -> bool:
            for connection in limited:
                await connection.modern("tools/call", {"name": "limited", "arguments": {"a": 1}})
            return "limits are counted for all processes together" in hub.log()

        await wait_until_async(together, 60)

        # What needs both workers works again: a question of one is answered at the other.
        first = await stack.enter_async_context(
            await connect_at(
                hub,
                0,
                HttpClient(
                    hub.mcp_url, hub.seeded["alice"], "2025-11-25", single=True, capabilities={"elicitation": {}}
                ),
            )
        )
        second = await connect_at(hub, 1, first.same_session())
        stack.push_async_callback(second.http.aclose)
        call = asyncio.ensure_future(first.text("ask_end"))
        await first.wait_for_message("elicitation/create")
        question = next(message for message in first.messages if message.get("method") == "elicitation/create")
        reply = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"end": "well"}}}

        async def answered() -> bool:
            await second._reply(reply)
            done, _ = await asyncio.wait([call], timeout=1)
            return bool(done)

        await wait_until_async(answered, 60)
        assert "well" in await call

        load.over.set()
        await asyncio.gather(*working)
    rows = await asyncio.to_thread(hub.call, proofs.list_calls, name="whose")
    recorded = {json.loads(row[3])["nonce"]: (row[1], row[2]) for row in rows}
    assert len(recorded) == len(rows), "a call is on record twice"
    assert recorded == {nonce: (user, "ok") for nonce, user in load.answered.items()}
    assert load.lists > 50
    log = hub.log()
    for sentence in LOGGED:
        lines = [line for line in log.splitlines() if sentence in line and "WARNING" in line]
        assert 1 <= len(lines) <= 2 * (1 + (time.monotonic() - leaving) / 60), (sentence, lines)
