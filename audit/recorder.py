"""Public API of the audit log: begin, finish and deny calls.

A process has one `AuditLog`, which `audit.apps` puts among the process's parts. The functions of this module delegate
to it.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from threading import Lock
from typing import Any
from uuid import UUID

from audit import maintenance
from audit.export.log_shipper import Shipper
from audit.format import uuid7
from audit.format.timestamps import now_ms
from audit.types import Begun, CannotRecord, Ending, Intent, RecordBusy
from audit.writing.entries import BEGIN, FINISH, PING, REFUSAL, Entry
from audit.writing.writer import Writer
from toolhub.jobs import Job
from toolhub.parts import parts

logger = logging.getLogger("audit")

__all__ = [
    "AuditLog",
    "Begun",
    "CannotRecord",
    "Ending",
    "Intent",
    "RecordBusy",
    "audit_log",
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

EXIT_SECONDS = 5.0
Listener = Callable[[list[Entry]], None]

new_call_id = uuid7.new_id


class AuditLog:
    """The audit log of a process: its writer, the listeners for ended calls, and the copy for a log shipper.

    The first call opens the writer, and `stop` ends it; the next call opens a new one. Each waiter belongs to its own
    event loop, so that loops can be created and closed. `call_log` is the file for the log shipper, "-" for standard
    output, "" for none; `jobs` run with the writer's heartbeat (all of `audit.maintenance` when None).
    """

    def __init__(self, call_log: str = "", jobs: Sequence[Job] | None = None) -> None:
        self.shipper = Shipper(call_log) if call_log else None
        self.writer: Writer | None = None
        """None until the first call, and after `stop`."""
        self.living: set[int] = set()
        """Numbers of this process's writers that have not ended."""
        self._jobs = list(maintenance.jobs() if jobs is None else jobs)
        self._periodic = maintenance.PeriodicJobs(self._jobs)
        self._opening = Lock()
        self._listeners: list[Listener] = []
        if self.shipper is not None:
            self._listeners.append(self._ship)

    async def begin(self, intent: Intent, call_id: UUID | None = None) -> Begun:
        """Wait until the call is durably logged and return it. Raise CannotRecord within three seconds otherwise."""
        writer = self.writer or self._open()
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

    def finish(self, begun: Begun, ending: Ending) -> asyncio.Future[None]:
        """Return a future that is done when the end is durable.

        It is durable in the database, or in the spool while the database is unavailable. This call queues the write
        before anything is awaited: cancelling the awaiter loses nothing.
        """
        writer = self.writer or self._open()
        writer.queue.open.pop(begun.id, None)
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        now = time.monotonic()
        entry = Entry(FINISH, begun.id, begun.intent, ending, now_ms(), now, loop, future)
        entry.duration = int((now - begun.started) * 1_000_000)
        writer.queue.put_end(entry)
        return future

    async def refuse(self, intent: Intent, ending: Ending) -> UUID:
        """Log an attempt that was denied before anything ran, and return its id. Raise CannotRecord like `begin`."""
        writer = self.writer or self._open()
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        id = uuid7.new_id()
        entry = Entry(REFUSAL, id, intent, ending, now_ms(), time.monotonic(), loop, future)
        entry.duration = 0
        writer.queue.put(entry)
        await future
        return id

    async def ready(self) -> str | None:
        """Return why calls cannot be logged, or None. Query the database if nothing was written in the last second."""
        writer = self.writer or self._open()
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

    def running(self) -> int:
        """Return the number of calls of this process that have begun and not ended."""
        return len(self.writer.queue.open) if self.writer is not None else 0

    def on_finished(self, listener: Listener) -> None:
        """Pass the ends and denials of every batch to `listener`, in the writer's thread, after their commit."""
        self._listeners.append(listener)

    def off_finished(self, listener: Listener) -> None:
        """Undo `on_finished`."""
        self._listeners.remove(listener)

    def take_jobs(self) -> list[Job]:
        """Return the background jobs for a scheduler; the writer's heartbeat no longer runs them."""
        taken, self._jobs = self._jobs, []
        self._periodic = maintenance.PeriodicJobs(())
        return taken

    def run_once(self, work: Callable[[Writer], None]) -> None:
        """Open a hash chain, do the work in this thread and end the chain: for commands."""
        Writer.once(work, self.living)

    async def stop(self, timeout: float) -> None:
        """Write the queued entries, sign a checkpoint and end the process's hash chain.

        `timeout` is in seconds. The next `begin` opens a new chain.
        """
        await asyncio.get_running_loop().run_in_executor(None, self.stop_now, timeout)

    def stop_now(self, timeout: float) -> None:
        """Stop like `stop`, from a thread without an event loop. Do nothing when nothing was logged."""
        with self._opening:
            writer, self.writer = self.writer, None
        if writer is not None:
            writer.stop(timeout)

    def close(self) -> None:
        """Stop before the process ends, and wait until the copy for the log shipper is written."""
        try:
            self.stop_now(EXIT_SECONDS)
        except Exception:
            logger.exception("the audit log was not closed in order; the next process closes its calls")
        if self.shipper is not None:
            self.shipper.flush(EXIT_SECONDS)

    def after_fork(self) -> None:
        """Reset the state in a child process: the parent's threads do not exist here, its connection is not shared."""
        self.writer, self._opening = None, Lock()
        self.living = set()
        self._periodic = maintenance.PeriodicJobs(self._jobs)
        if self.shipper is not None:
            self.shipper = Shipper(self.shipper.target)

    def _open(self) -> Writer:
        with self._opening:
            if self.writer is None:
                chores = maintenance.Chores(lambda: self._periodic.tick())
                writer = Writer(chores.on_heartbeat, chores.on_close, self.living)
                writer.queue.finished = self._listeners
                writer.start()
                self.writer = writer
            return self.writer

    def _ship(self, entries: Iterable[Entry]) -> None:
        if self.shipper is not None:
            self.shipper.put(entries)


