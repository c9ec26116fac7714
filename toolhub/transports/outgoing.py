"""The bounded queue between the senders of messages to a client and the one task that writes them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class OutgoingQueue(Generic[T]):
    """Messages that wait for a reader. `put` never waits; `run` writes the messages one after the other, in order."""

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
        """Queue a message of `size` bytes; return False when the queue is over its bound: the reader is too slow.

        A single message may be larger than the bound.
        """
        self._items.append((item, size))
        self._bytes += size
        self.wake()
        return len(self._items) <= self._max_messages and self._bytes <= self._max_bytes + size

    def clear(self) -> None:
        """Drop the queued messages, because the reader is gone."""
        self._items.clear()
        self._bytes = 0

    def wake(self) -> None:
        """Have `run` call `idle` again: some state outside of the queue has changed."""
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
        """Write queued messages until `idle`, called each time that the queue is empty, returns True.

        `beat` is called after every `beat_seconds` without a message.
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
            # `wait` creates no task for a future, and cancels nothing after its timeout.
            await asyncio.wait((waiting,), timeout=beat_seconds)
            if beat is not None and not waiting.done():
                await beat()
