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
TTL_SECONDS = 15.0
RENEW_SECONDS = 5.0
SWEEP_SECONDS = 1.0
MAX_KEYS = 20_000


def calls_key(user_id: int) -> str:
    return f"calls:{user_id}"


def call_key(call_id: object) -> str:
    return f"call:{call_id}"


def connect_key(user_id: int) -> str:
    return f"connect:{user_id}"


def address_key(text: str) -> str:
    return f"address:{text}"


class PageSubscriptions:
    """The subscriptions of open pages: those of all workers, and those of this one."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self.keys: dict[str, float] = {}
        """Subscribed keys with their expiry (monotonic): empty without recent subscriptions."""
        self._held: dict[str, int] = {}
        self._renewing: asyncio.Task[None] | None = None
        self._sweeping: asyncio.TimerHandle | None = None
        bus.on(INTEREST, self._on_interest)

    def is_subscribed(self, key: str) -> bool:
        end = self.keys.get(key)
        return end is not None and end > time.monotonic()

    def hold(self, key: str) -> None:
        """Subscribe a page of this worker to the key, until `release`. On the event loop."""
        self._held[key] = self._held.get(key, 0) + 1
        self._bus.publish_soon(INTEREST, {"keys": [key]})
        loop = asyncio.get_running_loop()
        if self._renewing is None or self._renewing.done():
            self._renewing = loop.create_task(self._renew_repeatedly(), name="live interest")

    def release(self, key: str) -> None:
        """Unsubscribe one page; other workers are not notified, because the subscription expires by itself."""
        remaining = self._held.get(key, 0) - 1
        if remaining > 0:
            self._held[key] = remaining
        else:
            self._held.pop(key, None)

    async def stop(self) -> None:
        """Remove all subscriptions."""
        renewing, self._renewing = self._renewing, None
        sweeping, self._sweeping = self._sweeping, None
        if sweeping is not None:
            sweeping.cancel()
        self._held.clear()
        self.keys.clear()
        if renewing is not None:
            renewing.cancel()
            await asyncio.wait([renewing], timeout=5.0)

    async def _renew_repeatedly(self) -> None:
        while self._held:
            await asyncio.sleep(RENEW_SECONDS)
            if self._held:
                self._bus.publish_soon(INTEREST, {"keys": sorted(self._held)})

    def _on_interest(self, payload: dict[str, Any]) -> None:
        end = time.monotonic() + TTL_SECONDS
        for key in map(str, payload.get("keys") or ()):
            if len(self.keys) < MAX_KEYS or key in self.keys:
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
