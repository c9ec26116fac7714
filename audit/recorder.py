"""The record's front: begin, finish, refuse, action. Everything that is recorded enters here.

A process has one writer, opened by the first call and ended by `stop`. Waiters belong to their own event loop, so that
loops may come and go. A child process shares nothing with its parent.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import time
from collections.abc import Callable
from threading import Lock
from uuid import UUID

from audit.format import uuid7
from audit.format.timestamps import now_ms
from audit.maintenance import Chores
from audit.types import Begun, CannotRecord, Ending, Intent, RecordBusy
from audit.writing.entries import BEGIN, FINISH, PING, REFUSAL, Entry
from audit.writing.writer import Writer

logger = logging.getLogger("audit")

__all__ = [
    "Begun",
    "CannotRecord",
    "Ending",
    "Intent",
    "RecordBusy",
    "begin",
    "finish",
    "new_call_id",
    "off_finished",
    "on_finished",
    "ready",
    "refuse",
    "running",
    "stop",
    "stop_now",
]

_writer: Writer | None = None
_opening = Lock()
_listeners: list[Callable[[list[Entry]], None]] = []

new_call_id = uuid7.new_id


def _open() -> Writer:
    global _writer
    with _opening:
        if _writer is None:
            chores = Chores()
            _writer = Writer(chores.now_and_then, chores.at_the_end)
            _writer.queue.finished = _listeners
            _writer.start()
        return _writer


async def begin(intent: Intent, call_id: UUID | None = None) -> Begun:
    """Returns when the call is durably on record; raises CannotRecord within three seconds otherwise."""
    writer = _writer or _open()
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    begun = Begun(call_id or uuid7.new_id(), time.monotonic(), intent)
    entry = Entry(BEGIN, begun.id, intent, None, now_ms(), begun.started, loop, future)
    writer.queue.put(entry)
    try:
        await future
    except asyncio.CancelledError:
        writer.queue.give_up_on(entry, "the client left before it ran")
        raise
    writer.queue.open[begun.id] = begun
    return begun


def finish(begun: Begun, ending: Ending) -> asyncio.Future[None]:
    """The returned future is done when the outcome is durable: in the database, or in the spool while that is away.

    The write is queued by this very call, before anything is awaited: an awaiter that is cancelled loses nothing.
    """
    writer = _writer or _open()
    writer.queue.open.pop(begun.id, None)
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    now = time.monotonic()
    entry = Entry(FINISH, begun.id, begun.intent, ending, now_ms(), now, loop, future)
    entry.duration = int((now - begun.started) * 1_000_000)
    writer.queue.put_end(entry)
    return future


async def refuse(intent: Intent, ending: Ending) -> UUID:
    """Puts an attempt on record that was turned away before anything ran. Raises CannotRecord like `begin`."""
    writer = _writer or _open()
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    id = uuid7.new_id()
    entry = Entry(REFUSAL, id, intent, ending, now_ms(), time.monotonic(), loop, future)
    entry.duration = 0
    writer.queue.put(entry)
    await future
    return id


async def ready() -> str | None:
    """None when calls can be recorded, else the reason why not. Asks the database when nothing was written lately."""
    writer = _writer or _open()
    if writer.queue.refusing:
        return writer.queue.refusing
    if time.monotonic() - writer.last_write < 1.0:
        return None
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    try:
        writer.queue.put(Entry(PING, uuid7.new_id(), None, None, now_ms(), time.monotonic(), loop, future))
        await future
    except CannotRecord as error:
        return error.reason
    return None


def running() -> int:
    """How many calls of this process have begun and not ended."""
    return len(_writer.queue.open) if _writer is not None else 0


def on_finished(listener: Callable[[list[Entry]], None]) -> None:
    """`listener` gets the ends (and refusals) of every batch in the writer's thread, after they were committed."""
    _listeners.append(listener)


def off_finished(listener: Callable[[list[Entry]], None]) -> None:
    _listeners.remove(listener)


async def stop(timeout: float) -> None:
    """Writes what is queued, signs a checkpoint and ends the process's chain. The next `begin` opens a new one."""
    await asyncio.get_running_loop().run_in_executor(None, stop_now, timeout)


def stop_now(timeout: float) -> None:
    """`stop` for a thread without an event loop. Costs nothing when nothing was recorded."""
    global _writer
    with _opening:
        writer, _writer = _writer, None
    if writer is not None:
        writer.stop(timeout)


def _at_exit() -> None:
    try:
        stop_now(5.0)
    except Exception:
        logger.exception("the record was not ended in order; the next process closes its calls")


def _after_fork() -> None:
    # The parent's threads are not here, and its connection must not be used by two.
    global _writer, _opening
    _writer, _opening = None, Lock()


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork)
