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
VALUES_PER_TURN, BYTES_PER_TURN = 1_000, 131_072
"""A request with more values, or larger, counts as several: decoding it takes as long as they do (0.3 ms, measured)."""
COUNTED_BYTES = 16_384
"""Values are counted from this size on."""
REST_SECONDS_PER_TURN = 0.001
"""A user whose request took more turns than a pass has rests for some three times as long as it took: their next
requests wait, and others are served. A call takes a dozen passes, and each may come after such a request."""
MAX_IN_PROGRESS_PER_USER = 240
"""Messages of one user in progress: more than the calls and streams that one may have, so that each of the others gets
its own refusal, and fewer than would end a WebSocket. The rest waits, a cancellation, too; it has its turn as soon as
the refused ones are answered."""

log = logging.getLogger(__name__)

Begin = Callable[[], asyncio.Task[Any] | None]


def count_turns(body: bytes) -> int:
    """Return how many small requests a request with this body counts for."""
    if len(body) < COUNTED_BYTES:
        return 1
    values = body.count(b",") + body.count(b"[") + body.count(b"{")  # those in texts, too: this is an estimate
    return 1 + values // VALUES_PER_TURN + len(body) // BYTES_PER_TURN


class Turns:
    """Who waits to be served; belongs to one event loop."""

    def __init__(self) -> None:
        self._resting: set[int] = set()
        self._waiting: OrderedDict[int, deque[tuple[Begin, int]]] = OrderedDict()
        """By user, each with the number of turns that it takes; the one at the front is next."""
        self._in_progress: dict[int, int] = {}
        self._begun = 0
        """In this pass of the event loop."""
        self._scheduled = False

    def take(self, user_id: int, turns: int = 1) -> bool:
        """Have so many turns at once.

        Return False when others wait, enough has been begun in this pass, or this user rests.
        """
        if self._waiting or self._begun >= MAX_BEGUN_PER_PASS or user_id in self._resting:
            return False
        self._count(user_id, turns)
        self._schedule()
        return True

    async def wait(self, user_id: int, turns: int = 1) -> None:
        """Return at the turn of this user.

        That is at once, unless others wait, enough has been begun in this pass, or this user rests.
        """
        if self.take(user_id, turns):
            return
        turn = asyncio.get_running_loop().create_future()

        def begin() -> None:
            if not turn.cancelled():
                turn.set_result(None)

        self.put(user_id, begin, turns)
        await turn

    def put(self, user_id: int, begin: Begin, turns: int = 1) -> None:
        """Let `begin`, which counts for so many turns, have them.

        The task that it returns counts as in progress until it is done.
        """
        waiting = self._waiting.get(user_id)
        if waiting is None:
            waiting = self._waiting[user_id] = deque()
        waiting.append((begin, turns))
        self._schedule()

    def _count(self, user_id: int, turns: int) -> None:
        self._begun += turns
        if turns > MAX_BEGUN_PER_PASS:
            self._resting.add(user_id)
            asyncio.get_running_loop().call_later(turns * REST_SECONDS_PER_TURN, self._end_rest, user_id)

    def _end_rest(self, user_id: int) -> None:
        self._resting.discard(user_id)
        if user_id in self._waiting:
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
            if user_id in self._resting or self._in_progress.get(user_id, 0) >= MAX_IN_PROGRESS_PER_USER:
                skipped += 1
                continue
            skipped = 0
            begin, turns = waiting.popleft()
            self._count(user_id, turns)
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
