"""Scheduled comparison of upstream definitions, and within seconds after an upstream announces a changed list.

One process at a time compares one upstream: the one that advances `next_refresh` with a conditional update. It runs as
a background job, on an event loop of its own, so that no answer of an upstream can delay a call.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from django.db import DatabaseError, InterfaceError, close_old_connections
from django.db.models import Q
from django.utils import timezone

from catalog.models import Upstream
from catalog.models.base import CatalogueItem
from catalog.runners.upstream_mcp import notifications, pool
from catalog.runners.upstream_mcp.failures import UpstreamError
from catalog.upstreams import discovery
from catalog.upstreams.listing import Listing, list_items
from toolhub.jobs import Job
from toolhub.log_throttle import ThrottledWarning
from toolhub.parts import parts

POLL_SECONDS = 2.0
MAX_CONCURRENT = 8
"""Maximum number of upstreams that one process compares concurrently."""
log = logging.getLogger("toolhub.catalog")


def claim(now: datetime | None = None) -> list[Upstream]:
    """Return the due upstreams that this process must compare; no other process gets them before their next time."""
    now = now or timezone.now()
    due = Upstream.objects.filter(Q(next_refresh__isnull=True) | Q(next_refresh__lte=now), enabled=True)
    mine = []
    for upstream in due.order_by("next_refresh", "pk")[:MAX_CONCURRENT]:
        until = now + timedelta(seconds=max(upstream.refresh_seconds, 2))
        same = Upstream.objects.filter(pk=upstream.pk, next_refresh=upstream.next_refresh)
        if same.update(next_refresh=until):
            mine.append(upstream)
    return mine


def run_due() -> int:
    """Compare the due upstreams in this thread; return their number."""
    mine = claim()
    if mine:
        connections = [_reach(upstream) for upstream in mine]
        for upstream, found in zip(mine, asyncio.run(_list_all(connections)), strict=True):
            if isinstance(found, UpstreamError):
                discovery.store_health(upstream, problem=found.audit_message)
                continue
            changed = discovery.compare(upstream, found).changed
            if changed:
                log.warning("Upstream %s: quarantined: %s", upstream.name, ", ".join(changed))
    return len(mine)


def schedule_now(number: int) -> None:
    """Schedule this upstream for the next run of any process."""
    soon = timezone.now()
    Upstream.objects.filter(pk=number, enabled=True, next_refresh__gt=soon).update(next_refresh=soon)


def on_item_saved(instance: CatalogueItem, **_: object) -> None:
    """Schedule the comparison that a new or changed item of an upstream server waits for (handler of post_save)."""
    if name := discovery.named_upstream(instance):
        for number in Upstream.objects.filter(name=name).values_list("pk", flat=True):
            schedule_now(number)


async def _list_all(
    connections: Sequence[discovery.ConnectionWithSecrets | UpstreamError],
) -> list[Listing | UpstreamError]:
    async def one(connection: discovery.ConnectionWithSecrets | UpstreamError) -> Listing | UpstreamError:
        if isinstance(connection, UpstreamError):
            return connection
        try:
            return await list_items(*connection)
        except UpstreamError as error:
            return error

    return list(await asyncio.gather(*map(one, connections)))


def _reach(upstream: Upstream) -> discovery.ConnectionWithSecrets | UpstreamError:
    owner = upstream.secrets_of
    try:
        return discovery.resolve_connection(upstream, owner.pk if owner is not None and owner.is_active else None)
    except UpstreamError as error:
        return error


def store_reports(health: Mapping[int, str]) -> None:
    """Store the changes of the health that calls found."""
    for number, problem in health.items():
        rows = Upstream.objects.filter(pk=number).exclude(last_error=problem[:1000])
        rows.update(last_error=problem[:1000], **({} if problem else {"last_seen": timezone.now()}))


class UpstreamSchedule:
    """The reports of this process's connections about upstream servers, and the background job that handles them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._announced: set[int] = set()
        self._health: dict[int, str] = {}
        """Reports of calls since the last time they were stored."""
        self._warning = ThrottledWarning(log)

    def start(self) -> None:
        """Listen to the connections of this process; repeated calls have no effect."""
        parts.get(notifications.UpstreamListeners).listen(self._on_changed, self._on_health)

    async def stop(self) -> None:
        """Stop listening, and close the connections that calls of this loop left open."""
        parts.get(notifications.UpstreamListeners).forget(self._on_changed, self._on_health)
        await pool.close()

    def run(self) -> None:
        """Store the reports and compare the due upstreams, in this thread. A database that is away is logged."""
        with self._lock:
            announced, self._announced = self._announced, set()
            health, self._health = self._health, {}
        try:
            close_old_connections()
            store_reports(health)
            for number in announced:
                schedule_now(number)
            run_due()
        except (DatabaseError, InterfaceError) as error:
            self._warning.warn("Upstream servers cannot be compared now: %s", type(error).__name__)

    def _on_changed(self, number: int) -> None:
        with self._lock:
            self._announced.add(number)

    def _on_health(self, number: int, problem: str) -> None:
        with self._lock:
            self._health[number] = problem


def jobs() -> list[Job]:
    """Return the background job of this application."""
    return [Job("Compare upstream servers", POLL_SECONDS, parts.get(UpstreamSchedule).run)]


def start() -> None:
    """Start the schedule of this process; see `UpstreamSchedule.start`."""
    parts.get(UpstreamSchedule).start()


async def stop() -> None:
    """Stop the schedule of this process; see `UpstreamSchedule.stop`."""
    await parts.get(UpstreamSchedule).stop()
