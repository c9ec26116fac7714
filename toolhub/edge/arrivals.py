"""The rate of an address's new connections: what comes faster waits for its turn, and is answered then.

Whoever connects again as soon as a request is refused does not keep the process busy. As many as an address may have
can come at once, so that nobody else ever waits.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Generic, Protocol, TypeVar

from toolhub.rates import Rates

BEGIN_SECONDS = 0.05
"""So often, those that wait may begin."""


class Arrival(Protocol):
    """A new connection that has asked for something."""

    def begin(self) -> None: ...


A = TypeVar("A", bound=Arrival)


class Arrivals(Generic[A]):
    """Who waits, and who has used how much of the rate, in one process; belongs to its event loop.

    A sender is an address, or the network of an IPv6 subscriber.
    """

    def __init__(self, per_second: float, at_once: int) -> None:
        self._rates = Rates(per_second, at_once)
        self._waiting: dict[str, dict[A, None]] = {}
        """By sender, the oldest first."""
        self._senders: dict[A, str] = {}
        """Of those that wait."""
        self._timer: asyncio.TimerHandle | None = None

    def may_begin(self, arrival: A, sender: str) -> bool:
        """Return whether it may begin now; if not, its `begin` is called later."""
        if sender not in self._waiting and not self._rates.take(sender, monotonic()):
            return True
        self._waiting.setdefault(sender, {})[arrival] = None
        self._senders[arrival] = sender
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(BEGIN_SECONDS, self._begin)
        return False

    def find_oldest(self, sender: str | None = None) -> A | None:
        """Return the one of this sender that has waited for longest; of None, any that does."""
        waiting = next(iter(self._waiting.values()), {}) if sender is None else self._waiting.get(sender, {})
        return next(iter(waiting), None)

    def forget(self, arrival: A) -> None:
        """End its wait; without effect when it does not wait."""
        sender = self._senders.pop(arrival, None)
        if sender is not None:
            waiting = self._waiting[sender]
            del waiting[arrival]
            if not waiting:
                del self._waiting[sender]

    def _begin(self) -> None:
        loop, now = asyncio.get_running_loop(), monotonic()
        for sender in list(self._waiting):
            while (first := self.find_oldest(sender)) is not None and not self._rates.take(sender, now):
                self.forget(first)
                loop.call_soon(first.begin)
        self._timer = loop.call_later(BEGIN_SECONDS, self._begin) if self._waiting else None
