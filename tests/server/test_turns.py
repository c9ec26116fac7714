"""Users take turns: a flood of one waits for itself."""

from __future__ import annotations

import asyncio

import pytest

from toolhub.server import turns
from toolhub.server.turns import MAX_BEGUN_PER_PASS, Turns, count_turns

ALICE, BOB = 1, 2


async def passes(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_request_that_comes_alone_has_its_turn_at_once() -> None:
    found = Turns()
    for _ in range(5):
        assert found.take(ALICE)
        await passes(2)


async def test_so_many_are_begun_before_the_loop_looks_for_others() -> None:
    found, begun = Turns(), list[int]()
    for _ in range(100):
        found.put(BOB, lambda: begun.append(BOB))
    await passes(1)
    assert len(begun) == MAX_BEGUN_PER_PASS
    await passes(2)
    assert len(begun) == 3 * MAX_BEGUN_PER_PASS
    assert not found.take(ALICE), "who comes now waits for a turn"


async def test_the_next_user_waits_for_a_few_requests_and_not_for_all() -> None:
    found, begun = Turns(), list[int]()
    for _ in range(1000):
        found.put(BOB, lambda: begun.append(BOB))
    found.put(ALICE, lambda: begun.append(ALICE))
    await passes(1)
    assert ALICE in begun
    waiting = asyncio.create_task(found.wait(ALICE))
    await passes(4)
    assert waiting.done() and len(begun) < 100


async def test_many_requests_at_once_over_http_wait_for_later_passes() -> None:
    found = Turns()
    taken = [found.take(ALICE) for _ in range(20)]
    assert taken.count(True) == MAX_BEGUN_PER_PASS
    waiting = [asyncio.create_task(found.wait(BOB)) for _ in range(12)]
    await passes(10)
    assert all(task.done() for task in waiting)
    assert found.take(ALICE)


async def test_a_large_request_takes_the_turns_of_many_small_ones() -> None:
    found, begun = Turns(), list[int]()
    for taken in (MAX_BEGUN_PER_PASS, 1, 4, 1, 1, 4, 1):
        found.put(BOB, lambda taken=taken: begun.append(taken), taken)  # type: ignore[misc]
    sizes = []
    for _ in range(3):
        await passes(1)
        sizes.append(len(begun))
    assert sizes == [1, 6, 7]
    assert found.take(BOB, MAX_BEGUN_PER_PASS) and not found.take(ALICE)


async def test_who_sends_a_very_large_request_rests_while_others_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "REST_SECONDS_PER_TURN", 3600.0)
    found, begun = Turns(), list[int]()
    assert found.take(BOB, 200)
    found.put(BOB, lambda: begun.append(BOB))
    await passes(5)
    assert not begun and not found.take(BOB)
    for _ in range(20):
        found.put(ALICE, lambda: begun.append(ALICE))
    await passes(5)
    assert begun == [ALICE] * 20
    found._end_rest(BOB)
    await passes(2)
    assert begun[-1] == BOB
    monkeypatch.setattr(turns, "REST_SECONDS_PER_TURN", 0.0)
    found.put(BOB, lambda: None, 200)
    await asyncio.wait_for(found.wait(BOB), 60)


def test_a_body_counts_by_its_values_and_its_size() -> None:
    assert count_turns(b"{}") == count_turns(b"[" * 10_000) == 1
    assert count_turns(b"1," * 100_000) == 1 + 100 + 1
    assert count_turns(b"x" * 4_000_000) == 1 + 30


async def test_who_leaves_while_waiting_takes_no_turn() -> None:
    found = Turns()
    for _ in range(5 * MAX_BEGUN_PER_PASS):
        found.put(BOB, lambda: None)
    waiting = [asyncio.create_task(found.wait(BOB)) for _ in range(3)]
    await passes(1)
    assert not any(task.done() for task in waiting)
    waiting[1].cancel()
    await passes(10)
    assert waiting[0].done() and waiting[1].cancelled() and waiting[2].done()


async def test_messages_in_progress_are_bounded_and_go_on_when_some_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "MAX_IN_PROGRESS_PER_USER", 3)
    found, release, running = Turns(), asyncio.Event(), list[asyncio.Task[bool]]()

    def begin() -> asyncio.Task[bool]:
        task = asyncio.create_task(release.wait())
        running.append(task)
        return task

    for _ in range(9):
        found.put(BOB, begin)
    await passes(20)
    assert len(running) == 3
    other = asyncio.create_task(found.wait(ALICE))
    await passes(4)
    assert other.done(), "others go on meanwhile"
    release.set()
    await passes(30)
    assert len(running) == 9 and not found._in_progress and not found._waiting


async def test_a_message_that_cannot_be_begun_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    found, begun = Turns(), list[int]()

    def fail() -> None:
        raise ValueError("broken")

    found.put(BOB, fail)
    found.put(BOB, lambda: begun.append(BOB))
    await passes(3)
    assert begun == [BOB] and "could not be begun" in caplog.text
