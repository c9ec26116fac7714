"""The catalogue in memory: one immutable snapshot per revision, replaced when the revision changes.

Every process polls the revision once a second on its event loop (the query runs on a thread of its own) and at once
when something in this process committed a change or `poll_now()` reports that another process did. While the database
does not answer, the last snapshot stays.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any

from django.conf import settings
from django.db import DatabaseError, InterfaceError, close_old_connections, connection, connections

from catalog.policy import revision
from catalog.policy.definitions import Snapshot
from catalog.policy.loader import Loader
from toolhub import deadline
from toolhub.log_throttle import ThrottledWarning
from toolhub.parts import parts

logger = logging.getLogger("toolhub.catalog")
POLL_SECONDS = 1.0


class NotLoaded(RuntimeError):
    """An error for a process in which nothing was loaded yet: await `ensure()` first."""


class _Poll:
    """The poll of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.wake = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def alive(self) -> bool:
        return self.task is not None and not self.task.done() and not self.loop.is_closed()


class SnapshotStore:
    """The snapshot of a process, the poll that replaces it, and its listeners."""

    def __init__(self) -> None:
        self._snapshot: Snapshot | None = None
        self._loader = Loader()
        self._drafts = count(1)
        self._lock = threading.Lock()
        self._poll: _Poll | None = None
        self._listeners: list[Callable[[Snapshot], object]] = []
        self._executor = ThreadPoolExecutor(1, "catalogue")
        self._warning = ThrottledWarning(logger)

    def current(self) -> Snapshot:
        """Return the snapshot in force. Raises NotLoaded before the first load."""
        if self._snapshot is None:
            raise NotLoaded("The catalogue is not loaded yet.")
        return self._snapshot

    def refresh(self) -> Snapshot:
        """Read the catalogue now, in this thread, and put it in place.

        Data read inside an open transaction may never be committed: none of it is kept for the next reading, and
        its revision is a number that no committed one equals.
        """
        with self._lock:
            if connection.in_atomic_block:
                fresh = replace(Loader().load(), revision=-next(self._drafts))
            else:
                fresh = self._loader.load()
            self._snapshot = fresh
        self._call_on_loop(self._notify_listeners)
        return fresh

    def latest(self) -> Snapshot:
        """Return a snapshot as new as the database, for pages: in this thread, and cheap when nothing changed."""
        if self._snapshot is None or revision.current() != self._snapshot.revision:
            return self.refresh()
        return self._snapshot

    def listen(self, callback: Callable[[Snapshot], object]) -> Callable[[], None]:
        """Call back on the loop thread after each new snapshot; return a function that ends it."""
        self._listeners.append(callback)

        def forget() -> None:
            with suppress(ValueError):
                self._listeners.remove(callback)

        return forget

    def poll_now(self) -> None:
        """Poll now. Callable from any thread."""
        poll = self._poll
        if poll is not None:
            self._call_on_loop(poll.wake.set)

    async def ensure(self) -> Snapshot:
        """Return the snapshot, loaded if need be, with the poll running on this loop."""
        loop = asyncio.get_running_loop()
        poll = self._poll
        if poll is not None and poll.loop is loop and self._snapshot is not None and poll.alive():
            return self._snapshot
        return await self._start(loop)

    async def ensure_in_time(self) -> Snapshot:
        """Run `ensure` under the deadline of the request. Raises TimeoutError."""
        poll = self._poll
        if poll is not None and self._snapshot is not None and poll.loop is asyncio.get_running_loop() and poll.alive():
            return self._snapshot
        return await deadline.within(self.ensure(), settings.RECORD_SECONDS)

    async def reload(self) -> Snapshot:
        """Read the revision now and return a snapshot that is at least as new."""
        await asyncio.get_running_loop().run_in_executor(self._executor, self._refresh_if_changed)
        return self.current()

    async def stop(self) -> None:
        """End the poll of this loop and close the connection of its thread."""
        poll, self._poll = self._poll, None
        if poll is not None and poll.alive() and poll.task is not None and poll.loop is asyncio.get_running_loop():
            poll.task.cancel()
            with suppress(asyncio.CancelledError):
                await poll.task
        await asyncio.get_running_loop().run_in_executor(self._executor, connections.close_all)

    async def _start(self, loop: asyncio.AbstractEventLoop) -> Snapshot:
        poll = self._poll
        if poll is None or poll.loop is not loop or not poll.alive():
            poll = self._poll = _Poll(loop)
            poll.task = loop.create_task(self._run(poll), name="catalogue revision poll")
        # A loop that starts late (or again) must not trust what another one read long ago.
        await loop.run_in_executor(self._executor, self._refresh_if_changed)
        return self.current()

    async def _run(self, poll: _Poll) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await poll.wake.wait()
            poll.wake.clear()
            try:
                await poll.loop.run_in_executor(self._executor, self._refresh_if_changed)
            except (DatabaseError, InterfaceError, OSError) as error:
                self._warn(f"{type(error).__name__} while reading it")
            except Exception as error:  # noqa: BLE001 - one bad row must not end the poll
                self._warn(f"{type(error).__name__}: {error}")

    def _refresh_if_changed(self) -> None:
        close_old_connections()
        try:
            if self._snapshot is None or revision.current() != self._snapshot.revision:
                self.refresh()
        finally:
            close_old_connections()

    def _warn(self, problem: str) -> None:
        self._warning.warn("The catalogue cannot be read (%s); what was read last stays in force.", problem)

    def _call_on_loop(self, function: Callable[[], object]) -> None:
        poll = self._poll
        if poll is not None:
            # Closing a loop between a check and the call is a race; asking forgiveness is not.
            with suppress(RuntimeError):
                poll.loop.call_soon_threadsafe(function)

    def _notify_listeners(self) -> None:
        if self._snapshot is None:
            return
        for callback in list(self._listeners):
            callback(self._snapshot)


def current() -> Snapshot:
    """Return the snapshot in force, see `SnapshotStore.current`."""
    return parts.get(SnapshotStore).current()


def refresh() -> Snapshot:
    """Read the catalogue now, see `SnapshotStore.refresh`."""
    return parts.get(SnapshotStore).refresh()


def latest() -> Snapshot:
    """Return a snapshot as new as the database, see `SnapshotStore.latest`."""
    return parts.get(SnapshotStore).latest()


def listen(callback: Callable[[Snapshot], object]) -> Callable[[], None]:
    """Call back after each new snapshot, see `SnapshotStore.listen`."""
    return parts.get(SnapshotStore).listen(callback)


def poll_now() -> None:
    """Poll now, see `SnapshotStore.poll_now`."""
    parts.get(SnapshotStore).poll_now()


def on_changed(**kwargs: Any) -> None:
    """Poll now: handler of `catalog.signals.changed`."""
    poll_now()


def ensure_in_time() -> Coroutine[Any, Any, Snapshot]:
    """Return the snapshot under the deadline of the request, see `SnapshotStore.ensure_in_time`."""
    return parts.get(SnapshotStore).ensure_in_time()


def ensure() -> Coroutine[Any, Any, Snapshot]:
    """Return the snapshot, loaded if need be, see `SnapshotStore.ensure`."""
    return parts.get(SnapshotStore).ensure()


def reload() -> Coroutine[Any, Any, Snapshot]:
    """Read the revision now, see `SnapshotStore.reload`."""
    return parts.get(SnapshotStore).reload()


def stop() -> Coroutine[Any, Any, None]:
    """End the poll of this loop, see `SnapshotStore.stop`."""
    return parts.get(SnapshotStore).stop()
