"""Live updates of calls for open pages: the watched calls, and the messages to their windows.

The audit log is the source of truth, so it is polled: once a second, one short query for each viewer, independent of
the number of windows, and none without viewers. That works on every worker and without Redis; only progress, which is
not logged, comes over the bus. A message to a page is a hint that something changed, with enough data to show it.

The windows watch a person's calls, one call, or the whole audit log (`audit_log`); the module keeps the messages they
got and computes the next ones.

Progress of a running call reaches its viewers on every worker; without viewers nothing is sent.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db import DatabaseError, InterfaceError

from audit import outcomes
from audit.queries import live_calls
from audit.queries.live_calls import MAX_ROW_DELAY, CallState
from audit.queries.search import id_at
from catalog import threads
from catalog.functions.context import Context, ProgressListeners
from catalog.threads import Busy
from toolhub.log_throttle import ThrottledWarning
from toolhub.parts import parts
from toolhub.server.bus import Bus
from toolhub.server.live import subscriptions
from toolhub.server.live.audit_log import LogWatch
from toolhub.server.live.subscriptions import PageSubscriptions

UNKNOWN_AFTER_SECONDS = 10.0
"""Seconds after which a missing call is reported as unknown: pages may get the id before the call has begun."""


class Watcher:
    """One window. `send` gets each message and must not wait."""

    __slots__ = ("announce", "close", "everything", "interrupt", "send", "user_id")

    def __init__(
        self,
        user_id: int,
        send: Callable[[dict[str, Any]], None],
        close: Callable[[], None],
        *,
        everything: bool,
        announce: Callable[[], None],
        interrupt: Callable[[], None],
    ) -> None:
        """Store the callbacks; `everything` is True for an auditor, who may view the calls of others.

        `close` is called when the server stops. `announce` tells a window of an auditor that the audit log changed,
        after a new check of its rights. `interrupt` closes a window that cannot be kept up to date now.
        """
        self.user_id, self.send, self.close, self.everything = user_id, send, close, everything
        self.announce, self.interrupt = announce, interrupt

    def may_see(self, seen: CallState) -> bool:
        return self.everything or seen.user_id == self.user_id


class UserWatch:
    """The messages about their own calls that the windows of one person got."""

    def __init__(self) -> None:
        self.watchers: set[Watcher] = set()
        self.fresh: set[Watcher] = set()
        """Windows without any message so far."""
        self.sent: dict[UUID, str] = {}
        self.polled_at: datetime | None = None

    def send_changes(self, found: list[CallState], now: datetime) -> None:
        for seen in found:
            if self.sent.get(seen.id) == seen.outcome:
                continue
            self.sent[seen.id] = seen.outcome
            if self.polled_at is None:
                continue  # the page already shows it
            message = {**build_message("calls", seen), "name": seen.name}
            for watcher in self.watchers - self.fresh:
                watcher.send(message)
        for watcher in list(self.fresh):  # a window with a full queue closes and is removed
            watcher.send({"topic": "calls", "id": None, "outcome": None, "progress": None, "url": None})
        self.fresh.clear()
        self.polled_at = now
        # Calls that ended before the period that is read again cannot occur a second time.
        floor = id_at(now - 3 * MAX_ROW_DELAY)
        self.sent = {
            number: outcome for number, outcome in self.sent.items() if outcome == outcomes.RUNNING or number > floor
        }


class CallWatch:
    """A call that windows watch by its id."""

    def __init__(self) -> None:
        self.watchers: set[Watcher] = set()
        self.fresh: set[Watcher] = set()
        """Windows without any message so far."""
        self.requested_at = time.monotonic()

    def send_state(self, call_id: UUID, seen: CallState | None) -> list[Watcher]:
        """Send the state of the call; return the watchers that got its final message."""
        late = time.monotonic() - self.requested_at > UNKNOWN_AFTER_SECONDS
        done = []
        for watcher in list(self.watchers):
            if seen is None or not watcher.may_see(seen):
                if late:
                    watcher.send({"topic": "call", "id": str(call_id), "error": "unknown"})
                    done.append(watcher)
            elif seen.outcome != outcomes.RUNNING:
                watcher.send(build_message("call", seen, watcher))
                done.append(watcher)
            elif watcher in self.fresh:
                self.fresh.discard(watcher)
                watcher.send(build_message("call", seen, watcher))
        return done


def build_message(topic: str, seen: CallState, watcher: Watcher | None = None) -> dict[str, Any]:
    """Build the message about the current state of a call; `outcome` is null while it runs."""
    outcome = None if seen.outcome == outcomes.RUNNING else seen.outcome
    if outcome == outcomes.REFUSED and (watcher is None or watcher.user_id == seen.user_id):
        outcome = outcomes.UNKNOWN_TOOL  # its owner must not learn that an ungranted tool exists
    return {"topic": topic, "id": str(seen.id), "outcome": outcome, "progress": None, "url": f"/calls/{seen.id}/"}


PROGRESS = "call.progress"
MAX_MESSAGE_CHARACTERS = 300
"""Maximum characters of a message that a page shows."""


log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
UNAVAILABLE_ERRORS = (DatabaseError, InterfaceError, Busy, OSError)


def _query(
    users: dict[int, tuple[datetime | None, list[UUID]]], calls: list[UUID], now: datetime, *, everything: bool
) -> tuple[dict[int, list[CallState]], dict[UUID, CallState], dict[int, int] | None]:
    """Query the audit log, in a thread."""
    mine = {}
    for user_id, (polled_at, known) in users.items():
        found = live_calls.list_since(user_id, (polled_at or now) - MAX_ROW_DELAY, known)
        mine[user_id] = found if polled_at is not None else [*live_calls.list_running(user_id), *found]
    position = live_calls.read_position() if everything else None
    return mine, {seen.id: seen for seen in live_calls.list_by_ids(calls)}, position


class CallWindows:
    """The open windows of this process that watch calls."""

    def __init__(self, bus: Bus, pages: PageSubscriptions) -> None:
        self._bus, self._pages = bus, pages
        self._windows: set[Watcher] = set()
        self._users: dict[int, UserWatch] = {}
        self._calls: dict[UUID, CallWatch] = {}
        self._log = LogWatch()
        self._polling: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._warning = ThrottledWarning(log)
        bus.on(PROGRESS, self._on_progress)

    def start(self) -> None:
        """Subscribe to the progress of running calls."""
        parts.get(ProgressListeners).add(self.on_progress)

    async def stop(self) -> None:
        """Close all windows, because the server stops; they reconnect to the next one."""
        polling, self._polling = self._polling, None
        for watcher in list(self._windows):
            watcher.close()
        for known in (self._windows, self._users, self._calls):
            known.clear()
        self._log = LogWatch()
        if polling is not None:
            polling.cancel()
            await asyncio.wait([polling], timeout=5.0)
        with suppress(ValueError):
            parts.get(ProgressListeners).remove(self.on_progress)

    def watch_mine(self, watcher: Watcher) -> None:
        """Notify this window whenever a call of its person begins or ends.

        The first message asks the window to reload (`id` is null): from then on it misses nothing.
        """
        person = self._users.setdefault(watcher.user_id, UserWatch())
        if watcher not in person.watchers:
            person.watchers.add(watcher)
            self._pages.hold(subscriptions.calls_key(watcher.user_id))
        person.fresh.add(watcher)
        self._start_polling()

    def watch_one(self, watcher: Watcher, call_id: UUID) -> None:
        """Notify this window of the current state of one call, and of each change until its end.

        A missing call and a call that the person may not see get the same answer after a while: `error: "unknown"`.
        """
        call = self._calls.setdefault(call_id, CallWatch())
        if watcher not in call.watchers:
            call.watchers.add(watcher)
            self._pages.hold(subscriptions.call_key(call_id))
        call.fresh.add(watcher)
        call.requested_at = time.monotonic()
        self._start_polling()

    def watch_log(self, watcher: Watcher) -> None:
        """Notify this window of an auditor whenever any call begins or ends, at most once a second.

        It is notified once at the start: from then on it misses nothing. Raises PermissionError for other users.
        """
        if not watcher.everything:
            raise PermissionError("not an auditor")
        if watcher in self._log.watchers:
            return
        if self._log.is_full():
            watcher.interrupt()
            return
        self._log.add(watcher)
        self._start_polling()

    def forget_log(self, watcher: Watcher) -> None:
        """Stop notifying this window about the audit log."""
        self._log.remove(watcher)

    def forget(self, watcher: Watcher, call_id: UUID | None = None) -> None:
        """Remove a window that was closed, or that stopped watching this call."""
        if call_id is None:
            person = self._users.get(watcher.user_id)
            if person is not None and watcher in person.watchers:
                self._pages.release(subscriptions.calls_key(watcher.user_id))
                person.watchers.discard(watcher)
                person.fresh.discard(watcher)
                if not person.watchers:
                    del self._users[watcher.user_id]
        for number in list(self._calls) if call_id is None else [call_id]:
            self._drop(number, watcher)

    def register(self, watcher: Watcher) -> None:
        """Register a window until `unregister`."""
        self._windows.add(watcher)

    def unregister(self, watcher: Watcher) -> None:
        self.forget(watcher)
        self.forget_log(watcher)
        self._windows.discard(watcher)

    def on_progress(self, running: Context, progress: float, total: float | None, message: str | None) -> None:
        if not self._pages.keys:
            return
        number = str(running.call_id)
        if not (
            self._pages.is_subscribed(subscriptions.calls_key(running.user_id))
            or self._pages.is_subscribed(subscriptions.call_key(number))
        ):
            return
        self._bus.publish_soon(
            PROGRESS,
            {
                "id": number,
                "user": running.user_id,
                "progress": progress,
                "total": total,
                "message": None if message is None else message[:MAX_MESSAGE_CHARACTERS],
            },
        )

    def _start_polling(self) -> None:
        if self._polling is None or self._polling.done():
            self._polling = asyncio.get_running_loop().create_task(self._poll_repeatedly(), name="live calls")
        self._wake.set()

    async def _poll_repeatedly(self) -> None:
        """Poll while there are watchers. A slow database is polled less often, never faster than it answers."""
        while self._users or self._calls or self._log.watchers:
            self._wake.clear()
            started = time.monotonic()
            await self._poll()
            took = time.monotonic() - started
            try:
                async with asyncio.timeout(max(POLL_SECONDS, 2 * took)):
                    await self._wake.wait()
            except TimeoutError:
                continue
            # A short delay groups many new windows, and is not noticed by one.
            await asyncio.sleep(0.05)

    async def _poll(self) -> None:
        now = datetime.now(UTC)
        users = {
            user_id: (
                person.polled_at,
                [number for number, outcome in person.sent.items() if outcome == outcomes.RUNNING],
            )
            for user_id, person in self._users.items()
        }
        calls, everything = list(self._calls), bool(self._log.watchers)
        try:
            mine, others, position = await threads.queries().run(
                lambda: _query(users, calls, now, everything=everything), wait=30.0
            )
        except UNAVAILABLE_ERRORS as error:
            self._warning.warn("Open pages cannot be kept up to date: %s", type(error).__name__)
            self._log.on_failed_poll()
            return
        except Exception:
            # A failed poll must not end the polling.
            log.exception("Open pages could not be kept up to date")
            self._log.on_failed_poll()
            return
        self._warning.rearm()
        if position is not None:
            self._log.notify(position)
        for user_id, found in mine.items():
            if (person := self._users.get(user_id)) is not None:
                person.send_changes(found, now)
        for call_id in calls:
            if (call := self._calls.get(call_id)) is not None:
                for watcher in call.send_state(call_id, others.get(call_id)):
                    self._drop(call_id, watcher)

    def _on_progress(self, payload: dict[str, Any]) -> None:
        call_id = UUID(str(payload.get("id")))
        message = {
            "id": str(call_id),
            "outcome": None,
            "progress": {name: payload.get(name) for name in ("progress", "total", "message")},
            "url": f"/calls/{call_id}/",
        }
        person = self._users.get(int(payload.get("user") or 0))
        for watcher in list(person.watchers) if person is not None else ():
            watcher.send({"topic": "calls", **message})
        call = self._calls.get(call_id)
        # Windows without a message from the audit log get no progress: the log decides whether they may see the call.
        for watcher in call.watchers - call.fresh if call is not None else ():
            watcher.send({"topic": "call", **message})

    def _drop(self, call_id: UUID, watcher: Watcher) -> None:
        call = self._calls.get(call_id)
        if call is None or watcher not in call.watchers:
            return
        self._pages.release(subscriptions.call_key(call_id))
        call.watchers.discard(watcher)
        call.fresh.discard(watcher)
        if not call.watchers:
            del self._calls[call_id]