def audit_log() -> AuditLog:
    """Return the audit log of this process."""
    return parts.get(AuditLog)


def begin(intent: Intent, call_id: UUID | None = None) -> Coroutine[Any, Any, Begun]:
    """See `AuditLog.begin`."""
    return parts.get(AuditLog).begin(intent, call_id)


def finish(begun: Begun, ending: Ending) -> asyncio.Future[None]:
    """See `AuditLog.finish`."""
    return parts.get(AuditLog).finish(begun, ending)


def refuse(intent: Intent, ending: Ending) -> Coroutine[Any, Any, UUID]:
    """See `AuditLog.refuse`."""
    return parts.get(AuditLog).refuse(intent, ending)


def ready() -> Coroutine[Any, Any, str | None]:
    """See `AuditLog.ready`."""
    return parts.get(AuditLog).ready()


def running() -> int:
    """See `AuditLog.running`."""
    return parts.get(AuditLog).running()


def on_finished(listener: Listener) -> None:
    """See `AuditLog.on_finished`."""
    parts.get(AuditLog).on_finished(listener)


def off_finished(listener: Listener) -> None:
    """See `AuditLog.off_finished`."""
    parts.get(AuditLog).off_finished(listener)


def stop(timeout: float) -> Coroutine[Any, Any, None]:
    """See `AuditLog.stop`."""
    return parts.get(AuditLog).stop(timeout)


def stop_now(timeout: float) -> None:
    """See `AuditLog.stop_now`."""
    parts.get(AuditLog).stop_now(timeout)


def _at_exit() -> None:
    log = parts.find(AuditLog)
    if log is not None:
        log.close()


def _after_fork() -> None:
    log = parts.find(AuditLog)
    if log is not None:
        log.after_fork()


# These functions look up the process's audit log when they run. A registration is permanent, so no instance registers
# itself.
atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork)
