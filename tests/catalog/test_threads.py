"""The threads of functions that are not async: one user's slow calls leave some to the others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from catalog import slots, threads
from catalog.errors import ToolError
from tests import factories
from tests.catalog import tools
from tests.catalog.pipeline import call, publish, run_in_database, text
from tests.polling import wait_until_async

pytestmark = pytest.mark.django_db(transaction=True)
SIZE, SHARE = 4, 3


@pytest.fixture(autouse=True)
def _small_pool(settings: Any) -> None:
    settings.TOOL_THREADS = SIZE


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What the blocked functions wait for."""
    tools.OPEN["share"] = threading.Event()
    yield tools.OPEN["share"]
    tools.OPEN["share"].set()


def block(user: Any) -> asyncio.Task[Any]:
    """A call whose function keeps its thread until the gate opens."""
    return asyncio.ensure_future(call(user, "call_held", {"label": "share"}))


async def test_slow_calls_of_one_user_leave_threads_to_the_others(alice: Any, bob: Any, gate: threading.Event) -> None:
    await run_in_database(publish, alice, "call_held")
    await run_in_database(publish, bob, "call_double")
    running = [block(alice) for _ in range(2 * SIZE)]
    await wait_until_async(lambda: threads.tools().taken == SHARE)
    assert text(await call(bob, "call_double", {"n": 4})) == "8 in tool"
    assert threads.tools().taken == SHARE
    gate.set()
    assert {text(await one) for one in running} == {"held"}
    assert threads.tools().taken == 0


async def test_a_call_beyond_the_threads_of_one_user_is_told_to_wait_for_one_to_end(
    alice: Any, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run_in_database(publish, alice, "call_held", "call_double")
    running = [block(alice) for _ in range(SHARE)]
    await wait_until_async(lambda: threads.tools().taken == SHARE)
    with monkeypatch.context() as changed:
        changed.setattr(threads, "WAIT_SECONDS", 0.1)
        busy = await call(alice, "call_double", {"n": 4})
    assert busy.is_error
    assert (
        text(busy)
        == "All threads that tools may use for one user are busy with your calls. Try again when one has ended."
    )
    gate.set()
    await asyncio.gather(*running)
    assert text(await call(alice, "call_double", {"n": 4})) == "8 in tool"


async def test_a_wait_for_a_thread_that_is_cancelled_costs_the_user_no_thread(
    alice: Any, bob: Any, gate: threading.Event
) -> None:
    tool = await run_in_database(publish, alice, "call_held")
    await run_in_database(factories.grant, bob, tool)
    running = [block(alice) for _ in range(SHARE)] + [block(bob) for _ in range(SIZE - SHARE)]
    await wait_until_async(lambda: threads.tools().taken == SIZE)
    pool = threads.tools()
    waiting = [block(alice), block(bob)]
    # Alice waits for one of her own threads, bob for one of all.
    await wait_until_async(lambda: pool._slots._slots._waiting and pool._slots._share(alice.pk)._waiting)
    for one in waiting:
        one.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    gate.set()
    await asyncio.gather(*running)
    assert pool.taken == 0
    gate.clear()
    more = [block(bob) for _ in range(SHARE)]
    await wait_until_async(lambda: pool.taken == SHARE, what="as many threads as before")
    gate.set()
    assert {text(await one) for one in more} == {"held"}


async def test_a_pool_of_one_thread_serves_everybody(alice: Any, settings: Any) -> None:
    settings.TOOL_THREADS = 1
    await run_in_database(publish, alice, "call_double")
    results = await asyncio.gather(*(call(alice, "call_double", {"n": n}) for n in range(5)))
    assert [text(result) for result in results] == [f"{2 * n} in tool" for n in range(5)]


async def test_the_shares_of_users_who_use_none_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "MAX_SHARES", 10)
    pool = threads.Pool("shares", SIZE)
    for user in range(50):
        assert await pool.run(lambda: 1, user_id=user) == 1
    assert len(pool._slots._shares) <= 12
    with pytest.raises(ToolError):
        await pool.run(_fail, user_id=1)
    assert pool.taken == 0


def _fail() -> None:
    raise ToolError("no")
