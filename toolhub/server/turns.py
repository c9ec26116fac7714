"""The order in which requests are begun: users take turns, a few requests per pass of the event loop.

A client can send hundreds of requests at once, over many connections or one WebSocket. Begun as they come, each is one
more piece of work that every other request of the process has to wait for, several times.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

MAX_BEGUN_PER_PASS = 8
"""Requests that are begun before the event loop looks for other events: some milliseconds of work."""
BYTES_PER_TURN = 16_384
"""A larger request counts as several: decoding and redacting it takes as long as they do."""
MAX_IN_PROGRESS_PER_USER = 240
"""Messages of one user in progress: more than the calls and streams that one may have, so that each of the others gets
its own refusal, and fewer than would end a WebSocket. The rest waits, a cancellation, too; it has its turn as soon as
the refused ones are answered."""

log = logging.getLogger(__name__)

Begin = Callable[[], asyncio.Task[Any] | None]


class Turns:
    """Who waits to be served; belongs to one event loop."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[int, deque[tuple[Begin, int]]] = OrderedDict()
        """By user, each with the number of turns that it takes; the one at the front is next."""
        self._in_progress: dict[int, int] = {}
        self._begun = 0
        """In this pass of the event loop."""
        self._scheduled = False

    def take(self, size: int = 0) -> bool:
        """Have a turn at once, for a request of `size` bytes.

        Return False when others wait, or enough has been begun in this pass.
        """
        if self._waiting or self._begun >= MAX_BEGUN_PER_PASS:
            return False
        self._begun += 1 + size // BYTES_PER_TURN
        self._schedule()
        return True

    async def wait(self, user_id: int, size: int = 0) -> None:
        """Return at the turn of this user, for a request of `size` bytes.

        That is at once, unless others wait or enough has been begun in this pass.
        """
        if self.take(size):
            return
        turn = asyncio.get_running_loop().create_future()

        def begin() -> None:
            if not turn.cancelled():
                turn.set_result(None)

        self.put(user_id, begin, size)
        await turn

    def put(self, user_id: int, begin: Begin, size: int = 0) -> None:
        """Let `begin`, which works on `size` bytes, have its turn.

        The task that it returns counts as in progress until it is done.
        """
        waiting = self._waiting.get(user_id)
        if waiting is None:
            waiting = self._waiting[user_id] = deque()
        waiting.append((begin, 1 + size // BYTES_PER_TURN))
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._scheduled = False
        self._begun = skipped = 0
        while self._begun < MAX_BEGUN_PER_PASS and skipped < len(self._waiting):
            user_id, waiting = next(iter(self._waiting.items()))
            self._waiting.move_to_end(user_id)
            if self._in_progress.get(user_id, 0) >= MAX_IN_PROGRESS_PER_USER:
                skipped += 1
                continue
            skipped = 0
            begin, turns = waiting.popleft()
            self._begun += turns
            if not waiting:
                del self._waiting[user_id]
            try:
                task = begin()
            except Exception:
                log.exception("A message could not be begun")
                continue
            if task is not None:
                self._in_progress[user_id] = self._in_progress.get(user_id, 0) + 1
                task.add_done_callback(lambda _, user_id=user_id: self._end(user_id))  # type: ignore[misc]
        if self._begun:
            self._schedule()

    def _end(self, user_id: int) -> None:
        remaining = self._in_progress[user_id] - 1
        if remaining:
            self._in_progress[user_id] = remaining
        else:
            del self._in_progress[user_id]
        if user_id in self._waiting:
            self._schedule()
