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
from tests.server.conftest import Outlet
from tests.serving import Redis
from tests.waiting import eventually
from toolhub.server import bus, channels, list_changes, peer, requests, sessions, state
from toolhub.wire import jsonrpc

pytestmark = pytest.mark.redis

ALICE = Credential(1, "alice", "token:1", "laptop", None, None)
QUESTION: dict[str, Any] = {"roots": ("roots/list", {})}


@pytest.fixture
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    server = Redis(Path(tmp_path_factory.mktemp("r")) / "s")
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def other(redis: Redis, settings: Any) -> AsyncIterator[RedisChannelLayer]:
    """The relay of this worker is running; what comes is the channel layer of another one.

    Both are patient: a machine that is busy with other tests must not look like a store that is away.
    """
    settings.REDIS_URL = redis.url
    settings.REDIS_SECONDS = 30.0
    hosts = [{"address": redis.url, "socket_timeout": 60, "socket_connect_timeout": 30}]
    settings.CHANNEL_LAYERS = {
        "default": {"BACKEND": "channels_redis.core.RedisChannelLayer", "CONFIG": {"hosts": hosts, "expiry": 30}}
    }
    state.reset()
    requests.accept()
    sessions._known.clear()
    bus._closed_until = state._closed_until = 0.0
    bus._complained = state._complained = -1000.0
    await bus.start()
    layer = RedisChannelLayer(hosts=hosts)
    await layer.group_add(bus.GROUP, "toolhub.worker.00000000")
    yield layer
    await bus.stop()
    await state.close()
    state.reset()
    bus._closed_until = state._closed_until = 0.0


def news(kind: str, /, **payload: Any) -> dict[str, Any]:
    return {"type": "news", "kind": kind, "by": "00000000", "payload": payload}


async def heard_from(layer: RedisChannelLayer, kind: str) -> list[dict[str, Any]]:
    """Publish from the other worker until it arrives here: joining the group takes a moment."""
    found: list[dict[str, Any]] = []
    bus.on(kind, found.append)

    async def try_again() -> bool:
        await layer.group_send(bus.GROUP, news(kind, number=len(found)))
        await asyncio.sleep(0.05)
        return bool(found)

    await eventually(try_again)
    return found


async def test_news_reaches_every_worker_and_the_one_it_is_meant_for(other: RedisChannelLayer) -> None:
    await heard_from(other, "test.heard")
    mine: list[dict[str, Any]] = []
    bus.on("test.mine", mine.append)
    assert await bus.publish("test.mine", {"n": 1})
    assert mine == [{"n": 1}]
    assert (await other.receive("toolhub.worker.00000000"))["kind"] in ("test.heard", "test.mine")
    assert await bus.publish("test.directed", {"n": 2}, "00000000")
    while (message := await other.receive("toolhub.worker.00000000"))["kind"] != "test.directed":
        pass
    assert message["payload"] == {"n": 2} and message["by"] == bus.WORKER
    assert mine == [{"n": 1}]


async def test_a_committed_change_of_the_catalogue_is_told_to_the_other_workers(other: RedisChannelLayer) -> None:
    await heard_from(other, "test.changes")
    list_changes.start()
    await asyncio.to_thread(signals.changed.send, sender=None)
    while (await other.receive("toolhub.worker.00000000"))["kind"] != list_changes.CHANGED:
        pass


def peer_of(credential: Credential) -> peer.Peer:
    session = sessions.create(credential, "2025-11-25", {"roots": {}}, "client", "1")
    return peer.handshake(session, credential, "http", "192.0.2.1")


async def test_an_answer_posted_to_another_worker_reaches_the_call_that_asked(other: RedisChannelLayer) -> None:
    await heard_from(other, "test.answer")
    asking = peer_of(ALICE)
    outlet = Outlet("2025-11-25", {"roots": {}})
    waiting = asyncio.create_task(channels.ask(asking, outlet, QUESTION))
    request = await outlet.first("roots/list")
    body = jsonrpc.encode({"id": request["id"], "result": {"roots": []}}).decode()
    for session, user in (("another", 1), (asking.scope, 2)):
        stolen = news(channels.ANSWER, session=session, user=user, body=body.replace("[]", "[1]"))
        await other.send(f"toolhub.worker.{bus.WORKER}", stolen)
    good = news(channels.ANSWER, session=asking.scope, user=1, body=body)
    await other.send(f"toolhub.worker.{bus.WORKER}", good)
    assert await waiting == {"roots": {"roots": []}}

    # And the other way round: what is answered here is handed to the worker that the id names.
    await channels.replied(jsonrpc.Response("00000000.7.abc", result={"roots": []}), asking)
    while (message := await other.receive("toolhub.worker.00000000"))["kind"] != channels.ANSWER:
        pass
    assert message["payload"]["session"] == asking.scope and message["payload"]["user"] == 1


async def test_a_request_is_cancelled_on_the_worker_that_has_it(other: RedisChannelLayer) -> None:
    await heard_from(other, "test.cancel")
    asking = peer_of(ALICE)
    for request_id, kind in ((7, "number"), ("7", "text"), (2**70, "number")):

        async def work(request_id: Any = request_id) -> None:
            entry = requests.enter(asking, request_id, True)
            try:
                await asyncio.sleep(60)
            finally:
                requests.leave(entry)

        running = asyncio.create_task(work())
        await eventually(requests.running)
        message = news(requests.CANCEL, scope=asking.scope, id=str(request_id), kind=kind, reason="over there")
        await other.group_send(bus.GROUP, message)
        with pytest.raises(asyncio.CancelledError, match="over there"):
            await running
    # A number of any size goes out as text.
    await requests.cancel(asking, 2**70)
    assert not bus.degraded()


async def test_a_session_closed_by_another_worker_is_unknown_here_at_once(other: RedisChannelLayer) -> None:
    session = sessions.create(ALICE, "2025-11-25", {}, "client", "1")
    await sessions.set_level(session, "error")
    await sessions.require(session.id, ALICE)
    await state.client().hset(state.PREFIX + session.key, "closed", "1")
    with pytest.raises(sessions.UnknownSession):
        await sessions.require(session.id, ALICE)


async def test_while_redis_is_away_everything_goes_on_and_afterwards_it_catches_up(
    other: RedisChannelLayer, redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    await heard_from(other, "test.before")
    kept, closed = (sessions.create(ALICE, "2025-11-25", {}, "client", "1") for _ in range(2))
    await sessions.set_level(kept, "error")
    redis.stop()
    heard: list[dict[str, Any]] = []
    bus.on("test.away", heard.append)
    with caplog.at_level(logging.WARNING):
        for number in range(20):
            await bus.publish("test.away", {"n": number})
            await bus.publish("test.away", {"n": number}, "00000000")
        await sessions.close(closed.id, ALICE)
        await sessions.require(kept.id, ALICE)
        with pytest.raises(sessions.UnknownSession):
            await sessions.require(closed.id, ALICE)
    assert [one["n"] for one in heard] == list(range(20))
    assert sum("change notifications between workers" in record.message for record in caplog.records) == 1
    assert sum("sessions go on" in record.message for record in caplog.records) == 1

    redis.start()  # empty: it forgot every group and every session
    await heard_from(other, "test.after")

    async def handed_over() -> bool:
        await sessions.require(kept.id, ALICE)
        return bool(await state.client().hget(state.PREFIX + closed.key, "closed"))

    await eventually(handed_over)
    sessions._known.clear()
    state.reset()
    assert (await sessions.require(kept.id, ALICE)).key == kept.key
    with pytest.raises(sessions.UnknownSession):
        await sessions.require(closed.id, ALICE)
