"""Requests to pages take turns by address, and a turn that is given up is not lost."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from toolhub.transports.pages import BoundedPages, PageTurns
from toolhub.transports.uploads import Uploads

GREEDY, MODEST = "198.51.100.66", "203.0.113.5"


class Django:
    """Pages that end when the test says so."""

    def __init__(self) -> None:
        self.running: list[tuple[str, asyncio.Event]] = []
        self.seen: list[str] = []

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        done = asyncio.Event()
        entry = (scope["client"][0], done)
        self.running.append(entry)
        self.seen.append(entry[0])
        if scope["path"] == "/page":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"Content-Length", b"2")]})
            await send({"type": "http.response.body", "body": b"o", "more_body": True})
            await send({"type": "http.response.body", "body": b"k"})
            self.running.remove(entry)
            return
        if scope["path"] == "/download":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
        while scope["method"] == "POST" and (await receive()).get("more_body"):
            pass
        try:
            await done.wait()
        finally:
            self.running.remove(entry)

    def count(self, address: str) -> int:
        return sum(1 for found, _ in self.running if found == address)

    def end_one(self, address: str) -> None:
        next(done for found, done in self.running if found == address and not done.is_set()).set()


class Site:
    def __init__(self, turns: PageTurns, max_bytes: int = 1_000_000) -> None:
        self.django, self.sent, self.reads = Django(), [], asyncio.Event()
        self.reads.set()
        self.pages = BoundedPages(self.django, Uploads(max_bytes), turns)

    sent: list[dict[str, Any]]

    def ask(self, address: str, path: str = "/", *bodies: bytes) -> asyncio.Task[None]:
        parts = list(bodies)

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": parts.pop(0) if parts else b"", "more_body": bool(parts)}

        async def send(message: Any) -> None:
            self.sent.append(message)
            await self.reads.wait()

        scope = {"type": "http", "method": "POST" if bodies else "GET", "path": path, "client": [address, 1]}
        return asyncio.ensure_future(self.pages(scope, receive, send))


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
def site() -> Site:
    return Site(PageTurns(most=5, most_per_address=2))


async def test_one_address_has_so_many_at_a_time(site: Site) -> None:
    asked = [site.ask(GREEDY) for _ in range(20)]
    await settle()
    assert site.django.count(GREEDY) == 2
    assert site.pages.refusals.counts == {"pages": 18}
    other = site.ask(MODEST)
    await settle()
    assert site.django.count(MODEST) == 1, "another address does not wait for them"
    site.django.end_one(GREEDY)
    await settle()
    assert site.django.count(GREEDY) == 2 and site.django.seen.count(GREEDY) == 3
    for task in [*asked, other]:
        task.cancel()


async def test_addresses_take_turns_when_all_places_are_taken(site: Site) -> None:
    asked = [site.ask(f"192.0.2.{n}") for n in range(5)]
    await settle()
    asked += [site.ask(GREEDY) for _ in range(4)] + [site.ask(MODEST)]
    await settle()
    for number in range(2):
        site.django.end_one(f"192.0.2.{number}")
        await settle()
    assert (site.django.count(GREEDY), site.django.count(MODEST)) == (1, 1)
    for task in asked:
        task.cancel()


async def test_a_client_that_is_gone_gives_its_turn_up(site: Site) -> None:
    asked = [site.ask(GREEDY) for _ in range(4)]
    await settle()
    asked[2].cancel()
    await settle()
    site.django.end_one(GREEDY)
    await settle()
    assert not asked[3].done() and site.django.count(GREEDY) == 2
    for task in asked:
        task.cancel()
    await asyncio.gather(*asked, return_exceptions=True)
    assert site.pages.turns.running == 0


async def test_a_client_that_leaves_when_its_turn_comes_passes_it_on(site: Site) -> None:
    asked = [site.ask(GREEDY) for _ in range(4)]
    await settle()
    site.django.end_one(GREEDY)
    await asked[0]
    asked[2].cancel()  # its turn has come, and it has not run yet
    await settle()
    assert site.django.count(GREEDY) == 2, "the fourth runs in its place"
    for task in asked:
        task.cancel()


async def test_a_download_takes_a_turn_only_until_it_begins(site: Site) -> None:
    asked = [site.ask(GREEDY, "/download") for _ in range(3)]
    await settle()
    assert site.django.count(GREEDY) == 3 and site.pages.turns.running == 0
    asked += [site.ask(GREEDY, "/download") for _ in range(10)]
    await settle()
    assert site.django.count(GREEDY) == 3 + 2, "beyond their bound they take the turns of that address"
    other = site.ask(MODEST, "/download")
    await settle()
    assert site.django.count(MODEST) == 1
    for task in [*asked, other]:
        task.cancel()
    await asyncio.gather(*asked, other, return_exceptions=True)
    assert site.pages.turns.running == site.pages.downloads.running == 0


async def test_a_page_that_nobody_reads_keeps_neither_a_turn_nor_django(site: Site) -> None:
    site.reads.clear()
    asked = [site.ask(GREEDY, "/page") for _ in range(9)]
    await settle()
    assert site.django.seen.count(GREEDY) == 9 and not site.django.running
    assert site.pages.turns.running == 0 and not any(task.done() for task in asked)
    site.reads.set()
    await asyncio.gather(*asked)
    bodies = [message for message in site.sent if message["type"] == "http.response.body"]
    assert bodies == [{"type": "http.response.body", "body": b"ok"}] * 9


async def test_large_bodies_of_one_address_are_bounded_together() -> None:
    site = Site(PageTurns(), max_bytes=400_000)
    piece = b"x" * 100_000
    first = site.ask(GREEDY, "/", piece, piece)
    await settle()
    await site.ask(GREEDY, "/", piece)
    assert site.sent[0]["status"] == 429
    assert any(name == b"retry-after" for name, _ in site.sent[0]["headers"])
    other = site.ask(MODEST, "/", piece)
    await settle()
    assert not other.done() and site.pages.uploads.bytes == 300_000
    for task in (first, other):
        task.cancel()
    await asyncio.gather(first, other, return_exceptions=True)
    assert site.pages.uploads.bytes == 0 and not site.pages.uploads.by_sender
