"""A changed catalogue, told to the other workers at once: without this they find out by polling, within a second."""

from __future__ import annotations

from typing import Any

from catalog import signals
from catalog.policy import snapshot
from toolhub.server.bus import Bus

CHANGED = "catalog.changed"


class ListChanges:
    """Tells the other workers what was committed here, and has the catalogue read again for what they tell."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        bus.on(CHANGED, self._news)

    def start(self) -> None:
        """Hear of the commits of this process."""
        signals.changed.connect(self._committed)

    def stop(self) -> None:
        """Hear of them no more."""
        signals.changed.disconnect(self._committed)

    def _committed(self, **_: Any) -> None:
        """The signal, in whichever thread committed; this process has been told by the catalogue itself."""
        self._bus.tell_from_thread(CHANGED, {})

    def _news(self, payload: dict[str, Any]) -> None:
        snapshot.hurry()
