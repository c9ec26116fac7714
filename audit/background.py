"""Tasks of which a process runs at most one at a time, in the background or in the thread of the caller."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Lock, Thread, current_thread

from django.db import connection

logger = logging.getLogger("audit")


class BackgroundTask:
    """A task and the thread that runs it."""

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        self.name = name
        """Name of the thread."""
        self._work = work
        self._thread: Thread | None = None
        self._lock = Lock()

    @property
    def running(self) -> bool:
        """Whether this process is running the task now."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> bool:
        """Run the task in a separate thread. Return False when it is already running."""
        with self._lock:
            if self.running:
                return False
            self._thread = Thread(target=self._in_background, name=self.name, daemon=True)
            self._thread.start()
        return True

    def run(self) -> bool:
        """Run the task in this thread. Return False when it is already running; raise the task's exception if any."""
        with self._lock:
            if self.running:
                return False
            self._thread = current_thread()
        try:
            self._work()
        finally:
            self._thread = None
        return True

    def _in_background(self) -> None:
        try:
            self._work()
        except Exception:
            logger.exception("%s failed", self.name)
        finally:
            connection.close()
