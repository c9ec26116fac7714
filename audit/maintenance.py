"""Background jobs of the audit log (see `jobs`), and the writer's work at each heartbeat."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from django.db import connection

from audit import retention
from audit.background import BackgroundTask
from audit.integrity import checkpoints, verifier
from audit.queries import rollups, text_index
from audit.writing.recovery import Recovery
from audit.writing.stores.base import KeyTaken
from audit.writing.writer import Writer
from toolhub.jobs import Job

logger = logging.getLogger("audit")

JOB_SECONDS = 60.0
"""Interval at which each job checks whether it is due, which depends on settings and on other processes."""


def jobs() -> list[Job]:
    """Return the background jobs of the audit log. Each may take long and needs a thread of its own."""
    return [
        _job("Verify audit log", verifier.verify_if_due),
        _job("Apply retention", retention.apply_if_due),
        _job("Update rollups", rollups.update_if_stale),
        _job("Update text index", text_index.update),
    ]


def _job(name: str, work: Callable[[], None]) -> Job:
    def run() -> None:
        try:
            work()
        finally:
            connection.close()  # the next run may be in another thread or use another database

    return Job(name, JOB_SECONDS, run)


class PeriodicJobs:
    """Jobs that the writer's heartbeat starts, each in a thread of its own and never twice at the same time."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        now = time.monotonic()
        self._due = {job.name: now + job.every_seconds for job in jobs}
        self._tasks = [(job, BackgroundTask(f"audit-job {job.name}", job.run)) for job in jobs]

    def tick(self, now: float | None = None) -> int:
        """Start the jobs that are due and return their number. Called often, by one thread; cheap when none is due."""
        now = time.monotonic() if now is None else now
        started = 0
        for job, task in self._tasks:
            if now >= self._due[job.name]:
                self._due[job.name] = now + job.every_seconds
                started += task.start()
        return started


class WriterMaintenance:
    """Work of a writer besides writing: recovery, checkpoints, and the start of periodic jobs."""

    def __init__(self, start_jobs: Callable[[], object]) -> None:
        self._recovery = Recovery()
        self._start_jobs = start_jobs

    def on_heartbeat(self, writer: Writer) -> None:
        """Close the calls of dead processes, sign a checkpoint when one is due, and start the jobs that are due."""
        store = writer.store
        assert store is not None  # noqa: S101
        self._recovery.run(writer)
        if writer.former_chains or checkpoints.is_due(store):
            _sign(writer)
        self._start_jobs()

    def on_close(self, writer: Writer) -> None:
        """Sign the last checkpoint."""
        _sign(writer, ended=True)


def _sign(writer: Writer, *, ended: bool = False) -> None:
    """Sign a checkpoint with the heads of this process's chains as it knows them."""
    assert writer.store is not None and writer.chain is not None  # noqa: S101
    try:
        checkpoints.sign(writer.store, [writer.chain, *writer.former_chains], ended=ended)
    except KeyTaken:
        logger.info("another process signs a checkpoint at the same time")
        return
    writer.former_chains.clear()
