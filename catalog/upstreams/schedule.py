"""Definitions of upstreams are compared on a schedule, and at once when an upstream says that its list changed.

One process at a time does it for one upstream: whoever moves `next_refresh` on with a conditional update. It runs on a
thread with an event loop of its own, so that no answer of an upstream can hold up a call.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta

from django.db import DatabaseError, InterfaceError, close_old_connections, connections
from django.db.models import Q
from django.utils import timezone

from catalog.models import Upstream
from catalog.runners.upstream_mcp import news, pool
from catalog.runners.upstream_mcp.failures import UpstreamError
from catalog.upstreams import discovery
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


class _Watch:
    """The chore of one event loop."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.executor = ThreadPoolExecutor(1, "upstreams")
        self.hurried: set[int] = set()
        self.health: dict[int, str] = {}
        """What calls learned since it was written down last."""
        self.wake = asyncio.Event()
        self.task = self.loop.create_task(self._run(), name="comparing upstreams")

    def hurry(self, number: int) -> None:
        self.hurried.add(number)
        self.wake.set()

    async def _run(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self.wake.wait()
            self.wake.clear()
            hurried, self.hurried = self.hurried, set()
            health, self.health = self.health, {}
            try:
                await self.loop.run_in_executor(self.executor, _turn, hurried, health)
            except (DatabaseError, InterfaceError) as error:
                log.warning("Upstreams cannot be compared now: %s", type(error).__name__)
            except Exception:
                log.exception("Comparing upstreams failed")
            if hurried:
                await asyncio.sleep(LOOK_SECONDS)  # however often an upstream says that something changed

    async def stop(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task
        await self.loop.run_in_executor(self.executor, connections.close_all)
        self.executor.shutdown(wait=False)


def keep(health: Mapping[int, str]) -> None:
    """Write down what is new of the health that calls found."""
    for number, problem in health.items():
        rows = Upstream.objects.filter(pk=number).exclude(last_error=problem[:1000])
        rows.update(last_error=problem[:1000], **({} if problem else {"last_seen": timezone.now()}))


def _turn(hurried: set[int], health: Mapping[int, str]) -> None:
    close_old_connections()
    try:
        keep(health)
        for number in hurried:
            hasten(number)
        run_due()
    finally:
        close_old_connections()


class UpstreamSchedule:
    """The chore of this process, which belongs to one event loop at a time."""

    def __init__(self) -> None:
        self._watch: _Watch | None = None

    def start(self) -> None:
        """Compare upstreams from now on, on the running loop; harmless when called again."""
        if self._watch is None or self._watch.loop is not asyncio.get_running_loop() or self._watch.task.done():
            self._watch = _Watch()
            parts.get(news.UpstreamNews).listen(self._changed, self._told)

    async def stop(self) -> None:
        """End the chore of this loop, and close the connections that calls left open."""
        watch, self._watch = self._watch, None
        parts.get(news.UpstreamNews).forget(self._changed, self._told)
        if watch is not None and watch.loop is asyncio.get_running_loop():
            await watch.stop()
        await pool.close()

    def _changed(self, number: int) -> None:
        """Called on the loop of the connection, which is the one of the chore."""
        if self._watch is not None and self._watch.loop is asyncio.get_running_loop():
            self._watch.hurry(number)

    def _told(self, number: int, problem: str) -> None:
        if self._watch is not None and self._watch.loop is asyncio.get_running_loop():
            self._watch.health[number] = problem


def start() -> None:
    """See `UpstreamSchedule.start`."""
    parts.get(UpstreamSchedule).start()


async def stop() -> None:
    """See `UpstreamSchedule.stop`."""
    await parts.get(UpstreamSchedule).stop()
