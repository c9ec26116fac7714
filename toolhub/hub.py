"""The hub of a process: the parts that live as long as the process, and their start and stop order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from django.conf import settings
from django.contrib.sessions.backends.db import SessionStore
from django.utils import timezone

from audit import maintenance, recorder
from catalog.approvals import requests as approval_requests
from catalog.approvals import webhook
from catalog.calls import stored_results, tasks
from catalog.calls.approval_wait import Waits
from catalog.metering import quotas
from catalog.openapi import document_import
from catalog.runners.sql_query.readers import SqliteReaders
from catalog.upstreams import schedule
from toolhub import privacy
from toolhub.client_address import TrustedProxies
from toolhub.edge import limits
from toolhub.edge.connections import Connections
from toolhub.egress import ConnectionPools
from toolhub.identity import renewal
from toolhub.jobs import Job, Scheduler
from toolhub.memory import FreePages
from toolhub.oauth import cleanup
from toolhub.pages.tool_tests.runs import ToolTestRuns
from toolhub.pages.try_it.remote import TryOwners
from toolhub.pages.try_it.run import TryRuns
from toolhub.parts import parts
from toolhub.people import outbox
from toolhub.server.process import ServerRole
from toolhub.transports.live import LiveSockets
from toolhub.transports.resume import StreamLogs
from toolhub.transports.uploads import Uploads

LOG_STOP_SECONDS = 10.0
"""Maximum seconds that a stop waits for the audit log to be written."""
CLEANUP_INTERVAL_SECONDS = 300.0
"""Seconds between two removals of expired tasks and stored results."""
APPROVALS_INTERVAL_SECONDS = 30.0
"""Seconds between two looks for requests for approval whose time is over, so that the log says when that was."""
SESSIONS_INTERVAL_SECONDS = 3600.0
"""Seconds between two removals of sessions of browsers: visitors who only begin a sign-in leave one, too."""
PREVIEWS_INTERVAL_SECONDS = 3600.0
"""Seconds between two removals of OpenAPI documents that were previewed and not imported."""
QUOTAS_INTERVAL_SECONDS = 3600.0
"""Seconds between two removals of what quotas counted in periods of long ago."""
JOB_STOP_SECONDS = 3.0
"""Maximum seconds that a stop waits for the running background job."""
MEMORY_INTERVAL_SECONDS = 60.0
"""Seconds between two looks at the memory that is free and still held."""


class Hub:
    """Builds the parts of this process and connects them: one event loop, one start, one stop."""

    def __init__(self, jobs: Iterable[Job] | None = None) -> None:
        self.scheduler = Scheduler(background_jobs() if jobs is None else jobs)
        self.server = ServerRole(self.start, self.scheduler.status)
        self.pools = ConnectionPools()
        self.streams = StreamLogs(self.server.state)
        refusals = self.server.refusals
        self.uploads = Uploads(settings.MAX_UPLOAD_BYTES)
        proxies = TrustedProxies(settings.TRUSTED_PROXIES)
        self.edge = Connections(limits.from_settings(), proxies, refusals, self.uploads)
        self.server.presence.edge = self.edge
        self.page_uploads = Uploads(settings.MAX_UPLOAD_BYTES)
        self.sockets = LiveSockets(self.server)
        self.try_runs = TryRuns(self.server.requests, self.start)
        self.try_owners = TryOwners(self.server.bus, self.try_runs)
        self.test_runs = ToolTestRuns(self.server.requests, self.start)
        self._starting = asyncio.Lock()
        self._started = self._stopped = False

    def install(self) -> None:
        """Make the parts available to admin views, signals and commands of this process."""
        for part in self._shared_parts():
            parts.put(part)

    def _shared_parts(self) -> tuple[object, ...]:
        server = self.server
        return (
            self,
            server.bus,
            server.authenticator,
            server.connect_check,
            self.try_runs,
            self.try_owners,
            self.test_runs,
            self.scheduler,
            self.pools,
        )

    async def start(self) -> None:
        """Start every part on the running loop; a repeated call has no effect.

        Not every server has a start-up hook, so the first request calls this too. After a start that failed, because
        the database is unavailable for example, the next request tries again.
        """
        async with self._starting:
            if self._started or self._stopped:
                return
            privacy.hide_memory()
            self.install()
            await self.server.start()
            schedule.start()
            recorder.audit_log().take_jobs()  # the scheduler now runs the log's jobs
            self.scheduler.start()
            self._started = True

    async def stop(self, seconds: float) -> None:
        """Accept no new work, let running calls finish for at most `seconds`, stop every part.

        May be called twice.
        """
        self._stopped = True
        parts.get(Waits).are_over = True  # nobody knows how long people take
        await self.server.drain(seconds)
        await self.test_runs.stop()
        await self.sockets.stop()
        await asyncio.to_thread(self.scheduler.stop, JOB_STOP_SECONDS)
        await self.server.stop()
        await schedule.stop()
        await self.pools.close()
        await asyncio.to_thread(parts.get(SqliteReaders).close)
        await recorder.stop(LOG_STOP_SECONDS)
        await self.server.close()
        parts.get(Waits).are_over = False  # another hub of this process, or none, lets calls wait again
        for part in self._shared_parts():
            if parts.find(type(part)) is part:
                parts.remove(type(part))


def background_jobs() -> list[Job]:
    """Return all jobs that run in the background of every serving process."""
    return [
        *maintenance.jobs(),
        *schedule.jobs(),
        Job(webhook.JOB_NAME, webhook.JOB_SECONDS, webhook.Announcer().run),
        Job("End expired approvals", APPROVALS_INTERVAL_SECONDS, _end_expired_approvals),
        Job("Remove expired tasks", CLEANUP_INTERVAL_SECONDS, _remove_expired_tasks),
        Job("Remove expired results", CLEANUP_INTERVAL_SECONDS, _clean_up_results),
        Job("Remove past quotas", QUOTAS_INTERVAL_SECONDS, _remove_past_quotas),
        Job("Remove expired connections of apps", CLEANUP_INTERVAL_SECONDS, cleanup.clean_up),
        Job("Check sign-ins with identity providers", renewal.INTERVAL_SECONDS, renewal.run),
        Job(outbox.JOB_NAME, outbox.JOB_SECONDS, outbox.send_due),
        Job("Remove expired sign-ins", SESSIONS_INTERVAL_SECONDS, _remove_expired_sessions),
        Job("Remove expired previews", PREVIEWS_INTERVAL_SECONDS, document_import.discard_expired),
        Job("Return free memory", MEMORY_INTERVAL_SECONDS, FreePages().give_back),
    ]


def _end_expired_approvals() -> None:
    approval_requests.expire()
    approval_requests.remove_old()


def _remove_expired_tasks() -> None:
    tasks.remove_expired()


def _remove_past_quotas() -> None:
    quotas.remove_past(timezone.now())


def _remove_expired_sessions() -> None:
    SessionStore.clear_expired()


def _clean_up_results() -> None:
    stored_results.clean_up()
