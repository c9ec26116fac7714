"""Tasks of which a process runs at most one at a time, and the pace of those that take long."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import Lock, Thread, current_thread

from django.db import connection

from toolhub.parts import parts

logger = logging.getLogger("audit")

BUSY_SHARE = 0.1
"""Share of the time that a long task works while its process serves calls."""
MAX_PAUSE_SECONDS = 1.0
"""Maximum seconds of one pause, so that a task that may go on again does so soon."""


class Traffic:
    """How many batches of ended calls this process has logged; a listener of its `AuditLog`."""

    def __init__(self) -> None:
        self.batches = 0

    def on_finish(self, entries: object) -> None:
        """Count one batch."""
        self.batches += 1


class Pacer:
    """Pauses of a long task: all of the time while the process is idle, `BUSY_SHARE` of it while calls end.

    The threads of a process share one interpreter. Without pauses, the daily verification of a log that grows fast took
    6 % of the calls for as long as it ran (`tests.bench`, workload versions). A command such as `verifycalls` has a
    process of its own, and never pauses.
    """

    def __init__(
        self,
        traffic: Traffic | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._traffic = traffic if traffic is not None else parts.get(Traffic)
        self._clock, self._sleep = clock, sleep
        self._resumed, self._batches = clock(), self._traffic.batches

    def pause(self) -> None:
        """Pause after a piece of work if calls ended during it. Call with no transaction and no cursor open."""
        worked = self._clock() - self._resumed
        if self._traffic.batches != self._batches:
            self._sleep(min(worked * (1 / BUSY_SHARE - 1), MAX_PAUSE_SECONDS))
        self._resumed, self._batches = self._clock(), self._traffic.batches


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
