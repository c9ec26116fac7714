"""What pages look at right now: forgotten by itself, and bounded, however much one person looks at."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest

from tests.waiting import eventually
from toolhub.server import bus
from toolhub.server.live import subscriptions


@pytest.fixture(autouse=True)
async def quiet(settings) -> AsyncIterator[None]:
    settings.REDIS_URL = ""
    await subscriptions.stop()
    yield
    await subscriptions.stop()


async def say(*keys: str) -> None:
    await bus.publish(subscriptions.INTEREST, {"keys": list(keys)})


async def test_it_costs_nothing_again_after_the_last_page_was_closed(monkeypatch):
    monkeypatch.setattr(subscriptions, "SECONDS", 0.0)
    await say("calls:1", "call:2")
    await eventually(lambda: not subscriptions.keys, what="nobody says that the last page was closed")


async def test_what_is_looked_at_is_not_forgotten_with_the_rest(monkeypatch):
    await say("calls:1")
    monkeypatch.setattr(subscriptions, "SECONDS", 0.0)
    await say("calls:2")
    await eventually(lambda: "calls:2" not in subscriptions.keys)
    assert subscriptions.wanted("calls:1")


async def test_a_page_that_is_open_stays_known_when_there_is_no_room_for_more(monkeypatch):
    monkeypatch.setattr(subscriptions, "MOST", 2)
    await say("calls:1", "calls:2", "calls:3")
    assert set(subscriptions.keys) == {"calls:1", "calls:2"}
    subscriptions.keys["calls:1"] = time.monotonic() - 1
    await say("calls:4", "calls:1")
    assert subscriptions.wanted("calls:1") and not subscriptions.wanted("calls:4")


async def test_hearing_of_one_more_page_does_not_go_through_all_of_them():
    class Counting(dict[str, float]):
        walked = 0

        def items(self):
            Counting.walked += 1
            return super().items()

    known = subscriptions.keys
    subscriptions.keys = Counting()
    try:
        for number in range(100):
            await say(f"call:{number}")
        assert Counting.walked <= 10
    finally:
        subscriptions.keys = known
