"""The one object of a process: what lives as long as it does, and the order in which it starts and stops."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from audit import maintenance, recorder
from catalog.calls import stored_results, tasks
from catalog.upstreams import schedule
from toolhub.egress import ConnectionPools
from toolhub.jobs import Job, Scheduler
from toolhub.pages.try_it.remote import TryOwners
from toolhub.pages.try_it.run import TryRuns
from toolhub.parts import parts
from toolhub.server.process import ServerRole
from toolhub.transports.live import LiveSockets
from toolhub.transports.resume import StreamLogs

RECORD_SECONDS = 10.0
"""How long a stop waits for the audit log to be written."""
CLEANING_SECONDS = 300.0
"""How often expired tasks and stored results are removed."""
JOB_SECONDS = 3.0
"""How long a stop waits for the background job that runs."""


class Hub:
    """Builds the parts of this process and hands them to each other. One event loop, one start, one stop."""

    def __init__(self, jobs: Iterable[Job] | None = None) -> None:
        self.scheduler = Scheduler(background_jobs() if jobs is None else jobs)
        self.server = ServerRole(self.start, self.scheduler.status)
        self.pools = ConnectionPools()
        self.streams = StreamLogs(self.server.state)
        self.sockets = LiveSockets(self.server)
        self.try_runs = TryRuns(self.server.requests, self.start)
        self.try_owners = TryOwners(self.server.bus, self.try_runs)
        self._starting = asyncio.Lock()
        self._started = self._stopped = False

    def install(self) -> None:
        """Have admin views, signals and commands of this process find its parts."""
        for part in self._installed():
            parts.put(part)

    def _installed(self) -> tuple[object, ...]:
        server = self.server
        return self, server.bus, server.authenticator, self.try_runs, self.try_owners, self.scheduler, self.pools

    async def start(self) -> None:
        """Start every part on the running loop; harmless when called again.

        Not every server has a start-up hook, so the first request does this too. A start that fails, because the
        database is away for example, is tried again by the next one.
        """
        async with self._starting:
            if self._started or self._stopped:
                return
            self.install()
            await self.server.start()
            schedule.start()
            recorder.audit_log().take_jobs()  # from now on the scheduler runs them
            self.scheduler.start()
            self._started = True

    async def stop(self, seconds: float) -> None:
        """Accept nothing new, let running calls finish for at most `seconds`, end every part. May be called twice."""
        self._stopped = True
        await self.server.drain(seconds)
        await self.sockets.stop()
        await asyncio.to_thread(self.scheduler.stop, JOB_SECONDS)
        await self.server.stop()
        await schedule.stop()
        await self.pools.close()
        await recorder.stop(RECORD_SECONDS)
        await self.server.close()
        for part in self._installed():
            if parts.find(type(part)) is part:
                parts.remove(type(part))


def background_jobs() -> list[Job]:
    """Return all jobs that run in the background of every serving process."""
    return [
        *maintenance.jobs(),
        *schedule.jobs(),
        Job("Remove expired tasks", CLEANING_SECONDS, _remove_expired_tasks),
        Job("Remove expired results", CLEANING_SECONDS, _remove_expired_results),
    ]


def _remove_expired_tasks() -> None:
    tasks.remove_expired()


def _remove_expired_results() -> None:
    stored_results.remove_expired()
