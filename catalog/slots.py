"""A bounded number of slots, for which callers wait in their event loops, and how many of them one user may take."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable


def share_of_one_user(size: int) -> int:
    """Return how many of `size` threads or processes one user may take: three quarters leave some to the others."""
    return max(1, size * 3 // 4)


class Slots:
    """A pool of `size` slots with a queue of waiting callers, first come, first served.

    `take` and `wait` are for event loops, `give` for any thread. `busy` makes the error for a caller that waited in
    vain.
    """

    def __init__(self, size: int, busy: Callable[[], Exception]) -> None:
        self.size, self.taken = size, 0
        self._busy = busy
        self._lock = threading.Lock()
        self._waiting: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = deque()

    def take(self) -> bool:
        """Take a slot if there is one and return True; otherwise return False: await `wait`."""
        with self._lock:
            if self.taken >= self.size:
                return False
            self.taken += 1
            return True

    async def wait(self, seconds: float) -> None:
        """Take the next slot that is given back.

        Raises the error made by `busy` when there is none within `seconds`.
        """
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        with self._lock:
            if self.taken < self.size:  # given back since `take` was called
                self.taken += 1
                return
            self._waiting.append((loop, turn))
        timer = loop.call_later(seconds, self._expire, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.give()
            raise
        finally:
            timer.cancel()
            with self._lock, contextlib.suppress(ValueError):
                self._waiting.remove((loop, turn))

    def give(self) -> None:
        """Hand the slot to the caller that has waited longest, or free it."""
        with self._lock:
            while self._waiting:
                loop, turn = self._waiting.popleft()
                try:
                    loop.call_soon_threadsafe(self._hand_over, turn)
                except RuntimeError:
                    continue  # its loop is closed
                return
            self.taken -= 1

    def _hand_over(self, turn: asyncio.Future[None]) -> None:
        if turn.done():
            self.give()
        else:
            turn.set_result(None)

    def _expire(self, turn: asyncio.Future[None]) -> None:
        if not turn.done():
            turn.set_exception(self._busy())
