"""The rows of tasks: whose they are, how they end, what happens when two come at once."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from audit import recorder
from audit.recorder import Ending, Intent
from catalog.calls import tasks
from catalog.models import Task
from tests import factories
from tests.catalog.pipeline import caller

pytestmark = pytest.mark.django_db(transaction=True)
QUESTION = {"method": "elicitation/create", "params": {}}


async def create_task(user: Any, **options: Any) -> UUID:
    number = options.pop("id", None) or uuid4()
    await tasks.create(number, user.pk, "token:1", "slow", options.pop("worker", "w1"), **options)
    return number


async def get_state(user: Any, number: Any) -> tasks.TaskState:
    found = await tasks.get(factories.credential(user), number)
    assert found is not None
    return found


async def test_another_users_task_a_wrong_id_and_an_expired_one_are_none(alice: Any, bob: Any) -> None:
    number = await create_task(
        alice, id=UUID("a" + uuid4().hex[1:])
    )  # one with a letter, or upper case would be the same
    assert await tasks.get(factories.credential(bob), number) is None
    assert await tasks.answer(factories.credential(bob), number, {"a": {}}) is None
    assert await tasks.request_cancel(factories.credential(bob), number) is None
    assert await tasks.ask(number, {"a": QUESTION})
    assert await tasks.answer(factories.credential(bob), number, {"a": {"action": "accept"}}) is None
    waiting = await get_state(alice, number)
    assert (waiting.status, waiting.input_responses) == ("input_required", {})
    for wrong in (uuid4(), "x", "", str(number).upper(), f" {number}", number.hex):
        assert await tasks.get(factories.credential(alice), wrong) is None
        assert await tasks.request_cancel(factories.credential(alice), wrong) is None
    assert not (await get_state(alice, number)).cancel_requested
    await tasks.complete(number, {"content": []})
    await Task.objects.filter(id=number).aupdate(expires_at=timezone.now())
    assert await tasks.get(factories.credential(alice), number) is None


async def test_a_restricted_token_reaches_only_what_is_known_to_be_of_its_toolsets(alice: Any) -> None:
    restricted = factories.credential(alice, toolset_ids=frozenset({7}))
    nothing = factories.credential(alice, toolset_ids=frozenset())
    for toolsets, reached in (({7, 8}, True), ({8}, False), (set(), False), (None, False)):
        number = await create_task(alice, toolset_ids=toolsets)
        assert (await tasks.get(restricted, number) is not None) == reached, toolsets
        assert await tasks.get(nothing, number) is None
        assert await tasks.get(factories.credential(alice), number) is not None


async def test_a_task_ends_once_whoever_comes_first(alice: Any) -> None:
    number = await create_task(alice)
    ended = await asyncio.gather(
        tasks.complete(number, {"content": []}),
        tasks.fail(number, {"code": -32603, "message": "no"}),
        tasks.end_cancelled(number, "stop"),
        tasks.complete(number, {"content": [1]}),
    )
    assert sum(ended) == 1
    first = await get_state(alice, number)
    assert (
        not first.is_open
        and not await tasks.ask(number, {"a": QUESTION})
        and not await tasks.set_message(number, "late")
    )
    assert await tasks.request_cancel(factories.credential(alice), number) == first


async def test_a_task_lives_from_its_creation_to_its_end(alice: Any) -> None:
    number = await create_task(alice, ttl_ms=60_000)
    first = await get_state(alice, str(number))
    assert (first.status, first.tool, first.ttl_ms, first.is_open) == ("working", "slow", 60_000, True)
    assert await tasks.set_message(number, "half way")
    assert (await get_state(alice, number)).status_message == "half way"
    assert await tasks.complete(number, {"content": [{"type": "text", "text": "ü\0"}]})
    last = await get_state(alice, number)
    assert last.status == "completed" and last.result == {"content": [{"type": "text", "text": "ü\0"}]}
    assert last.updated_at >= first.updated_at and last.error is None
    longest = await create_task(alice, ttl_ms=10**12)
    assert (await get_state(alice, longest)).ttl_ms == tasks.MAX_TTL_MS


async def test_answers_come_one_by_one_and_unknown_ones_are_ignored(alice: Any) -> None:
    number = await create_task(alice)
    assert await tasks.ask(number, {"a": QUESTION, "b": QUESTION})
    assert (await get_state(alice, number)).status == "input_required"
    await tasks.answer(factories.credential(alice), number, {"c": {"action": "accept"}})
    assert set((await get_state(alice, number)).input_requests) == {"a", "b"}
    half = await tasks.answer(factories.credential(alice), str(number), {"a": {"action": "accept"}, "c": {}})
    assert half is not None and half.status == "input_required" and set(half.input_requests) == {"b"}
    whole = await tasks.answer(factories.credential(alice), number, {"b": {"action": "decline"}})
    assert whole is not None and whole.status == "working" and whole.input_requests == {}
    assert await tasks.responses(number) == {"a": {"action": "accept"}, "b": {"action": "decline"}}
    assert await tasks.ask(number, {"d": QUESTION}) and await tasks.resume(number)
    assert await tasks.responses(number) == {}


async def test_answers_that_come_at_once_are_all_kept(alice: Any) -> None:
    number = await create_task(alice)
    keys = [f"k{n}" for n in range(12)]
    await tasks.ask(number, dict.fromkeys(keys, QUESTION))
    await asyncio.gather(*(tasks.answer(factories.credential(alice), number, {key: {"n": key}}) for key in keys))
    last = await get_state(alice, number)
    assert last.status == "working" and set(last.input_responses) == set(keys)


async def test_a_worker_learns_which_of_its_tasks_are_to_stop(alice: Any) -> None:
    mine, other = await create_task(alice, worker="w1"), await create_task(alice, worker="w2")
    for number in (mine, other):
        asked = await tasks.request_cancel(factories.credential(alice), number)
        assert asked is not None and asked.cancel_requested and asked.is_open
    assert await tasks.list_cancellable("w1") == [mine]
    assert await tasks.end_cancelled(mine, "cancelled by the client")
    assert await tasks.list_cancellable("w1") == []


async def test_a_task_whose_call_ended_without_it_fails_and_one_that_runs_does_not(alice: Any) -> None:
    async def begun(outcome: str | None) -> UUID:
        call = await recorder.begin(Intent(caller(alice), "tools/call", "slow"))
        await create_task(alice, id=call.id)
        if outcome is not None:
            await recorder.finish(call, Ending(outcome))
        return call.id

    running, lost, fresh = await begun(None), await begun("unknown"), await begun("unknown")
    long_ago = timezone.now() - timedelta(minutes=1)
    await Task.objects.filter(id__in=[running, lost]).aupdate(updated_at=long_ago)
    assert await tasks.end_abandoned() == 1
    failed = await get_state(alice, lost)
    assert failed.status == "failed" and failed.error is not None and "unknown" in failed.error["message"]
    assert (await get_state(alice, running)).is_open and (await get_state(alice, fresh)).is_open


async def test_the_job_deletes_expired_tasks_that_have_ended(alice: Any) -> None:
    ended, running, kept = [await create_task(alice) for _ in range(3)]
    await tasks.complete(ended, {})
    await tasks.complete(kept, {})
    await Task.objects.filter(id__in=[ended, running]).aupdate(expires_at=timezone.now())
    assert await sync_to_async(tasks.remove_expired)() == 1
    assert {row.id async for row in Task.objects.all()} == {running, kept}
    assert (await get_state(alice, running)).is_open
