"""Named background jobs of a process, run one after the other in one thread."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import connections

log = logging.getLogger(__name__)

MAX_ERROR_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class Job:
    """Work that is due again and again, counted from the end of the run before. `run` is called in a thread.

    `name` is in English, unique in a process, and shown to people in their language.
    """

    name: str
    every_seconds: float
    run: Callable[[], None]


@dataclass(frozen=True, slots=True)
class JobStatus:
    """How a job is doing in this process. Times are None for what has not happened yet."""

    name: str
    every_seconds: float
    running: bool
    last_start: datetime | None
    last_end: datetime | None
    duration_seconds: float | None
    last_error: str
    """The error that ended the last run, in one line; "" when it went well."""
    next_due: datetime | None


class _Entry:
    """A job and how its runs went."""

    __slots__ = ("due", "due_at", "duration", "ended", "error", "job", "running", "started")

    def __init__(self, job: Job) -> None:
        self.job = job
        self.schedule()
        self.running = False
        self.started: datetime | None = None
        self.ended: datetime | None = None
        self.duration: float | None = None
        self.error = ""

    def schedule(self) -> None:
        """Have the job run again after its interval."""
        self.due = time.monotonic() + self.job.every_seconds
        self.due_at = datetime.now(UTC) + timedelta(seconds=self.job.every_seconds)


class Scheduler:
    """One thread that runs each job when it is due, never two at a time. A job that fails is due again as usual."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._entries = {job.name: _Entry(job) for job in jobs}
        self._changed = threading.Condition()
        self._turn = threading.Lock()
        """Held while a job runs, so that `run_now` overlaps with nothing."""
        self._thread: threading.Thread | None = None
        self._stopping = False

    def start(self) -> None:
        """Run jobs from now on, each for the first time after its interval; harmless when called again."""
        with self._changed:
            if self._thread is not None or not self._entries:
                return
            self._stopping = False
            for entry in self._entries.values():
                entry.schedule()
            # A daemon: a job that hangs, with the database for example, must not keep the process from ending.
            self._thread = threading.Thread(target=self._work, name="scheduler", daemon=True)
            self._thread.start()

    def stop(self, timeout: float) -> bool:
        """Start no more jobs and wait for the one that runs. False when it still runs after `timeout` seconds."""
        with self._changed:
            thread, self._stopping = self._thread, True
            self._changed.notify_all()
        if thread is None:
            return True
        thread.join(timeout)
        if thread.is_alive():
            return False
        self._thread = None
        return True

    def run_now(self, name: str) -> None:
        """Run one job in this thread, after the one that runs now. Raises KeyError for an unknown name."""
        self._run(self._entries[name])

    def status(self) -> list[JobStatus]:
        """How each job is doing, in the order in which they were given. From any thread."""
        scheduled = self._thread is not None and not self._stopping
        return [
            JobStatus(
                name=entry.job.name,
                every_seconds=entry.job.every_seconds,
                running=entry.running,
                last_start=entry.started,
                last_end=entry.ended,
                duration_seconds=entry.duration,
                last_error=entry.error,
                next_due=entry.due_at if scheduled else None,
            )
            for entry in self._entries.values()
        ]

    def _work(self) -> None:
        while True:
            with self._changed:
                if self._stopping:
                    return
                entry = min(self._entries.values(), key=lambda entry: entry.due)
                wait = entry.due - time.monotonic()
                if wait > 0:
                    self._changed.wait(wait)
                    continue
            try:
                self._run(entry)
            finally:
                connections.close_all()

    def _run(self, entry: _Entry) -> None:
        with self._turn:
            started = time.monotonic()
            entry.started, entry.running = datetime.now(UTC), True
            try:
                entry.job.run()
            except Exception as error:
                log.exception("The background job %s failed", entry.job.name)
                entry.error = f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARACTERS]
            else:
                entry.error = ""
            finally:
                entry.duration = time.monotonic() - started
                entry.ended, entry.running = datetime.now(UTC), False
                entry.schedule()
