"""Queue of entries from every thread, and their handling while the database is unavailable.

`mutex` decides, once for a batch, which thread owns an entry: the writer's, which settles it, or the watchdog's, which
sets it aside. A waiter for a begin is then rejected; an end goes to the spool and is as durable there.

The module also resolves asyncio futures of the waiters from other threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import replace
from threading import Lock
from typing import Any

from audit import outcomes
from audit.format import timestamps
from audit.types import AuditLogBusy, AuditLogUnavailable, BegunCall, Ending, Reason
from audit.writing.entries import BEGIN, FINISH, GIVEN_UP, REFUSAL, SETTLED, SPOOLED, WAITING, Entry
from audit.writing.spool import Spool, SpoolFailed

logger = logging.getLogger("audit")


def resolve(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)


def reject(futures: list[asyncio.Future[None]], why: str) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(AuditLogUnavailable(why))


def wake(entries: list[Entry], why: str = "") -> None:
    """Resolve the futures of entries that are durable, or reject them with the reason `why`."""
    for entry in entries:
        loop, future, entry.future = entry.loop, entry.future, None
        if loop is None or future is None:
            continue
        with contextlib.suppress(RuntimeError):  # the loop is closed: there is no waiter
            if why:
                loop.call_soon_threadsafe(reject, [future], why)
            else:
                loop.call_soon_threadsafe(resolve, [future])


MAX_WAITING_ENTRIES = 8_000
"""Maximum entries that wait, without denials; further ones are rejected with AuditLogBusy."""
MAX_WAITING_DENIALS = 2_000
"""Maximum denials that wait. Neither kind takes the places of the other: a flood of denied calls rejects no good ones,
and is itself logged while very many good ones wait.
"""
ATTEMPTS = "attempts"
"""The parameter of a denial's reason that says how many identical attempts it stands for."""


def _do_nothing() -> None:
    pass


def _count_attempts(ending: Ending, attempts: int) -> Ending:
    reason = Reason.read(ending.detail_reason)
    text = "" if reason is None else Reason(reason.code, {**reason.params, ATTEMPTS: attempts}).text
    return replace(ending, detail=f"{ending.detail} ({attempts} identical attempts)", detail_reason=text)


