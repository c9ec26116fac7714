"""Announcements of functions that a resource has changed, for whoever tells the subscribed clients."""

from __future__ import annotations

from collections.abc import Callable

from toolhub.parts import parts

Listener = Callable[[str], None]


class ResourceUpdates:
    """The listeners to announcements. They are called in the thread of the function and must not block."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def add(self, listener: Listener) -> None:
        """Call `listener` with the URI of every announced resource; no effect when it was added already."""
        if listener not in self._listeners:
            self._listeners.append(listener)

    def remove(self, listener: Listener) -> None:
        """Undo `add`."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    def announce(self, uri: str) -> None:
        for listener in list(self._listeners):
            listener(uri)


def resource_updated(uri: str) -> None:
    """Announce, from any thread, that the content of a resource has changed.

    Subscribed clients that may read it are notified. Nobody listens in a process that is no server, such as a command.
    """
    updates = parts.find(ResourceUpdates)
    if updates is not None:
        updates.announce(uri)
