"""Subscriptions of open browser pages, known to every worker.

A message for a page costs something only while that page is open: senders check here first, which is one lookup in a
dictionary that is usually empty. A worker with open pages repeats its subscriptions every few seconds, so that those of
a crashed worker expire, and a lost message is made up for.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from toolhub.server.bus import Bus

INTEREST = "live.interest"
SECONDS = 15.0
AGAIN_SECONDS = 5.0
SWEEP_SECONDS = 1.0
MOST = 20_000


def calls_of(user_id: int) -> str:
    return f"calls:{user_id}"


def call(call_id: object) -> str:
    return f"call:{call_id}"


def connecting(user_id: int) -> str:
    return f"connect:{user_id}"


def address(text: str) -> str:
    return f"address:{text}"


class PageSubscriptions:
    """The subscriptions of open pages: those of all workers, and those of this one."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self.keys: dict[str, float] = {}
        """Subscribed keys with their expiry (monotonic): empty without recent subscriptions."""
        self._held: dict[str, int] = {}
        self._saying: asyncio.Task[None] | None = None
        self._sweeping: asyncio.TimerHandle | None = None
        bus.on(INTEREST, self._heard)

    def wanted(self, key: str) -> bool:
        end = self.keys.get(key)
        return end is not None and end > time.monotonic()

    def hold(self, key: str) -> None:
        """Subscribe a page of this worker to the key, until `release`. On the event loop."""
        self._held[key] = self._held.get(key, 0) + 1
        self._bus.tell(INTEREST, {"keys": [key]})
        loop = asyncio.get_running_loop()
        if self._saying is None or self._saying.done():
            self._saying = loop.create_task(self._say_again(), name="live interest")

    def release(self, key: str) -> None:
        """Unsubscribe one page; other workers are not notified, because the subscription expires by itself."""
        left = self._held.get(key, 0) - 1
        if left > 0:
            self._held[key] = left
        else:
            self._held.pop(key, None)

    async def stop(self) -> None:
        """Remove all subscriptions."""
        saying, self._saying = self._saying, None
        sweeping, self._sweeping = self._sweeping, None
        if sweeping is not None:
            sweeping.cancel()
        self._held.clear()
        self.keys.clear()
        if saying is not None:
            saying.cancel()
            await asyncio.wait([saying], timeout=5.0)

    async def _say_again(self) -> None:
        while self._held:
            await asyncio.sleep(AGAIN_SECONDS)
            if self._held:
                self._bus.tell(INTEREST, {"keys": sorted(self._held)})

    def _heard(self, payload: dict[str, Any]) -> None:
        end = time.monotonic() + SECONDS
        for key in map(str, payload.get("keys") or ()):
            if len(self.keys) < MOST or key in self.keys:
                self.keys[key] = end
        if self.keys and self._sweeping is None:
            self._sweep()

    def _sweep(self) -> None:
        """Remove expired keys; repeat a second later while any key remains.

        A timer is used because the close of the last page is not announced. Going through all keys for each
        announcement would let one person with many pages delay everybody.
        """
        now = time.monotonic()
        for key in [key for key, end in self.keys.items() if end <= now]:
            del self.keys[key]
        loop = asyncio.get_running_loop()
        self._sweeping = loop.call_later(SWEEP_SECONDS, self._sweep) if self.keys else None
