"""Announcements of functions that a resource changed, passed on to the subscribers of all workers.

A function may announce as often as it likes: what comes within a moment is told once.
"""

from __future__ import annotations

import asyncio
import logging
import threading

from catalog.functions.updates import ResourceUpdates
from toolhub.parts import parts
from toolhub.server.subscribers import Subscribers

log = logging.getLogger(__name__)

COLLECT_SECONDS = 0.05
MAX_URIS = 1_000
"""Maximum number of resources announced within that time; the rest is logged and dropped."""
MAX_URI_CHARACTERS = 2_000


class UpdateCollector:
    """The announcements of this process that wait to be passed on."""

    def __init__(self, subscribers: Subscribers) -> None:
        self._subscribers = subscribers
        self._lock = threading.Lock()
        self._waiting: dict[str, None] = {}
        self._dropped = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Listen to the functions of this process, for the running loop."""
        self._loop = asyncio.get_running_loop()
        parts.get(ResourceUpdates).add(self._on_update)

    def stop(self) -> None:
        """Listen no more."""
        parts.get(ResourceUpdates).remove(self._on_update)
        self._loop = None

    def _on_update(self, uri: str) -> None:
        """Collect one announcement, in any thread."""
        loop = self._loop
        if loop is None or len(uri) > MAX_URI_CHARACTERS:
            return
        with self._lock:
            first = not self._waiting
            if len(self._waiting) < MAX_URIS or uri in self._waiting:
                self._waiting[uri] = None
            else:
                self._dropped += 1
        if first:
            loop.call_soon_threadsafe(loop.call_later, COLLECT_SECONDS, self._pass_on)

    def _pass_on(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, {}
            dropped, self._dropped = self._dropped, 0
        for uri in waiting:
            self._subscribers.publish_update(uri)
        if dropped:
            log.warning("%d announcements of changed resources were dropped: there were too many at once", dropped)
