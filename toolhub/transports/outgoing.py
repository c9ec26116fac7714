"""The bounded queue between whoever has something to say to a client and the one task that writes to it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class OutgoingQueue(Generic[T]):
    """Messages that wait for a reader. Putting never waits; `run` writes them one after the other, in order."""

    __slots__ = ("_bytes", "_items", "_max_bytes", "_max_messages", "_waiting", "_woken")

    def __init__(self, max_messages: int, max_bytes: int) -> None:
        self._max_messages, self._max_bytes = max_messages, max_bytes
        self._items: deque[tuple[T, int]] = deque()
        self._bytes = 0
        self._woken = False
        self._waiting: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: T, size: int) -> bool:
        """Queue a message of `size` bytes. False when more waits now than may: the reader is too slow.

        A single message may be larger than the bound.
        """
        self._items.append((item, size))
        self._bytes += size
        self.wake()
        return len(self._items) <= self._max_messages and self._bytes <= self._max_bytes + size

    def clear(self) -> None:
        """Drop what waits: nobody will read it."""
        self._items.clear()
        self._bytes = 0

    def wake(self) -> None:
        """Have `idle` asked again: something other than the queue has changed."""
        self._woken = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def run(
        self,
        write: Callable[[T], Awaitable[None]],
        idle: Callable[[], Awaitable[bool]],
        beat: Callable[[], Awaitable[None]] | None = None,
        beat_seconds: float | None = None,
    ) -> None:
        """Write what is queued until `idle`, which is asked each time that nothing waits, returns True.

        `beat` is called whenever nothing happened for `beat_seconds`.
        """
        while True:
            self._woken = False
            while self._items:
                item, size = self._items.popleft()
                self._bytes -= size
                await write(item)
            if await idle():
                return
            if self._woken:
                continue
            waiting = self._waiting = asyncio.get_running_loop().create_future()
            # `wait` makes no task of a future, and cancels nothing when its time is over.
            await asyncio.wait((waiting,), timeout=beat_seconds)
            if beat is not None and not waiting.done():
                await beat()
