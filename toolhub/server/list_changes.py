"""A changed catalogue, told to the other workers at once: without this they find out by polling, within a second."""

from __future__ import annotations

from typing import Any

from catalog import signals
from catalog.policy import snapshot
from toolhub.server import bus

CHANGED = "catalog.changed"


def start() -> None:
    signals.changed.connect(_committed, dispatch_uid="toolhub.server.list_changes")


def _committed(**_: Any) -> None:
    """The signal, in whichever thread committed; this process has been told by the catalogue itself."""
    bus.tell_from_thread(CHANGED, {})


def _news(payload: dict[str, Any]) -> None:
    snapshot.hurry()


bus.on(CHANGED, _news)
