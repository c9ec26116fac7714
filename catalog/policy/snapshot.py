"""The catalogue in memory: one immutable snapshot per revision, replaced when the revision changes.

Every process polls the revision once a second on its event loop (the query runs on a thread of its own) and at once
when something in this process committed a change or `hurry()` says that another process did. While the database does
not answer, the last snapshot stays.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any

from django.db import DatabaseError, InterfaceError, close_old_connections, connection, connections

from catalog.policy import revision
from catalog.policy.definitions import Snapshot
from catalog.policy.loader import Loader

logger = logging.getLogger("toolhub.catalog")
POLL_SECONDS = 1.0
COMPLAIN_SECONDS = 60.0


class NotLoaded(RuntimeError):
    """Nothing was loaded yet in this process: await `ensure()` first."""


class _Poll:
    """The poll of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.wake = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def alive(self) -> bool:
        return self.task is not None and not self.task.done() and not self.loop.is_closed()


_snapshot: Snapshot | None = None
_loader = Loader()
_drafts = count(1)
_lock = threading.Lock()
_poll: _Poll | None = None
_starting: asyncio.Lock | None = None
_listeners: list[Callable[[Snapshot], object]] = []
_executor = ThreadPoolExecutor(1, "catalogue")
_complained = -COMPLAIN_SECONDS


def current() -> Snapshot:
    if _snapshot is None:
        raise NotLoaded("The catalogue is not loaded yet.")
    return _snapshot


def refresh() -> Snapshot:
    """Read the catalogue now, in this thread, and put it in place.

    What is read inside an open transaction may never be committed: nothing of it is kept for the next reading, and
    its revision is a number that no committed one equals.
    """
    global _snapshot
    with _lock:
        if connection.in_atomic_block:
            fresh = replace(Loader().load(), revision=-next(_drafts))
        else:
            fresh = _loader.load()
        _snapshot = fresh
    _call_on_loop(_tell_listeners)
    return fresh


def latest() -> Snapshot:
    """As new as the database, for pages: in this thread, and cheap when nothing changed."""
    if _snapshot is None or revision.current() != _snapshot.revision:
        return refresh()
    return _snapshot


def listen(callback: Callable[[Snapshot], object]) -> Callable[[], None]:
    """Call back on the loop thread after each new snapshot; the answer takes the callback away again."""
    _listeners.append(callback)

    def forget() -> None:
        with suppress(ValueError):
            _listeners.remove(callback)

    return forget


def hurry() -> None:
    """Poll now. From any thread."""
    poll = _poll
    if poll is not None:
        _call_on_loop(poll.wake.set)


def on_changed(**kwargs: Any) -> None:
    """Handler of `catalog.signals.changed`."""
    hurry()


async def ensure() -> Snapshot:
    """The snapshot, loaded if need be, with the poll running on this loop."""
    loop = asyncio.get_running_loop()
    poll = _poll
    if poll is not None and poll.loop is loop and _snapshot is not None and poll.alive():
        return _snapshot
    return await _start(loop)


async def reload() -> Snapshot:
    """Read the revision now and return a snapshot that is at least as new."""
    await asyncio.get_running_loop().run_in_executor(_executor, _refresh_if_changed)
    return current()


async def stop() -> None:
    """End the poll of this loop and close the connection of its thread."""
    global _poll
    poll, _poll = _poll, None
    if poll is not None and poll.alive() and poll.task is not None and poll.loop is asyncio.get_running_loop():
        poll.task.cancel()
        with suppress(asyncio.CancelledError):
            await poll.task
    await asyncio.get_running_loop().run_in_executor(_executor, connections.close_all)


async def _start(loop: asyncio.AbstractEventLoop) -> Snapshot:
    global _poll
    poll = _poll
    if poll is None or poll.loop is not loop or not poll.alive():
        poll = _poll = _Poll(loop)
        poll.task = loop.create_task(_run(poll), name="catalogue revision poll")
    # A loop that starts late (or anew) must not trust what another one read long ago.
    await loop.run_in_executor(_executor, _refresh_if_changed)
    return current()


async def _run(poll: _Poll) -> None:
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_SECONDS):
                await poll.wake.wait()
        poll.wake.clear()
        try:
            await poll.loop.run_in_executor(_executor, _refresh_if_changed)
        except (DatabaseError, InterfaceError, OSError) as error:
            _complain(f"{type(error).__name__} while reading it")
        except Exception as error:  # noqa: BLE001 - one bad row must not end the poll
            _complain(f"{type(error).__name__}: {error}")


def _refresh_if_changed() -> None:
    close_old_connections()
    try:
        if _snapshot is None or revision.current() != _snapshot.revision:
            refresh()
    finally:
        close_old_connections()


def _complain(problem: str) -> None:
    global _complained
    if time.monotonic() - _complained >= COMPLAIN_SECONDS:
        _complained = time.monotonic()
        logger.warning("The catalogue cannot be read (%s); what was read last stays in force.", problem)


def _call_on_loop(function: Callable[[], object]) -> None:
    poll = _poll
    if poll is not None:
        # Closing a loop between a check and the call is a race; asking forgiveness is not.
        with suppress(RuntimeError):
            poll.loop.call_soon_threadsafe(function)


def _tell_listeners() -> None:
    if _snapshot is None:
        return
    for callback in list(_listeners):
        callback(_snapshot)
