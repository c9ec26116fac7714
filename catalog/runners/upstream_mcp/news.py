"""What connections learn of an upstream: that its list of tools changed, and whether it can be reached.

Who opens connections tells, who compares definitions and keeps the health listens.
"""

from __future__ import annotations

from collections.abc import Callable

_listeners: list[Callable[[int], object]] = []
_health: list[Callable[[int, str], object]] = []


def listen(listener: Callable[[int], object]) -> None:
    """`listener(number of the upstream)` is called on the loop of the connection; it must be quick."""
    if listener not in _listeners:
        _listeners.append(listener)


def changed(upstream: int) -> None:
    for listener in list(_listeners):
        listener(upstream)


def listen_to_health(listener: Callable[[int, str], object]) -> None:
    """`listener(number of the upstream, what is wrong or "")`, likewise."""
    if listener not in _health:
        _health.append(listener)


def health(upstream: int, problem: str) -> None:
    for listener in list(_health):
        listener(upstream, problem)
