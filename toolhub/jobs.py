"""Named background jobs of a process, each in its own thread, so that a long one delays no other."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import close_old_connections, connections

log = logging.getLogger(__name__)

MAX_ERROR_CHARACTERS = 300
CLOSE_AFTER_SECONDS = 30.0
"""Jobs with an interval of at least this many seconds close their database connection after each run."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job that runs repeatedly, at an interval counted from the end of the run before; `run` is called in a thread.

    `name` is in English and unique in a process; pages show its translation.
    """

    name: str
    every_seconds: float
    run: Callable[[], None]


@dataclass(frozen=True, slots=True)
class JobStatus:
    """The state of a job in this process; a time is None when its event has not happened yet."""

    name: str
    every_seconds: float
    running: bool
    last_start: datetime | None
    last_end: datetime | None
    duration_seconds: float | None
    last_error: str
    """The error that ended the last run, in one line; "" after a successful run."""
    next_due: datetime | None


class _Entry:
    """A job and the results of its runs."""

    __slots__ = ("due", "due_at", "duration", "ended", "error", "job", "running", "started", "turn")

    def __init__(self, job: Job) -> None:
        self.job = job
        self.schedule()
        self.turn = threading.Lock()
        """Held while the job runs, so that `run_now` never overlaps with the thread."""
        self.running = False
        self.started: datetime | None = None
        self.ended: datetime | None = None
        self.duration: float | None = None
        self.error = ""

    def schedule(self) -> None:
        """Schedule the next run after the job's interval."""
        self.due = time.monotonic() + self.job.every_seconds
        self.due_at = datetime.now(UTC) + timedelta(seconds=self.job.every_seconds)


class Scheduler:
    """Runs each job when it is due, one run of a job at a time; a job that failed is due again after its interval."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._entries = {job.name: _Entry(job) for job in jobs}
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._stopping = False

    def start(self) -> None:
        """Start the scheduler; each job first runs after its interval. A repeated call has no effect."""
        with self._changed:
            if self._threads:
                return
            self._stopping = False
            for entry in self._entries.values():
                entry.schedule()
                # Daemon threads: a job that hangs, with the database for example, must not keep the process from
                # ending.
                name = f"job-{entry.job.name.lower().replace(' ', '-')}"
                self._threads.append(threading.Thread(target=self._work, args=(entry,), name=name, daemon=True))
            for thread in self._threads:
                thread.start()

    def stop(self, timeout: float) -> bool:
        """Start no more jobs and wait for running ones; return False when one still runs after `timeout` seconds."""
        with self._changed:
            threads, self._stopping = self._threads, True
            self._changed.notify_all()
        deadline = time.monotonic() + timeout
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in threads):
            return False
        self._threads = []
        return True

    def run_now(self, name: str) -> None:
        """Run one job in this thread, after its current run. Raises KeyError for an unknown name."""
        self._run(self._entries[name])

    def status(self) -> list[JobStatus]:
        """Return the state of each job in the order of registration. Callable from any thread."""
        scheduled = bool(self._threads) and not self._stopping
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

    def _work(self, entry: _Entry) -> None:
        try:
            while True:
                with self._changed:
                    while not self._stopping and (wait := entry.due - time.monotonic()) > 0:
                        self._changed.wait(wait)
                    if self._stopping:
                        return
                self._run(entry)
                if entry.job.every_seconds >= CLOSE_AFTER_SECONDS:
                    connections.close_all()
                else:
                    close_old_connections()
        finally:
            connections.close_all()

    def _run(self, entry: _Entry) -> None:
        with entry.turn:
            started = time.monotonic()
            entry.started, entry.running = datetime.now(UTC), True
            try:
                entry.job.run()
            except Exception as error:
                text = f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARACTERS]
                if text != entry.error:  # a repeated identical failure was logged already
                    log.exception("The background job %s failed", entry.job.name)
                entry.error = text
            else:
                entry.error = ""
            finally:
                entry.duration = time.monotonic() - started
                entry.ended, entry.running = datetime.now(UTC), False
                entry.schedule()
