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
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from threading import Lock
from typing import Any
from uuid import UUID

from django.conf import settings

from audit import maintenance
from audit.bodies.keeper import BodyKeeper
from audit.export.log_shipper import Shipper
from audit.format import uuid7
from audit.format.timestamps import now_ms
from audit.types import AuditLogBusy, AuditLogUnavailable, BegunCall, Ending, Intent
from audit.writing.entries import BEGIN, FINISH, PING, REFUSAL, Entry
from audit.writing.writer import Writer
from toolhub import deadline
from toolhub.jobs import Job
from toolhub.parts import parts

logger = logging.getLogger("audit")

__all__ = [
    "AuditLog",
    "AuditLogBusy",
    "AuditLogUnavailable",
    "BegunCall",
    "Ending",
    "Intent",
    "add_finish_listener",
    "audit_log",
    "begin",
    "deny",
    "finish",
    "new_call_id",
    "ready",
    "remove_finish_listener",
    "running",
    "stop",
    "stop_now",
]

EXIT_SECONDS = 5.0
PROMPT_SECONDS = 0.4
"""Seconds since its arrival up to which a request has waited for nothing else."""
MIN_ANSWER_SECONDS = 0.2
"""Seconds that a healthy database has for an entry although other waits have used up the time of the request."""
NO_ANSWER = "the database does not answer"
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
        self.bodies = BodyKeeper()
        self.writer: Writer | None = None
        """None until the first call, and after `stop`."""
        self.open_writers: set[int] = set()
        """Numbers of this process's writers that have not ended."""
        self._jobs = list(maintenance.jobs() if jobs is None else jobs)
        self._periodic = maintenance.PeriodicJobs(self._jobs)
        self._opening = Lock()
        self._listeners: list[Listener] = [self._keep_bodies]
        if self.shipper is not None:
            self._listeners.append(self._ship)

    async def begin(self, intent: Intent, call_id: UUID | None = None) -> BegunCall:
        """Return the call once it is durably logged. Raise AuditLogUnavailable within three seconds otherwise."""
        writer = self.writer or self._open()
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        begun = BegunCall(call_id or uuid7.new_id(), time.monotonic(), intent)
        entry = Entry(BEGIN, begun.id, intent, None, now_ms(), begun.started, loop, future)
        writer.queue.put(entry)
        try:
            await _in_time(future, begun.started)
        except asyncio.CancelledError:
            writer.queue.abandon(entry, "the client left before it ran")
            raise
        except TimeoutError:
            writer.queue.abandon(entry, "")
            raise AuditLogUnavailable(NO_ANSWER) from None
        writer.queue.open[begun.id] = begun
        return begun

    def finish(self, begun: BegunCall, ending: Ending) -> asyncio.Future[None]:
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

    async def deny(self, intent: Intent, ending: Ending, *, shared: bool = False) -> UUID:
        """Log an attempt denied before anything ran, and return its id. Raise AuditLogUnavailable like `begin`.

        With `shared`, identical attempts that wait for the log at the same time are one entry with their number.
        """
        writer = self.writer or self._open()
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        id = uuid7.new_id()
        entry = Entry(REFUSAL, id, intent, ending, now_ms(), time.monotonic(), loop, future)
        entry.duration = 0
        if shared:
            entry = writer.queue.put_shared(entry)
            # Each attempt waits for itself: one whose client leaves must not end the others.
            waiting = entry.future or future
            waiting.add_done_callback(_take_exception)
            future = asyncio.shield(waiting)
        else:
            writer.queue.put(entry)
        try:
            await _in_time(future, time.monotonic() if shared else entry.queued_at)
        except TimeoutError:
            raise AuditLogUnavailable(NO_ANSWER) from None
        return entry.id

    async def ready(self) -> str | None:
        """Return why calls cannot be logged, or None. Query the database if nothing was written in the last second."""
        writer = self.writer or self._open()
        if writer.queue.problem:
            return writer.queue.problem
        if time.monotonic() - writer.last_write < 1.0:
            return None
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        try:
            writer.queue.put(Entry(PING, uuid7.new_id(), None, None, now_ms(), time.monotonic(), loop, future))
            await future
        except AuditLogUnavailable as error:
            return error.reason
        return None

    def count_entries(self) -> int:
        """Return the number of links in this process's chain; 0 before the first call."""
        chain = self.writer.chain if self.writer is not None else None
        return chain.sequence if chain is not None else 0

    def running(self) -> int:
        """Return the number of calls of this process that have begun and not ended."""
        return len(self.writer.queue.open) if self.writer is not None else 0

    def add_finish_listener(self, listener: Listener) -> None:
        """Pass the ends and denials of every batch to `listener`, in the writer's thread, after their commit."""
        self._listeners.append(listener)

    def remove_finish_listener(self, listener: Listener) -> None:
        """Undo `add_finish_listener`."""
        self._listeners.remove(listener)

    def take_jobs(self) -> list[Job]:
        """Return the background jobs for a scheduler; the writer's heartbeat no longer runs them."""
        taken, self._jobs = self._jobs, []
        self._periodic = maintenance.PeriodicJobs(())
        return taken

    def run_once(self, work: Callable[[Writer], None]) -> None:
        """Open a hash chain, do the work in this thread and end the chain: for commands."""
        Writer.run_once(work, self.open_writers)

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
            self.bodies.flush(EXIT_SECONDS)

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
        self.open_writers = set()
        self.bodies = BodyKeeper()
        self._periodic = maintenance.PeriodicJobs(self._jobs)
        if self.shipper is not None:
            self.shipper = Shipper(self.shipper.target)

    def _open(self) -> Writer:
        with self._opening:
            if self.writer is None:
                maintenance_work = maintenance.WriterMaintenance(lambda: self._periodic.tick())
                writer = Writer(maintenance_work.on_heartbeat, maintenance_work.on_close, self.open_writers)
                writer.queue.finish_listeners = self._listeners
                writer.start()
                self.writer = writer
            return self.writer

    def _keep_bodies(self, entries: Iterable[Entry]) -> None:
        if long := [entry for entry in entries if entry.ending is not None and entry.ending.whole]:
            self.bodies.put(long)

    def _ship(self, entries: Iterable[Entry]) -> None:
        if self.shipper is not None:
            self.shipper.put(entries)


