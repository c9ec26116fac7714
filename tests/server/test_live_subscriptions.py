"""What pages look at right now: forgotten by itself, and bounded, however much one person looks at."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest

from tests.polling import wait_until_async
from toolhub.server.bus import Bus
from toolhub.server.live import subscriptions
from toolhub.server.live.subscriptions import PageSubscriptions


class Pages(PageSubscriptions):
    """What pages look at, with a bus of its own."""

    def __init__(self) -> None:
        self.bus = Bus()
        super().__init__(self.bus)

    async def say(self, *keys: str) -> None:
        await self.bus.publish(subscriptions.INTEREST, {"keys": list(keys)})


@pytest.fixture
async def pages(settings) -> AsyncIterator[Pages]:
    settings.REDIS_URL = ""
    pages = Pages()
    yield pages
    await pages.stop()


async def test_it_costs_nothing_again_after_the_last_page_was_closed(monkeypatch, pages):
    monkeypatch.setattr(subscriptions, "TTL_SECONDS", 0.0)
    await pages.say("calls:1", "call:2")
    await wait_until_async(lambda: not pages.keys, what="nobody says that the last page was closed")


async def test_watched_topics_are_not_forgotten_with_the_rest(monkeypatch, pages):
    await pages.say("calls:1")
    monkeypatch.setattr(subscriptions, "TTL_SECONDS", 0.0)
    await pages.say("calls:2")
    await wait_until_async(lambda: "calls:2" not in pages.keys)
    assert pages.is_subscribed("calls:1")


async def test_a_page_that_is_open_stays_known_when_there_is_no_room_for_more(monkeypatch, pages):
    monkeypatch.setattr(subscriptions, "MAX_KEYS", 2)
    await pages.say("calls:1", "calls:2", "calls:3")
    assert set(pages.keys) == {"calls:1", "calls:2"}
    pages.keys["calls:1"] = time.monotonic() - 1
    await pages.say("calls:4", "calls:1")
    assert pages.is_subscribed("calls:1") and not pages.is_subscribed("calls:4")


async def test_hearing_of_one_more_page_does_not_go_through_all_of_them(pages):
    class Counting(dict[str, float]):
        walked = 0

        def items(self):
            Counting.walked += 1
            return super().items()

    pages.keys = Counting()
    for number in range(100):
        await pages.say(f"call:{number}")
    assert Counting.walked <= 10
