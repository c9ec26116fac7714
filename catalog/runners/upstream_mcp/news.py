"""What connections learn of an upstream: that its list of tools changed, and whether it can be reached.

Who opens connections tells, who compares definitions and keeps the health listens.
"""

from __future__ import annotations

from collections.abc import Callable

from toolhub.parts import parts


class UpstreamNews:
    """Who hears of upstreams in this process. Listeners are called on the loop of the connection and must be quick."""

    def __init__(self) -> None:
        self._changed: list[Callable[[int], object]] = []
        self._health: list[Callable[[int, str], object]] = []

    def listen(self, changed: Callable[[int], object], health: Callable[[int, str], object]) -> None:
        """Call `changed(number of the upstream)` and `health(number, what is wrong or "")` from now on."""
        if changed not in self._changed:
            self._changed.append(changed)
        if health not in self._health:
            self._health.append(health)

    def forget(self, changed: Callable[[int], object], health: Callable[[int, str], object]) -> None:
        """Undo `listen`."""
        if changed in self._changed:
            self._changed.remove(changed)
        if health in self._health:
            self._health.remove(health)

    def tell_changed(self, upstream: int) -> None:
        for listener in list(self._changed):
            listener(upstream)

    def tell_health(self, upstream: int, problem: str) -> None:
        for listener in list(self._health):
            listener(upstream, problem)


def changed(upstream: int) -> None:
    """Say that the list of an upstream changed."""
    parts.get(UpstreamNews).tell_changed(upstream)


def health(upstream: int, problem: str) -> None:
    """Say that an upstream works (""), or why not."""
    parts.get(UpstreamNews).tell_health(upstream, problem)
