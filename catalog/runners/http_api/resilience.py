"""How a tool treats a host that has trouble: a few more attempts, then leave it alone; and never too many at once."""

from __future__ import annotations

import random
from collections import OrderedDict

from catalog.circuit_breaker import CircuitBreaker, CircuitOpen
from catalog.errors import ToolError
from catalog.slots import Slots
from toolhub.parts import parts

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


class HostBreakers:
    """The circuit breaker of each origin, for all tools of this process."""

    def __init__(self) -> None:
        self._breakers: OrderedDict[str, CircuitBreaker] = OrderedDict()

    def of(self, origin: str) -> CircuitBreaker:
        found = self._breakers.get(origin)
        if found is None:
            found = self._breakers[origin] = CircuitBreaker()
            if len(self._breakers) > HOSTS_KEPT:
                self._breakers.popitem(last=False)
        return found


def breaker(origin: str) -> CircuitBreaker:
    """Return the breaker of this origin, for calls of this process, which are all on its event loop."""
    breakers = parts.find(HostBreakers)
    if breakers is None:  # the first request: a runner is made known to nobody else
        breakers = HostBreakers()
        parts.put(breakers)
    return breakers.of(origin)


def enter(guard: CircuitBreaker, host: str) -> bool:
    """Return whether this call is the one that tries. Raises ToolError while the host is left alone."""
    try:
        return guard.enter()
    except CircuitOpen as closed:
        left = closed.seconds
        again = f"Try again in {max(1, round(left))} s." if left > 0 else "Another call is testing it now."
        raise ToolError(f"{host} failed {closed.failures} times in a row, so calls to it pause. {again}") from None


def slots(size: int) -> Slots:
    """Return the slots of one tool: so many calls at the same time, a further one waits and is told to come back."""
    busy = f"This tool is busy: {size} calls of it are already running. Try again in a few seconds."
    return Slots(size, lambda: ToolError(busy))
