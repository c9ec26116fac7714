"""A bounded number of slots, for which callers wait in their event loops, and how many of them one user may take."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable

MAX_SHARES = 1_000
"""Number of users whose shares are remembered when they use none."""


def share_of_one_user(size: int) -> int:
    """Return how many of `size` threads, processes or calls one user may take: three quarters leave some to others."""
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
            del turn  # its error has a traceback with this frame

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


class SharedSlots:
    """Slots of which one user gets at most a share, so that they wait for themselves before they take the last one."""

    def __init__(self, size: int, busy: Callable[[], Exception], share_busy: Callable[[], Exception]) -> None:
        """`busy` and `share_busy` make the errors of those who wait in vain for any slot, or for one of their share."""
        self.size = size
        self._slots, self._share_busy = Slots(size, busy), share_busy
        self._shares: dict[int, Slots] = {}
        """By user, of the event loop."""

    @property
    def taken(self) -> int:
        return self._slots.taken

    async def enter(self, seconds: float, user_id: int | None = None) -> Slots | None:
        """Take a slot within `seconds`, for nobody or as one of this user; return what `leave` needs.

        Raises the error of `busy` or `share_busy`.
        """
        ends = asyncio.get_running_loop().time() + seconds
        share = None if user_id is None or self.size == 1 else self._share(user_id)
        if share is not None and not share.take():
            await share.wait(seconds)
        try:
            if not self._slots.take():
                await self._slots.wait(ends - asyncio.get_running_loop().time())
        except BaseException:
            if share is not None:
                share.give()
            raise
        return share

    def leave(self, share: Slots | None) -> None:
        """Give the slot back; callable from any thread."""
        self._slots.give()
        if share is not None:
            share.give()

    def _share(self, user_id: int) -> Slots:
        if len(self._shares) > MAX_SHARES:
            self._shares = {user: share for user, share in self._shares.items() if share.taken}
        share = self._shares.get(user_id)
        if share is None:
            share = self._shares[user_id] = Slots(share_of_one_user(self.size), self._share_busy)
        return share
