"""Definitions of upstreams are compared on a schedule, and within seconds when one says that its list changed.

One process at a time does it for one upstream: the one that moves `next_refresh` on with a conditional update. It runs
as a background job, on an event loop of its own, so that no answer of an upstream can hold up a call.
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
from catalog.runners.upstream_mcp import news, pool
from catalog.runners.upstream_mcp.failures import UpstreamError
from catalog.upstreams import discovery
from toolhub.jobs import Job
from toolhub.log_throttle import ThrottledWarning
from toolhub.parts import parts

LOOK_SECONDS = 2.0
AT_ONCE = 8
"""Upstreams that one process compares side by side."""
log = logging.getLogger("toolhub.catalog")


def claim(now: datetime | None = None) -> list[Upstream]:
    """Those that are due and that this process is to compare now; nobody else gets them before their next time."""
    now = now or timezone.now()
    due = Upstream.objects.filter(Q(next_refresh__isnull=True) | Q(next_refresh__lte=now), enabled=True)
    mine = []
    for upstream in due.order_by("next_refresh", "pk")[:AT_ONCE]:
        until = now + timedelta(seconds=max(upstream.refresh_seconds, 2))
        same = Upstream.objects.filter(pk=upstream.pk, next_refresh=upstream.next_refresh)
        if same.update(next_refresh=until):
            mine.append(upstream)
    return mine


def run_due() -> int:
    """Compare what is due, in this thread. How many that were."""
    mine = claim()
    if mine:
        ways = [_reach(upstream) for upstream in mine]
        for upstream, found in zip(mine, asyncio.run(_list_all(ways)), strict=True):
            if isinstance(found, UpstreamError):
                discovery.note(upstream, problem=found.on_record)
                continue
            changed = discovery.compare(upstream, found).changed
            if changed:
                log.warning("Upstream %s: quarantined: %s", upstream.name, ", ".join(changed))
    return len(mine)


def hasten(number: int) -> None:
    """Let this upstream be compared soon, by whichever process looks first."""
    soon = timezone.now()
    Upstream.objects.filter(pk=number, enabled=True, next_refresh__gt=soon).update(next_refresh=soon)


async def _list_all(ways: Sequence[discovery.Way | UpstreamError]) -> list[discovery.Found | UpstreamError]:
    async def one(way: discovery.Way | UpstreamError) -> discovery.Found | UpstreamError:
        if isinstance(way, UpstreamError):
            return way
        try:
            return await discovery.list_tools(*way)
        except UpstreamError as error:
            return error

    return list(await asyncio.gather(*map(one, ways)))


def _reach(upstream: Upstream) -> discovery.Way | UpstreamError:
    try:
        return discovery.reach(upstream, upstream.secrets_of_id)
    except UpstreamError as error:
        return error


def keep(health: Mapping[int, str]) -> None:
    """Write down what is new of the health that calls found."""
    for number, problem in health.items():
        rows = Upstream.objects.filter(pk=number).exclude(last_error=problem[:1000])
        rows.update(last_error=problem[:1000], **({} if problem else {"last_seen": timezone.now()}))


class UpstreamSchedule:
    """What connections of this process tell about upstream servers, and the background job that acts on it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hurried: set[int] = set()
        self._health: dict[int, str] = {}
        """What calls learned since it was written down last."""
        self._warning = ThrottledWarning(log)

    def start(self) -> None:
        """Listen to the connections of this process; harmless when called again."""
        parts.get(news.UpstreamNews).listen(self._changed, self._told)

    async def stop(self) -> None:
        """Listen no more, and close the connections that calls of this loop left open."""
        parts.get(news.UpstreamNews).forget(self._changed, self._told)
        await pool.close()

    def run(self) -> None:
        """Write down what was learned and compare what is due, in this thread. A database that is away is logged."""
        with self._lock:
            hurried, self._hurried = self._hurried, set()
            health, self._health = self._health, {}
        try:
            close_old_connections()
            keep(health)
            for number in hurried:
                hasten(number)
            run_due()
        except (DatabaseError, InterfaceError) as error:
            self._warning.warn("Upstream servers cannot be compared now: %s", type(error).__name__)

    def _changed(self, number: int) -> None:
        with self._lock:
            self._hurried.add(number)

    def _told(self, number: int, problem: str) -> None:
        with self._lock:
            self._health[number] = problem


def jobs() -> list[Job]:
    """Return the background job of this application."""
    return [Job("Compare upstream servers", LOOK_SECONDS, parts.get(UpstreamSchedule).run)]


def start() -> None:
    """See `UpstreamSchedule.start`."""
    parts.get(UpstreamSchedule).start()


async def stop() -> None:
    """See `UpstreamSchedule.stop`."""
    await parts.get(UpstreamSchedule).stop()
