"""Several workers and one Redis: news, answers that reach another worker, sessions, and what a lost Redis changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from channels_redis.core import RedisChannelLayer

from audit.types import Credential
from catalog import signals
from catalog.errors import CLIENT_GONE, UNKNOWN_CANCELLATION
from tests.polling import wait_until_async
from tests.real_servers import Redis
from tests.server.conftest import Outlet
from toolhub.server import bus, channels, list_changes, peer, redis_pools, requests, sessions, state
from toolhub.server.process import ServerRole
from toolhub.server.sessions import Sessions
from toolhub.server.state import SharedState
from toolhub.wire import jsonrpc

pytestmark = pytest.mark.redis

ALICE = Credential(1, "alice", "token:1", "laptop", None, None)
CROWD = 150
"""More than a pool of the Redis client has connections."""
QUESTION: dict[str, Any] = {"roots": ("roots/list", {})}


@pytest.fixture
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    server = Redis(Path(tmp_path_factory.mktemp("r")) / "s")
    server.start()
    yield server
    server.stop()


async def start_nothing() -> None:
    """No catalogue and no database: these tests need what talks to other workers only."""


@pytest.fixture
def server() -> ServerRole:
    return ServerRole(start_nothing)


@pytest.fixture
async def other(redis: Redis, server: ServerRole, settings: Any) -> AsyncIterator[RedisChannelLayer]:
    """The relay of this worker is running; what comes is the channel layer of another one.

    Both are patient: a machine that is busy with other tests must not look like a store that is away.
    """
    settings.REDIS_URL = redis.url
    settings.REDIS_SECONDS = 30.0
    hosts = [{"address": redis.url, "socket_timeout": 60, "socket_connect_timeout": 30}]
    settings.CHANNEL_LAYERS = {
        "default": {"BACKEND": "toolhub.server.redis_pools.ChannelLayer", "CONFIG": {"hosts": hosts, "expiry": 30}}
    }
    await server.bus.start()
    layer = RedisChannelLayer(hosts=hosts)
    await layer.group_add(bus.GROUP, "toolhub.worker.00000000")
    yield layer
    await server.bus.stop()
    await server.state.close()


async def test_a_crowd_of_commands_shares_a_few_connections(redis: Redis, settings: Any) -> None:
    settings.REDIS_URL, settings.REDIS_SECONDS = redis.url, 30.0
    hosts = [{"address": redis.url, "socket_timeout": 30.0}]
    shared, layer = SharedState(), redis_pools.ChannelLayer(hosts=hosts, capacity=CROWD)
    await asyncio.gather(
        *(shared.write(f"key {number}", {"number": str(number)}, 60) for number in range(CROWD)),
        *(layer.send("crowd", {"number": number}) for number in range(CROWD)),
    )
    assert not shared._is_breaker_open()
    other = SharedState()
    found = await asyncio.gather(*(other.read(f"key {number}") for number in range(CROWD)))
    assert [one["number"] for one in found] == [str(number) for number in range(CROWD)]
    received = [(await layer.receive("crowd"))["number"] for _ in range(CROWD)]
    assert sorted(received) == list(range(CROWD))
    connections = len(await shared.client().client_list())
    assert connections <= 3 * redis_pools.MAX_CONNECTIONS
    await layer.close_pools()
    for one in (shared, other):
        await one.close()


def make_message(kind: str, /, **payload: Any) -> dict[str, Any]:
    return {"type": "news", "kind": kind, "by": "00000000", "payload": payload}


async def wait_for_messages(server: ServerRole, layer: RedisChannelLayer, kind: str) -> list[dict[str, Any]]:
    """Publish from the other worker until it arrives here: joining the group takes a moment."""
    found: list[dict[str, Any]] = []
    server.bus.on(kind, found.append)

    async def try_again() -> bool:
        await layer.group_send(bus.GROUP, make_message(kind, number=len(found)))
        await asyncio.sleep(0.05)
        return bool(found)

    await wait_until_async(try_again)
    return found


async def test_messages_reach_every_worker_or_the_one_they_are_meant_for(
    server: ServerRole, other: RedisChannelLayer
) -> None:
    await wait_for_messages(server, other, "test.heard")
    mine: list[dict[str, Any]] = []
    server.bus.on("test.mine", mine.append)
    assert await server.bus.publish("test.mine", {"n": 1})
    assert mine == [{"n": 1}]
    assert (await other.receive("toolhub.worker.00000000"))["kind"] in ("test.heard", "test.mine")
    assert await server.bus.publish("test.directed", {"n": 2}, "00000000")
    while (message := await other.receive("toolhub.worker.00000000"))["kind"] != "test.directed":
        pass
    assert message["payload"] == {"n": 2} and message["by"] == server.bus.worker
    assert mine == [{"n": 1}]


async def test_a_committed_change_of_the_catalogue_is_announced_to_the_other_workers(
    server: ServerRole, other: RedisChannelLayer
) -> None:
    await wait_for_messages(server, other, "test.changes")
    server.list_changes.start()
    await asyncio.to_thread(signals.changed.send, sender=None)
    while (await other.receive("toolhub.worker.00000000"))["kind"] != list_changes.CHANGED:
        pass


def make_peer(server: ServerRole, credential: Credential) -> peer.Peer:
    session = server.sessions.create(credential, "2025-11-25", {"roots": {}}, "client", "1")
    return peer.handshake(session, credential, "http", "192.0.2.1")


async def test_an_answer_posted_to_another_worker_reaches_the_call_that_asked(
    server: ServerRole, other: RedisChannelLayer
) -> None:
    await wait_for_messages(server, other, "test.answer")
    asking = make_peer(server, ALICE)
    outlet = Outlet("2025-11-25", {"roots": {}})
    waiting = asyncio.create_task(server.channels.ask(asking, outlet, QUESTION))
    request = await outlet.first("roots/list")
    body = jsonrpc.encode({"id": request["id"], "result": {"roots": []}}).decode()
    for session, user in (("another", 1), (asking.scope, 2)):
        stolen = make_message(channels.ANSWER, session=session, user=user, body=body.replace("[]", "[1]"))
        await other.send(f"toolhub.worker.{server.bus.worker}", stolen)
    good = make_message(channels.ANSWER, session=asking.scope, user=1, body=body)
    await other.send(f"toolhub.worker.{server.bus.worker}", good)
    assert await waiting == {"roots": {"roots": []}}

    # And the other way round: what is answered here is handed to the worker that the id names.
    owner = (asking.scope, 1)
    foreign = channels._sign_id("00000000.7", (asking.scope, 2))
    for invented in ("00000000.7.abc", "00000000.7", foreign):
        await server.channels.handle_reply(jsonrpc.Response(invented, result={"roots": ["no"]}), asking)
    answered = jsonrpc.Response(channels._sign_id("00000000.7", owner), result={"roots": []})
    await server.channels.handle_reply(answered, asking)
    while (message := await other.receive("toolhub.worker.00000000"))["kind"] != channels.ANSWER:
        pass
    assert message["payload"]["session"] == asking.scope and message["payload"]["user"] == 1
    assert '"no"' not in message["payload"]["body"], "what nobody asked is not passed on"


async def test_a_request_is_cancelled_on_the_worker_that_has_it(server: ServerRole, other: RedisChannelLayer) -> None:
    await wait_for_messages(server, other, "test.cancel")
    asking = make_peer(server, ALICE)
    known = CLIENT_GONE.reason.encode()
    for request_id, kind, sent, reason in (
        (7, "number", known, CLIENT_GONE),
        ("7", "text", known, CLIENT_GONE),
        (2**70, "number", known, CLIENT_GONE),
        # Of a worker of another version: nobody is told that the client did it.
        (8, "number", "over there", UNKNOWN_CANCELLATION),
        (8, "number", '["cancelled.in_future", {}]', UNKNOWN_CANCELLATION),
    ):

        async def work(request_id: Any = request_id) -> None:
            entry = server.requests.enter(asking, request_id, True)
            try:
                await asyncio.sleep(60)
            finally:
                server.requests.leave(entry)

        running = asyncio.create_task(work())
        await wait_until_async(server.requests.count_running)
        message = make_message(requests.CANCEL, scope=asking.scope, id=str(request_id), kind=kind, reason=sent)
        await other.group_send(bus.GROUP, message)
        with pytest.raises(asyncio.CancelledError, match=f"^{reason}$"):
            await running
    # A number of any size goes out as text.
    await server.requests.cancel(asking, 2**70)
    assert not server.bus.is_degraded()


async def test_a_session_closed_by_another_worker_is_unknown_here_at_once(
    server: ServerRole, other: RedisChannelLayer
) -> None:
    session = server.sessions.create(ALICE, "2025-11-25", {}, "client", "1")
    await server.sessions.set_level(session, "error")
    await server.sessions.require(session.id, ALICE)
    await server.state.client().hset(state.PREFIX + session.key, "closed", "1")
    with pytest.raises(sessions.UnknownSession):
        await server.sessions.require(session.id, ALICE)


async def test_while_redis_is_away_everything_goes_on_and_afterwards_it_catches_up(
    server: ServerRole, other: RedisChannelLayer, redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    await wait_for_messages(server, other, "test.before")
    kept, closed = (server.sessions.create(ALICE, "2025-11-25", {}, "client", "1") for _ in range(2))
    await server.sessions.set_level(kept, "error")
    redis.stop()
    heard: list[dict[str, Any]] = []
    server.bus.on("test.away", heard.append)
    with caplog.at_level(logging.WARNING):
        for number in range(20):
            await server.bus.publish("test.away", {"n": number})
            await server.bus.publish("test.away", {"n": number}, "00000000")
        await server.sessions.close(closed.id, ALICE)
        await server.sessions.require(kept.id, ALICE)
        with pytest.raises(sessions.UnknownSession):
            await server.sessions.require(closed.id, ALICE)
    assert [one["n"] for one in heard] == list(range(20))
    assert sum("change notifications between workers" in record.message for record in caplog.records) == 1
    assert sum("sessions go on" in record.message for record in caplog.records) == 1

    redis.start()  # empty: it forgot every group and every session
    await wait_for_messages(server, other, "test.after")

    async def handed_over() -> bool:
        await server.sessions.require(kept.id, ALICE)
        return bool(await server.state.client().hget(state.PREFIX + closed.key, "closed"))

    await wait_until_async(handed_over)
    state_of_another = SharedState()
    later = Sessions(server.bus, state_of_another)
    assert (await later.require(kept.id, ALICE)).key == kept.key
    with pytest.raises(sessions.UnknownSession):
        await later.require(closed.id, ALICE)
    await state_of_another.close()
