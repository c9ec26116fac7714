"""Calls at a time: exactly as many as the limit says, in one process and in several, and every place comes back."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from catalog.metering.limit_cache import LimitThreads
from catalog.metering.running import Pair, RunningReached, Slot, Slots
from catalog.policy.definitions import LimitRule
from tests import factories
from tests.catalog.metering import apart
from tests.catalog.metering.redis_limits import LimitsRedis
from tests.catalog.metering.rules import find_rule
from tests.polling import wait_until, wait_until_async
from toolhub.parts import parts

LEASE_SECONDS = 3.0
Maker = Callable[[], Slots]


def rule_of(number: int, rate: int | str = 1) -> LimitRule:
    return LimitRule(number, "all", None, "each_user", None, str(rate), measure="running")


@pytest.fixture
def make() -> Iterator[Maker]:
    """Makes what one process has; two of them share only Redis, as two processes do."""
    made: list[Slots] = []

    def make_slots() -> Slots:
        made.append(Slots(LEASE_SECONDS))
        return made[-1]

    yield make_slots
    for slots in made:
        for slot in [*slots._held.values()]:
            slot.leave()
    for slots in made:
        wait_until(partial(_is_idle, slots), what="a thread that has nothing to renew")


def _is_idle(slots: Slots) -> bool:
    return not slots._renewing


async def try_to_enter(slots: Slots, pairs: Sequence[Pair]) -> Slot | None:
    try:
        return await slots.enter(pairs)
    except RunningReached:
        return None


async def count_entered(slots: Sequence[Slots], pairs: Sequence[Pair], tries: int) -> int:
    found = await asyncio.gather(*(try_to_enter(one, pairs) for one in slots for _ in range(tries)))
    return sum(slot is not None for slot in found)


async def count(slots: Slots, rule: LimitRule, subject: str = "user 5") -> int:
    return await asyncio.get_running_loop().run_in_executor(
        parts.get(LimitThreads).executor, lambda: slots.count(rule, subject)
    )


# --- refused ---------------------------------------------------------------------------------------------------------


async def test_the_call_beyond_the_limit_is_refused_until_one_has_ended(counter: None, make: Maker) -> None:
    slots, rule = make(), rule_of(1, 2)
    pairs = [(rule, "user 5")]
    first, _second = await slots.enter(pairs), await slots.enter(pairs)
    with pytest.raises(RunningReached) as caught:
        await slots.enter(pairs)
    assert caught.value.rule is rule
    first.leave()
    await slots.enter(pairs)
    with pytest.raises(RunningReached):
        await slots.enter(pairs)
    assert await count(slots, rule) == 2


async def test_a_call_that_one_of_its_limits_refuses_takes_no_place_of_the_others(counter: None, make: Maker) -> None:
    slots, wide, narrow = make(), rule_of(1, 5), rule_of(2, 1)
    pairs = [(wide, "user 5"), (narrow, "everyone")]
    await slots.enter(pairs)
    for order in (pairs, pairs[::-1]):
        with pytest.raises(RunningReached) as caught:
            await slots.enter(order)
        assert caught.value.rule is narrow
    assert [await count(slots, wide), await count(slots, narrow, "everyone")] == [1, 1]


@pytest.mark.redis
async def test_a_call_that_another_process_leaves_no_place_takes_none_here(redis: LimitsRedis, make: Maker) -> None:
    here, there, wide, narrow = make(), make(), rule_of(1, 5), rule_of(2, 1)
    await there.enter([(narrow, "everyone")])
    for order in ([(wide, "user 5"), (narrow, "everyone")], [(narrow, "everyone"), (wide, "user 5")]):
        with pytest.raises(RunningReached) as caught:
            await here.enter(order)
        assert caught.value.rule is narrow
    assert (await count(here, wide), redis.count_places()) == (0, 1)


async def test_a_limit_of_no_calls_admits_none(counter: None, make: Maker) -> None:
    assert await count_entered([make()], [(rule_of(1, 0), "user 5")], 2) == 0


# --- at the same time ------------------------------------------------------------------------------------------------


async def test_two_hundred_calls_at_once_get_exactly_twenty_places(counter: None, make: Maker) -> None:
    assert await count_entered([make()], [(rule_of(1, 20), "user 5")], 200) == 20


def test_event_loops_in_ten_threads_get_exactly_twenty_places_together(counter: None, make: Maker) -> None:
    slots, pairs, start = make(), [(rule_of(1, 20), "user 5")], threading.Barrier(10)
    counts: list[int] = []

    def work() -> None:
        start.wait(60)
        counts.append(asyncio.run(count_entered([slots], pairs, 20)))

    threads = [threading.Thread(target=work) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (len(counts), sum(counts)) == (10, 20)


@pytest.mark.redis
async def test_several_processes_get_exactly_twenty_places_of_each_of_two_limits(
    redis: LimitsRedis, make: Maker
) -> None:
    pairs = [(rule_of(1, 30), "user 5"), (rule_of(2, 20), "everyone")]
    assert await count_entered([make() for _ in range(5)], pairs, 20) == 20
    assert redis.count_places() == 40


@pytest.mark.redis
@pytest.mark.django_db(transaction=True)
def test_two_real_processes_share_the_places_and_those_of_a_killed_one_come_back(
    redis: LimitsRedis, make: Maker, tmp_path: Path
) -> None:
    limit = factories.limit("7", measure="running", scope="everyone_together")
    rule, slots = find_rule(limit), make()
    values = {"limit_id": limit.pk, "lease_seconds": LEASE_SECONDS}
    first = apart.process(tmp_path, apart.run, {**values, "tries": 3}, redis.url)
    second = apart.process(tmp_path, apart.run, {**values, "tries": 20}, redis.url)
    with first as lasting, second as killed:
        assert [apart.read_line(child) for child in (lasting, killed)] == ["ready", "ready"]
        for child, expected in ((lasting, 3), (killed, 4)):
            apart.go_on(child)
            assert apart.read_line(child) == expected
        assert slots.count(rule, "everyone") == 7
        killed.kill()
        wait_until(lambda: slots.count(rule, "everyone") == 3, what="the places of the killed process")
        over = time.monotonic() + LEASE_SECONDS
        wait_until(lambda: time.monotonic() > over, what="the end of all leases that are not renewed")
        assert slots.count(rule, "everyone") == 3, "the other process renews its own"
        assert asyncio.run(count_entered([slots], [(rule, "everyone")], 9)) == 4
        apart.go_on(lasting)
        wait_until(lambda: slots.count(rule, "everyone") == 4, what="the places of the calls that have ended")


# --- places come back ------------------------------------------------------------------------------------------------


async def test_leaving_twice_gives_one_place_back(counter: None, make: Maker) -> None:
    slots, rule = make(), rule_of(1, 2)
    first, _second = [await slots.enter([(rule, "user 5")]) for _ in range(2)]
    for _ in range(3):
        first.leave()
    assert await count(slots, rule) == 1
    assert await count_entered([slots], [(rule, "user 5")], 5) == 1


async def test_the_next_call_of_a_client_finds_the_place_that_its_last_one_gave_back(
    counter: None, make: Maker
) -> None:
    slots, pairs = make(), [(rule_of(1, 1), "user 5")]
    for _ in range(200):
        (await slots.enter(pairs)).leave()


async def test_each_subject_and_each_limit_has_places_of_its_own(counter: None, make: Maker) -> None:
    slots = make()
    for number in (1, 2):
        for subject in ("user 5", "user 6", "group 5", "everyone"):
            assert await count_entered([slots], [(rule_of(number, 2), subject)], 3) == 2


async def test_a_cancelled_call_gives_its_place_back(counter: None, make: Maker) -> None:
    slots, rule, entered = make(), rule_of(1, 1), asyncio.Event()

    async def call() -> None:
        slot = await slots.enter([(rule, "user 5")])
        try:
            entered.set()
            await asyncio.Event().wait()
        finally:
            slot.leave()

    task = asyncio.create_task(call())
    await entered.wait()
    task.cancel()
    await asyncio.wait([task])
    assert await count(slots, rule) == 0


def test_a_call_whose_event_loop_has_stopped_gives_its_place_back(counter: None, make: Maker) -> None:
    slots, rule = make(), rule_of(1, 1)
    slot = asyncio.run(slots.enter([(rule, "user 5")]))
    slot.leave()
    assert slots.count(rule, "user 5") == 0


@pytest.mark.redis
async def test_leaving_while_the_process_stops_raises_nothing(redis: LimitsRedis, make: Maker) -> None:
    slots, rule = make(), rule_of(1, 1)
    slot = await slots.enter([(rule, "user 5")])
    parts.get(LimitThreads).executor.shutdown()
    slot.leave()
    assert slots._count_here("running 1 user 5") == 0


@pytest.mark.redis
async def test_an_entry_that_is_cancelled_while_redis_works_leaves_no_place_behind(
    redis: LimitsRedis, make: Maker
) -> None:
    slots, rule = make(), rule_of(1, 1)
    await count(slots, rule)  # one thread is connected
    with redis.hanging():
        entering = asyncio.create_task(slots.enter([(rule, "user 5")]))
        await wait_until_async(lambda: bool(slots._held), what="a place here")
        queued = parts.get(LimitThreads).executor._work_queue
        await wait_until_async(queued.empty, what="a thread that asks Redis")
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
        assert slots._count_here("running 1 user 5") == 0
    await wait_until_async(lambda: redis.count_commands("zadd") >= 1, what="the place that nobody waits for any more")
    await wait_until_async(lambda: redis.count_places() == 0, what="no place in Redis")
    assert await count_entered([slots], [(rule, "user 5")], 2) == 1


@pytest.mark.redis
async def test_an_entry_that_misses_its_deadline_leaves_no_place_behind(
    redis: LimitsRedis, make: Maker, settings: Any
) -> None:
    settings.RECORD_SECONDS = 0.5
    slots, rule = make(), rule_of(1, 1)

    async def enter() -> None:
        asyncio.current_task().arrived = time.monotonic()  # type: ignore[union-attr]
        await slots.enter([(rule, "user 5")])

    with redis.hanging():
        with pytest.raises(TimeoutError):
            await asyncio.create_task(enter())
        assert slots._count_here("running 1 user 5") == 0
    await wait_until_async(lambda: redis.count_commands("zrem") >= 1, what="news of the one that has left")
    await wait_until_async(lambda: redis.count_places() == 0, what="no place in Redis")


@pytest.mark.redis
async def test_a_long_call_keeps_its_place_and_nothing_is_renewed_after_it(redis: LimitsRedis, make: Maker) -> None:
    here, there, pairs = make(), make(), [(rule_of(1, 1), "user 5")]
    slot = await here.enter(pairs)
    renewed = redis.count_commands("zadd") + 4
    await wait_until_async(lambda: redis.count_commands("zadd") >= renewed, what="renewals for longer than a lease")
    assert await count_entered([there], pairs, 1) == 0
    slot.leave()
    await wait_until_async(lambda: not here._renewing, what="the end of the renewals")
    assert redis.count_places() == 0
    assert await count_entered([there], pairs, 1) == 1


@pytest.mark.redis
async def test_redis_keeps_nothing_of_a_process_that_is_gone(redis: LimitsRedis) -> None:
    slots = Slots(lease_seconds=0.5)
    slots._renewing = True  # a process that does nothing more
    await slots.enter([(rule_of(1, 1), "user 5"), (rule_of(2, 1), "everyone")])
    assert redis.count_places() == 2
    await wait_until_async(lambda: redis.count_places() == 0, what="the end of the leases")


# --- Redis is away ---------------------------------------------------------------------------------------------------


@pytest.mark.redis
async def test_while_redis_is_away_each_process_counts_for_itself_and_says_so_once(
    redis: LimitsRedis, make: Maker, caplog: pytest.LogCaptureFixture
) -> None:
    here, there, pairs = make(), make(), [(rule_of(1, 2), "user 5")]
    redis.stop()
    with caplog.at_level(logging.WARNING, "toolhub.limits"):
        assert await count_entered([here, there], pairs, 10) == 4
        assert await count(here, pairs[0][0]) == 2
    assert [record.message for record in caplog.records if "counts limits for itself" in record.message] == [
        "Redis does not answer (ConnectionError): every process counts limits for itself until it does."
    ]
    redis.start()  # for the end of the test


@pytest.mark.redis
async def test_calls_that_started_while_redis_was_away_count_for_all_when_it_is_back(
    redis: LimitsRedis, make: Maker
) -> None:
    here, there, pairs = make(), make(), [(rule_of(1, 2), "user 5")]
    redis.stop()
    slot = await here.enter(pairs)
    redis.start()
    redis.answer_again()
    await wait_until_async(lambda: redis.count_places() == 1, what="the running call in Redis")
    assert await count_entered([there], pairs, 5) == 1
    slot.leave()
    await wait_until_async(lambda: redis.count_places() == 1, what="the end of the call in Redis")


@pytest.mark.redis
async def test_a_call_that_ends_while_redis_is_away_gives_its_place_back_here_at_once(
    redis: LimitsRedis, make: Maker
) -> None:
    slots, pairs = make(), [(rule_of(1, 1), "user 5")]
    slot = await slots.enter(pairs)
    redis.stop()
    slot.leave()
    again = await slots.enter(pairs)
    again.leave()
    redis.start()


@pytest.mark.redis
async def test_leaving_does_not_wait_for_redis_and_another_process_gets_the_place_when_it_answers(
    redis: LimitsRedis, make: Maker
) -> None:
    here, there, pairs = make(), make(), [(rule_of(1, 1), "user 5")]
    slot = await here.enter(pairs)
    with redis.hanging():
        slot.leave()
        assert here._count_here("running 1 user 5") == 0
        assert redis.server.process is not None, "and still nobody has heard from Redis"
    await wait_until_async(lambda: redis.count_places() == 0, what="the end of the call in Redis")
    assert await count_entered([there], pairs, 1) == 1
