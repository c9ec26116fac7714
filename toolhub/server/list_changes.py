"""Notification of other workers about catalogue changes.

Without it they detect a change by polling, within a second.
"""

from __future__ import annotations

from typing import Any

from catalog import signals
from catalog.policy import snapshot
from toolhub.server.bus import Bus

CHANGED = "catalog.changed"


class ListChanges:
    """Notifies the other workers of changes committed here, and reloads the catalogue for their notifications."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        bus.on(CHANGED, self._on_catalogue_changed)

    def start(self) -> None:
        """Subscribe to the commits of this process."""
        signals.changed.connect(self._on_committed)

    def stop(self) -> None:
        """Unsubscribe from the commits of this process."""
        signals.changed.disconnect(self._on_committed)

    def _on_committed(self, **_: Any) -> None:
        """Handle the signal in the committing thread; the catalogue itself has already notified this process."""
        self._bus.publish_from_thread(CHANGED, {})

    def _on_catalogue_changed(self, payload: dict[str, Any]) -> None:
        snapshot.poll_now()
