"""The one object of a process: found while it runs, started and stopped in order, and alone with what it remembers."""

from __future__ import annotations

import asyncio
import threading

import pytest

from audit.types import Credential
from catalog import signals as catalog_signals
from catalog.functions.context import ProgressListeners
from tests.polling import wait_until_async
from toolhub.access import signals
from toolhub.access.bearer import Authenticator
from toolhub.hub import Hub
from toolhub.jobs import Job
from toolhub.parts import NotStarted, parts
from toolhub.server.bus import Bus

ALICE = Credential(1, "alice", "token:1", "laptop", None, None)


def count_listeners() -> tuple[int, int, int]:
    """How many listen to the signals that a hub connects."""
    return (
        len(signals.revoked.receivers),
        len(catalog_signals.changed.receivers),
        len(parts.get(ProgressListeners).listeners),
    )


@pytest.mark.django_db(transaction=True)
async def test_its_parts_are_found_while_it_runs_and_nothing_is_left_behind() -> None:
    before = count_listeners()
    tasks = asyncio.all_tasks()
    hub = Hub()
    assert parts.find(Hub) is None, "built is not started"
    await hub.start()
    await hub.start()
    assert parts.get(Bus) is hub.server.bus and parts.get(Authenticator) is hub.server.authenticator
    assert count_listeners() == tuple(count + 1 for count in before)
    await hub.stop(0)
    await hub.stop(0)
    with pytest.raises(NotStarted, match=r"server\.bus\.Bus was not started in this process"):
        parts.get(Bus)
    assert count_listeners() == before
    assert asyncio.all_tasks() == tasks


@pytest.mark.django_db(transaction=True)
async def test_a_hub_that_was_stopped_does_not_start_anew() -> None:
    hub = Hub()
    await hub.start()
    await hub.stop(0)
    await hub.start()
    assert parts.find(Hub) is None and not hub.server.needs_start


@pytest.mark.django_db(transaction=True)
async def test_several_who_start_it_at_once_start_it_once() -> None:
    before = count_listeners()
    hub = Hub()
    await asyncio.gather(*(hub.start() for _ in range(5)))
    assert count_listeners() == tuple(count + 1 for count in before)
    await hub.stop(0)


@pytest.mark.django_db(transaction=True)
async def test_jobs_run_from_the_start_to_the_stop() -> None:
    ran = threading.Event()
    hub = Hub([Job("often", 0.01, ran.set)])
    assert hub.scheduler.status()[0].next_due is None
    await hub.start()
    assert hub.scheduler.status()[0].next_due is not None
    await wait_until_async(ran.is_set)
    await hub.stop(0)
    assert hub.scheduler.status()[0].next_due is None
    assert "scheduler" not in {thread.name for thread in threading.enumerate()}


async def test_two_hubs_share_nothing() -> None:
    one, other = Hub([]), Hub([])
    session = one.server.sessions.create(ALICE, "2025-11-25", {}, "client", "1")
    await one.server.sessions.close(session.id, ALICE)
    assert (await other.server.sessions.require(session.id, ALICE)).key == session.key
    heard: list[object] = []
    other.server.bus.on("test.news", heard.append)
    await one.server.bus.publish("test.news", {})
    assert one.server.bus.worker != other.server.bus.worker and heard == []


@pytest.mark.django_db(transaction=True)
async def test_stopping_leaves_the_parts_of_a_later_hub_alone() -> None:
    first, second = Hub([]), Hub([])
    await first.start()
    await second.start()
    await first.stop(0)
    assert parts.get(Hub) is second
    await second.stop(0)
