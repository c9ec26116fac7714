"""Notifications about upstreams: changes of the list of tools, and reachability.

Connections send them; the comparison of definitions and the health status receive them.
"""

from __future__ import annotations

from collections.abc import Callable

from toolhub.parts import parts


class UpstreamListeners:
    """The listeners for upstreams in this process. They are called on the loop of the connection and must be quick."""

    def __init__(self) -> None:
        self._changed: list[Callable[[int], object]] = []
        self._health: list[Callable[[int, str], object]] = []

    def listen(self, changed: Callable[[int], object], health: Callable[[int, str], object]) -> None:
        """Call `changed(number of the upstream)` and `health(number, problem or "")` from now on."""
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

    def notify_changed(self, upstream: int) -> None:
        for listener in list(self._changed):
            listener(upstream)

    def notify_health(self, upstream: int, problem: str) -> None:
        for listener in list(self._health):
            listener(upstream, problem)


def notify_changed(upstream: int) -> None:
    """Notify the listeners that the list of an upstream changed."""
    parts.get(UpstreamListeners).notify_changed(upstream)


def notify_health(upstream: int, problem: str) -> None:
    """Notify the listeners that an upstream works (""), or of its problem."""
    parts.get(UpstreamListeners).notify_health(upstream, problem)
