"""How a tool treats a host that has trouble: a few more attempts, then leave it alone; and never too many at once."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import OrderedDict, deque

from catalog.errors import ToolError

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0
HOSTS_KEPT = 1_000
TEMPORARY = frozenset({502, 503, 504})
_random = random.SystemRandom()


def pause(attempt: int, asked: str = "") -> float:
    """Seconds before the next attempt: longer each time, never the same for two callers, what Retry-After asks."""
    longest = min(LONGEST_PAUSE, FIRST_PAUSE * float(1 << attempt))
    seconds: float = longest * (0.5 + _random.random() / 2)
    if asked.isascii() and asked.isdigit():
        return max(seconds, min(float(asked[:9]), 86_400.0))
    return seconds


class Breaker:
    """One host: closed while it answers, open after too many failures in a row, then one call tries for all."""

    __slots__ = ("failures", "host", "opened_until", "probing")

    def __init__(self, host: str) -> None:
        self.host = host
        self.failures = 0
        self.opened_until = 0.0
        self.probing = False

    def enter(self) -> bool:
        """Whether this call is the one that tries. Raises ToolError while the host is left alone."""
        if not self.opened_until:
            return False
        left = self.opened_until - time.monotonic()
        if left <= 0 and not self.probing:
            self.probing = True
            return True
        again = f"Try again in {max(1, round(left))} s." if left > 0 else "Another call is testing it now."
        raise ToolError(f"{self.host} failed {self.failures} times in a row, so calls to it pause. {again}")

    @property
    def is_open(self) -> bool:
        return self.opened_until > 0

    def succeeded(self) -> None:
        self.failures, self.opened_until, self.probing = 0, 0.0, False

    def failed(self, after: int, seconds: float) -> None:
        """One more failure; opens when they are `after` (0: never)."""
        self.failures += 1
        self.probing = False
        if after and self.failures >= after:
            self.opened_until = time.monotonic() + seconds

    def gave_up(self, probe: bool) -> None:
        """The call ended without saying anything about the host."""
        if probe:
            self.probing = False


_breakers: OrderedDict[str, Breaker] = OrderedDict()


def breaker(origin: str, host: str) -> Breaker:
    """The one of this origin, for all tools of this process."""
    found = _breakers.get(origin)
    if found is None:
        found = _breakers[origin] = Breaker(host)
        if len(_breakers) > HOSTS_KEPT:
            _breakers.popitem(last=False)
    return found


def forget() -> None:
    """Every host gets a fresh start: for tests."""
    _breakers.clear()


class Slots:
    """So many calls of one tool at the same time; a further one waits a moment and is then told to come back."""

    __slots__ = ("_seconds", "_size", "_taken", "_waiting")

    def __init__(self, size: int, seconds: float) -> None:
        self._size, self._seconds = size, seconds
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take(self) -> bool:
        """Whether there was one free; otherwise await `wait`."""
        if self._taken >= self._size:
            return False
        self._taken += 1
        return True

    async def wait(self) -> None:
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        timer = loop.call_later(self._seconds, _too_long, turn, self._size)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.give()
            raise
        finally:
            timer.cancel()
            with contextlib.suppress(ValueError):
                self._waiting.remove(turn)

    def give(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._taken -= 1


def _too_long(turn: asyncio.Future[None], size: int) -> None:
    if not turn.done():
        turn.set_exception(
            ToolError(f"This tool is busy: {size} calls of it are already running. Try again in a few seconds.")
        )
