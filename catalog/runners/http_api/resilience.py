"""Resilience against failing hosts: a few more attempts, then a pause, and a limit on concurrent calls."""

from __future__ import annotations

import random
from collections import OrderedDict

from catalog.circuit_breaker import CircuitBreaker, CircuitOpen
from catalog.errors import ToolError
from catalog.slots import SharedSlots
from toolhub.parts import parts

FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.2, 5.0
MAX_HOSTS = 1_000
TEMPORARY_STATUSES = frozenset({502, 503, 504})
_random = random.SystemRandom()


def pause_seconds(attempt: int, asked: str = "") -> float:
    """Return the seconds before the next attempt: growing, with jitter, at least `asked` (Retry-After)."""
    longest = min(MAX_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * float(1 << attempt))
    seconds: float = longest * (0.5 + _random.random() / 2)
    if asked.isascii() and asked.isdigit():
        return max(seconds, min(float(asked[:9]), 86_400.0))
    return seconds


class HostBreakers:
    """The circuit breaker of each origin, for all tools of this process."""

    def __init__(self) -> None:
        self._breakers: OrderedDict[str, CircuitBreaker] = OrderedDict()

    def get(self, origin: str) -> CircuitBreaker:
        found = self._breakers.get(origin)
        if found is None:
            found = self._breakers[origin] = CircuitBreaker()
            if len(self._breakers) > MAX_HOSTS:
                self._breakers.popitem(last=False)
        return found


def breaker(origin: str) -> CircuitBreaker:
    """Return the breaker of this origin, for calls of this process, which are all on its event loop."""
    breakers = parts.find(HostBreakers)
    if breakers is None:  # the first request: no other module creates the breakers
        breakers = HostBreakers()
        parts.put(breakers)
    return breakers.get(origin)


def enter(guard: CircuitBreaker, host: str) -> bool:
    """Return whether this call is the test call. Raises ToolError while calls to the host pause."""
    try:
        return guard.enter()
    except CircuitOpen as closed:
        remaining = closed.seconds
        again = f"Try again in {max(1, round(remaining))} s." if remaining > 0 else "Another call is testing it now."
        raise ToolError(f"{host} failed {closed.failures} times in a row, so calls to it pause. {again}") from None


def slots(size: int) -> SharedSlots:
    """Return the slots of one tool: `size` concurrent calls; a further one waits, then gets a ToolError."""
    busy = f"This tool is busy: {size} calls of it are already running. Try again in a few seconds."
    mine = "This tool is busy with your calls: as many as one user may have are running. Try again when one has ended."
    return SharedSlots(size, lambda: ToolError(busy), lambda: ToolError(mine))
