"""The event logs of one process: what one user may keep of them, and what is left in Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.polling import wait_until_async
from tests.real_servers import Redis
from toolhub.server.peer import Session
from toolhub.server.state import SharedState
from toolhub.transports import resume
from toolhub.transports.resume import StreamLog, StreamLogs, UnknownEvent

EVENT = b"x" * 100


def make_session(user_id: int) -> Session:
    return Session(
        id="", key=f"session-{user_id}", user_id=user_id, credential_id="token:1", revision="2025-11-25",
        capabilities={}, client_name="", client_version="", issued_at=0.0, restriction="",
    )  # fmt: skip


async def write(logs: StreamLogs, user_id: int, events: int = 1) -> tuple[StreamLog, str]:
    """A log with so many events; itself, and the id of its priming event."""
    written = logs.open(make_session(user_id))
    first = await written.start()
    for _ in range(events):
        await written.append(EVENT)
    return written, first


async def is_kept(logs: StreamLogs, user_id: int, event_id: str) -> bool:
    try:
        await logs.replay(make_session(user_id), event_id)
    except UnknownEvent:
        return False
    return True


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resume, "MAX_PROCESS_BYTES", 1000)


async def test_a_user_with_more_than_half_of_the_bytes_loses_their_own_oldest_log_first() -> None:
    logs = StreamLogs(SharedState())
    _, bobs = await write(logs, 2, events=2)
    greedy = [(await write(logs, 1, events=3))[1] for _ in range(6)]
    assert await is_kept(logs, 2, bobs), "it is the oldest of all"
    kept = [await is_kept(logs, 1, event_id) for event_id in greedy]
    assert not kept[0] and kept[-1] and kept == sorted(kept)


async def test_without_such_a_user_the_oldest_log_goes_first() -> None:
    logs = StreamLogs(SharedState())
    written = [(user, (await write(logs, user, events=3))[1]) for user in (1, 2, 3, 4)]
    assert [await is_kept(logs, *one) for one in written] == [False, True, True, True]


async def test_a_log_that_was_dropped_takes_no_more_events_and_counts_for_nothing() -> None:
    logs = StreamLogs(SharedState())
    oldest, _ = await write(logs, 1, events=4)
    for _ in range(3):
        await write(logs, 1, events=4)
    for _ in range(50):
        await oldest.append(EVENT)
    assert oldest._local is None
    assert logs._bytes == sum(local.bytes for local in logs._local.values()) <= 1000
    for key in list(logs._local):
        logs.drop(key)
    assert logs._bytes == 0 and not logs._user_bytes


@pytest.fixture
async def redis(tmp_path_factory: pytest.TempPathFactory, settings: Any) -> AsyncIterator[Redis]:
    server = Redis(Path(tmp_path_factory.mktemp("r")) / "s")
    server.start()
    settings.REDIS_URL, settings.REDIS_SECONDS = server.url, 30.0
    yield server
    server.stop()


@pytest.mark.redis
async def test_a_dropped_log_is_dropped_in_redis_too(redis: Redis) -> None:
    state = SharedState()
    logs = StreamLogs(state)
    dropped, _ = await write(logs, 1, events=4)
    for _ in range(4):
        await write(logs, 1, events=4)
    await dropped.append(EVENT)
    await dropped.finish()

    async def count_keys() -> int:
        return len([key async for key in state.client().scan_iter(f"{resume.PREFIX}*")])

    await asyncio.gather(*logs._unlinking)
    assert await count_keys() == len(logs._local) <= 3
    _, largest = await write(logs, 2, events=11)
    await wait_until_async(lambda: not logs._unlinking)
    assert not await is_kept(logs, 2, largest), "larger than all together may be"
    await state.close()