def _take_exception(future: asyncio.Future[None]) -> None:
    """Note that the error of a future is known, although everybody who waited for it has left."""
    if not future.cancelled():
        future.exception()


def _in_time(future: asyncio.Future[None], now: float) -> Awaitable[None]:
    """Return `future`, under the deadline of a request that has waited for something else; raises TimeoutError then.

    For any other, the watchdog's own deadline is early enough.
    """
    arrived = getattr(asyncio.current_task(), "arrived", None)
    if arrived is None or now - arrived < PROMPT_SECONDS:
        return future
    return deadline.within(future, settings.RECORD_SECONDS, MIN_ANSWER_SECONDS)


def audit_log() -> AuditLog:
    """Return the audit log of this process."""
    return parts.get(AuditLog)


def begin(intent: Intent, call_id: UUID | None = None) -> Coroutine[Any, Any, BegunCall]:
    """See `AuditLog.begin`."""
    return parts.get(AuditLog).begin(intent, call_id)


def finish(begun: BegunCall, ending: Ending) -> asyncio.Future[None]:
    """See `AuditLog.finish`."""
    return parts.get(AuditLog).finish(begun, ending)


def deny(intent: Intent, ending: Ending, *, shared: bool = False) -> Coroutine[Any, Any, UUID]:
    """See `AuditLog.deny`."""
    return parts.get(AuditLog).deny(intent, ending, shared=shared)


def ready() -> Coroutine[Any, Any, str | None]:
    """See `AuditLog.ready`."""
    return parts.get(AuditLog).ready()


def running() -> int:
    """See `AuditLog.running`."""
    return parts.get(AuditLog).running()


def add_finish_listener(listener: Listener) -> None:
    """See `AuditLog.add_finish_listener`."""
    parts.get(AuditLog).add_finish_listener(listener)


def remove_finish_listener(listener: Listener) -> None:
    """See `AuditLog.remove_finish_listener`."""
    parts.get(AuditLog).remove_finish_listener(listener)


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