class EntryQueue:
    def __init__(self) -> None:
        self.waiting: deque[Entry] = deque()
        self._denials = 0
        """Number of denials among the waiting entries."""
        self._shared: dict[Hashable, Entry] = {}
        """Denials that wait, and count identical attempts until they are written."""
        self.open: dict[Any, BegunCall] = {}
        self.database_problem = ""
        """Reason why the database cannot be written; empty while it can."""
        self.disk_problem = ""
        """Reason why the disk has not enough space; empty while it has."""
        self.problem = ""
        """One of these two reasons: the only attribute that `begin` checks."""
        self.finish_listeners: list[Callable[[list[Entry]], None]] = []
        """Listeners, called in the writer's thread with the ends of a batch, after its commit."""
        self.spool: Spool | None = None
        self.batch: list[Entry] = []
        """Entries that the writer's thread took out of the queue and is writing."""
        self.mutex = Lock()
        self._alarm = Lock()
        self._alarm.acquire()
        self._asleep = False
        self.stopping = False
        self.on_urgent: Callable[[], None] = _do_nothing
        """Called by `put_end` while the database is unavailable, so that an end reaches the spool at once."""

    # --- any thread ------------------------------------------------------------------------------------------------

    def put(self, entry: Entry) -> None:
        """Queue an entry. Raise AuditLogUnavailable when nothing can be logged, AuditLogBusy when the queue is full."""
        if self.problem:
            raise AuditLogUnavailable(self.problem)
        if entry.kind == REFUSAL:
            with self.mutex:
                self._add_denial(entry)
        else:
            if len(self.waiting) - self._denials >= MAX_WAITING_ENTRIES:
                raise AuditLogBusy("too many calls are waiting")
            self.waiting.append(entry)
        if self._asleep:
            self.wake_writer()

    def put_shared(self, entry: Entry) -> Entry:
        """Queue a denial, or count it with an identical one that waits; return the entry that stands for it.

        Its intent and ending are equal, except for the id that the client gave its request. Raises like `put`.
        """
        if self.problem:
            raise AuditLogUnavailable(self.problem)
        intent, ending = entry.intent, entry.ending
        assert intent is not None and ending is not None  # noqa: S101
        caller = intent.caller
        key = (
            *(entry.loop, caller.credential.id, caller.address, caller.transport, caller.revision, caller.client_name),
            *(caller.client_version, intent.method, intent.name, intent.arguments, ending.outcome, ending.detail),
        )
        with self.mutex:
            known = self._shared.get(key)
            if known is not None:
                known.attempts += 1
                return known
            self._add_denial(entry)
            self._shared[key] = entry
        if self._asleep:
            self.wake_writer()
        return entry

    def _add_denial(self, entry: Entry) -> None:
        if self._denials >= MAX_WAITING_DENIALS:
            raise AuditLogBusy("too many calls are waiting")
        self._denials += 1
        self.waiting.append(entry)

    def _on_taken(self, taken: list[Entry]) -> None:
        """Close the entries that count identical attempts, before these are written. Under the mutex."""
        self._denials -= sum(entry.kind == REFUSAL for entry in taken)
        if not self._shared:
            return
        for entry in self._shared.values():
            if entry.attempts > 1 and entry.ending is not None:
                entry.ending = _count_attempts(entry.ending, entry.attempts)
        self._shared.clear()

    def put_end(self, entry: Entry) -> None:
        """Queue the end of a call. It is never rejected: there are no more ends than running calls."""
        self.waiting.append(entry)
        if self._asleep:
            self.wake_writer()
        if self.database_problem:
            self.on_urgent()

    def wake_writer(self) -> None:
        self._asleep = False
        with contextlib.suppress(RuntimeError):  # another thread rang at the same time
            self._alarm.release()

    def stop(self) -> None:
        """Wake the writer's thread for its last batches."""
        self.stopping = True
        self.wake_writer()

    def update_availability(self) -> None:
        self.problem = self.database_problem or self.disk_problem

    def abandon(self, entry: Entry, why: str) -> None:
        """Give up a begin whose waiter has disconnected: the call does not run, and must not stay open."""
        with self.mutex:
            if entry.state == WAITING:
                entry.state, entry.why = GIVEN_UP, why
                return
        if entry.state == SETTLED:
            self._end_unrun(entry, why)

    def _end_unrun(self, entry: Entry, why: str) -> None:
        end = Entry(FINISH, entry.id, None, None, timestamps.now_ms(), time.monotonic())
        outcome = outcomes.CANCELLED if why else outcomes.REFUSED
        end.ending = Ending(
            outcome,
            detail=why or "nothing ran: the audit log did not answer in time",
            detail_reason=Reason("run.client_left" if why else "run.not_logged").text,
        )
        end.duration = 0
        self.put_end(end)

    # --- the watchdog's thread ----------------------------------------------------------------------------------------

    def watch(self, now: float, max_age_seconds: float) -> None:
        if self.database_problem:
            if self.waiting:
                self.set_aside(self.database_problem)
            return
        with self.mutex:
            oldest = next((entry for entry in self.batch if entry.state == WAITING), None)
            if oldest is None and self.waiting:
                oldest = self.waiting[0]
        if oldest is not None and now - oldest.queued_at > max_age_seconds:
            self.set_aside("the database does not answer")

    def set_aside(self, why: str) -> None:
        """Reject the waiters with `why`, and make outcomes durable in the spool while the database is unavailable."""
        rejected: list[Entry] = []
        ends: list[Entry] = []
        with self.mutex:
            if not self.database_problem:
                logger.error("calls are denied: %s", why)
            self.database_problem = why
            self.update_availability()
            taken = list(self.waiting)
            self.waiting.clear()
            self._on_taken(taken)
            pending = [*self.batch, *taken]
            for entry in pending:
                if entry.state != WAITING:
                    continue
                if entry.kind == FINISH:
                    entry.state = SPOOLED
                    ends.append(entry)
                else:
                    entry.state = GIVEN_UP
                    rejected.append(entry)
        wake(rejected, why)
        if not ends:
            return
        # Not under the mutex: a disk that hangs must block this thread and no event loop.
        try:
            if self.spool is None:
                raise SpoolFailed("the audit log was never open")
            self.spool.append(ends)
        except SpoolFailed as error:
            logger.critical("%d statuses are kept in memory only: %s", len(ends), error)
            wake(ends, str(error))
            with self.mutex:
                for entry in ends:
                    entry.state = WAITING
                # Retried at the next tick; ends that the database stored meanwhile are dropped as a second outcome.
                self.waiting.extend(ends)
        else:
            wake(ends)

    # --- the writer's thread ---------------------------------------------------------------------------------------

    def sleep(self, seconds: float) -> None:
        """Wait at most `seconds` for an entry. Return at once while an entry waits or the queue stops."""
        self._asleep = True
        if not self.waiting and not self.stopping and seconds > 0:
            self._alarm.acquire(timeout=seconds)
        self._asleep = False

    def fill_batch(self, size: int) -> None:
        """Take waiting entries into `batch`, up to this size."""
        with self.mutex:
            taken: list[Entry] = []
            while self.waiting and len(self.batch) + len(taken) < size:
                taken.append(self.waiting.popleft())
            self._on_taken(taken)
            self.batch += taken

    def pause(self, seconds: float) -> None:
        """Wait `seconds`, or less when a thread puts an entry and finds the writer asleep."""
        self._alarm.acquire(timeout=seconds)

    def settle(self, entries: list[Entry]) -> None:
        """Wake the waiters of entries that are in the database, all of a loop at once."""
        unrun: list[Entry] = []
        loops: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
        with self.mutex:
            for entry in entries:
                if entry.state == WAITING:
                    entry.state = SETTLED
                    loop = entry.loop
                    if loop is not None and entry.future is not None:
                        if loop in loops:
                            loops[loop].append(entry.future)
                        else:
                            loops[loop] = [entry.future]
                elif entry.state == GIVEN_UP and entry.kind == BEGIN:
                    unrun.append(entry)
        for loop, futures in loops.items():
            with contextlib.suppress(RuntimeError):  # the loop is closed: there is no waiter
                loop.call_soon_threadsafe(resolve, futures)
        for entry in unrun:
            self._end_unrun(entry, entry.why)
        if self.finish_listeners:
            ended = [entry for entry in entries if entry.kind in {FINISH, REFUSAL}]
            for listener in self.finish_listeners:
                listener(ended)
