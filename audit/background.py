"""Tasks of which a process runs at most one at a time, and the pace of those that take long."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock, Thread, current_thread

from django.db import connection

from toolhub.parts import parts

logger = logging.getLogger("audit")

BUSY_SHARE = 0.1
"""Share of the time that a long task works while its process serves calls."""
MAX_PAUSE_SECONDS = 1.0
"""Maximum seconds of one pause, so that a task that may go on again does so soon."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """How many entries this process has logged so far."""

    count: Callable[[], int]


class Pacer:
    """Pauses of a long task, which works all of the time while the process is idle, and `share` of it otherwise.

    The threads of a process share one interpreter: without pauses, the daily verification of a log takes its calls part
    of the processor for as long as it runs. A command such as `verifycalls` has a process of its own, and never pauses.
    """

    def __init__(
        self,
        traffic: Traffic | None = None,
        *,
        share: float = BUSY_SHARE,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._traffic = traffic if traffic is not None else parts.get(Traffic)
        self._clock, self._sleep, self._share = clock, sleep, share
        self._resumed, self._entries = clock(), self._traffic.count()

    def pause(self) -> None:
        """Pause after a piece of work if something was logged meanwhile. Call it with no transaction or cursor open."""
        worked = self._clock() - self._resumed
        if self._traffic.count() != self._entries:
            self._sleep(min(worked * (1 / self._share - 1), MAX_PAUSE_SECONDS))
        self._resumed, self._entries = self._clock(), self._traffic.count()


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
