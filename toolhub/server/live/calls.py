"""Pages that show calls as they happen: who looks at what, and what is told to them.

The record is the truth, so it is what is asked: once a second, one short query for each person who looks, however many
windows they have open, and none while nobody looks. That works on every worker and without Redis; only progress, which
is on no record, comes as news. What a page is told is a hint that something changed, and enough to show it.

The windows that look at a person's calls, or at one call: what they were told, and what they are told next.

Progress of a running call for whoever looks at it in a browser, on whichever worker; nothing while nobody does.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import DatabaseError, InterfaceError

from audit import outcomes
from audit.queries import live_calls
from audit.queries.live_calls import Seen
from audit.queries.search import id_at
from catalog import threads
from catalog.functions import context
from catalog.functions.context import Context
from catalog.threads import Busy
from toolhub.server import bus
from toolhub.server.live import subscriptions

BEHIND = timedelta(seconds=10)
"""How late a row may become visible: clocks of workers differ, and a row's time is older than its commit."""
ABSENT_SECONDS = 10.0
"""A call that is not there after so long is not coming: pages may be told the id before the call has begun."""


class Watcher:
    """One window. `send` gets each message and must not wait."""

    __slots__ = ("close", "everything", "send", "user_id")

    def __init__(
        self, user_id: int, send: Callable[[dict[str, Any]], None], close: Callable[[], None], *, everything: bool
    ) -> None:
        """`everything`: an auditor, who may look at the calls of others one by one. `close` when the server stops."""
        self.user_id, self.send, self.close, self.everything = user_id, send, close, everything

    def may_see(self, seen: Seen) -> bool:
        return self.everything or seen.user_id == self.user_id


class Person:
    """What the windows of one person were told about their calls."""

    def __init__(self) -> None:
        self.watchers: set[Watcher] = set()
        self.fresh: set[Watcher] = set()
        """Not told anything yet."""
        self.told: dict[UUID, str] = {}
        self.looked: datetime | None = None

    def tell(self, found: list[Seen], now: datetime) -> None:
        for seen in found:
            if self.told.get(seen.id) == seen.outcome:
                continue
            self.told[seen.id] = seen.outcome
            if self.looked is None:
                continue  # what the page already shows
            message = {**news("calls", seen), "name": seen.name}
            for watcher in self.watchers - self.fresh:
                watcher.send(message)
        for watcher in list(self.fresh):  # one that is full closes, and is forgotten
            watcher.send({"topic": "calls", "id": None, "outcome": None, "progress": None, "url": None})
        self.fresh.clear()
        self.looked = now
        # What ended before the time that is looked at again cannot come up a second time.
        floor = id_at(now - 3 * BEHIND)
        self.told = {
            number: outcome for number, outcome in self.told.items() if outcome == outcomes.RUNNING or number > floor
        }


class Call:
    """A call that windows look at by its id."""

    def __init__(self) -> None:
        self.watchers: set[Watcher] = set()
        self.fresh: set[Watcher] = set()
        """Not told anything yet."""
        self.asked = time.monotonic()

    def tell(self, call_id: UUID, seen: Seen | None) -> list[Watcher]:
        """Those that were told the last that there is to say."""
        late = time.monotonic() - self.asked > ABSENT_SECONDS
        done = []
        for watcher in list(self.watchers):
            if seen is None or not watcher.may_see(seen):
                if late:
                    watcher.send({"topic": "call", "id": str(call_id), "error": "unknown"})
                    done.append(watcher)
            elif seen.outcome != outcomes.RUNNING:
                watcher.send(news("call", seen, watcher))
                done.append(watcher)
            elif watcher in self.fresh:
                self.fresh.discard(watcher)
                watcher.send(news("call", seen, watcher))
        return done


def news(topic: str, seen: Seen, watcher: Watcher | None = None) -> dict[str, Any]:
    """The message about a call as it stands; `outcome` is null while it runs."""
    outcome = None if seen.outcome == outcomes.RUNNING else seen.outcome
    if outcome == outcomes.REFUSED and (watcher is None or watcher.user_id == seen.user_id):
        outcome = outcomes.UNKNOWN_TOOL  # to its owner, "not granted" reads as "no such tool"
    return {"topic": topic, "id": str(seen.id), "outcome": outcome, "progress": None, "url": f"/calls/{seen.id}/"}


PROGRESS = "call.progress"
LONGEST = 300
"""Characters of a message that a page shows."""


def reported(running: Context, progress: float, total: float | None, message: str | None) -> None:
    if not subscriptions.keys:
        return
    number = str(running.call_id)
    if not (
        subscriptions.wanted(subscriptions.calls_of(running.user_id))
        or subscriptions.wanted(subscriptions.call(number))
    ):
        return
    bus.tell(
        PROGRESS,
        {
            "id": number,
            "user": running.user_id,
            "progress": progress,
            "total": total,
            "message": None if message is None else message[:LONGEST],
        },
    )


def connect() -> None:
    if reported not in context.onlookers:
        context.onlookers.append(reported)


log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
AWAY = (DatabaseError, InterfaceError, Busy, OSError)


_windows: set[Watcher] = set()
_people: dict[int, Person] = {}
_calls: dict[UUID, Call] = {}
_looking: asyncio.Task[None] | None = None
_wake: asyncio.Event | None = None
_complained = False


def watch_mine(watcher: Watcher) -> None:
    """Tell this window whenever a call of its person begins or ends.

    It is first told to look for itself (`id` is null): from then on nothing is missed.
    """
    person = _people.setdefault(watcher.user_id, Person())
    if watcher not in person.watchers:
        person.watchers.add(watcher)
        subscriptions.hold(subscriptions.calls_of(watcher.user_id))
    person.fresh.add(watcher)
    _begin()


def watch_one(watcher: Watcher, call_id: UUID) -> None:
    """Tell this window how one call is now, and at each change until it has ended.

    A call that is not there and one that the person may not see are answered alike, `error: "unknown"`, after a while.
    """
    call = _calls.setdefault(call_id, Call())
    if watcher not in call.watchers:
        call.watchers.add(watcher)
        subscriptions.hold(subscriptions.call(call_id))
    call.fresh.add(watcher)
    call.asked = time.monotonic()
    _begin()


def forget(watcher: Watcher, call_id: UUID | None = None) -> None:
    """The window is closed, or looks at this call no more."""
    if call_id is None:
        person = _people.get(watcher.user_id)
        if person is not None and watcher in person.watchers:
            subscriptions.release(subscriptions.calls_of(watcher.user_id))
            person.watchers.discard(watcher)
            person.fresh.discard(watcher)
            if not person.watchers:
                del _people[watcher.user_id]
    for number in list(_calls) if call_id is None else [call_id]:
        _drop(number, watcher)


def opened(watcher: Watcher) -> None:
    """There is such a window, until `closed`."""
    _windows.add(watcher)


def closed(watcher: Watcher) -> None:
    forget(watcher)
    _windows.discard(watcher)


async def stop() -> None:
    """The server stops: windows come back to the next one."""
    global _looking
    looking, _looking = _looking, None
    for watcher in list(_windows):
        watcher.close()
    for known in (_windows, _people, _calls):
        known.clear()
    if looking is not None and looking.get_loop() is asyncio.get_running_loop():
        looking.cancel()
        await asyncio.wait([looking], timeout=5.0)


# --- looking ---------------------------------------------------------------------------------------------------------


def _begin() -> None:
    global _looking, _wake
    loop = asyncio.get_running_loop()
    if _looking is None or _looking.done() or _looking.get_loop() is not loop:
        _wake = asyncio.Event()
        _looking = loop.create_task(_look_on(_wake), name="live calls")
    if _wake is not None:
        _wake.set()


async def _look_on(wake: asyncio.Event) -> None:
    """Look for as long as somebody does. A slow database is asked less often, never faster than it answers."""
    while _people or _calls:
        wake.clear()
        started = time.monotonic()
        await _look()
        took = time.monotonic() - started
        try:
            async with asyncio.timeout(max(LOOK_SECONDS, 2 * took)):
                await wake.wait()
        except TimeoutError:
            continue
        # Somebody new: not at once for each of many, and soon enough for one.
        await asyncio.sleep(0.05)


async def _look() -> None:
    global _complained
    now = datetime.now(UTC)
    people = {
        user_id: (person.looked, [number for number, outcome in person.told.items() if outcome == outcomes.RUNNING])
        for user_id, person in _people.items()
    }
    calls = list(_calls)
    try:
        mine, others = await threads.looking().run(lambda: _ask(people, calls, now), wait=30.0)
    except AWAY as error:
        if not _complained:
            log.warning("Open pages cannot be kept up to date: %s", type(error).__name__)
        _complained = True
        return
    except Exception:
        # A look that fails must not end all that follow.
        log.exception("Open pages could not be kept up to date")
        return
    _complained = False
    for user_id, found in mine.items():
        if (person := _people.get(user_id)) is not None:
            person.tell(found, now)
    for call_id in calls:
        if (call := _calls.get(call_id)) is not None:
            for watcher in call.tell(call_id, others.get(call_id)):
                _drop(call_id, watcher)


def _ask(
    people: dict[int, tuple[datetime | None, list[UUID]]], calls: list[UUID], now: datetime
) -> tuple[dict[int, list[Seen]], dict[UUID, Seen]]:
    """In a thread: what the record says."""
    mine = {}
    for user_id, (looked, known) in people.items():
        found = live_calls.since(user_id, (looked or now) - BEHIND, known)
        mine[user_id] = found if looked is not None else [*live_calls.running(user_id), *found]
    return mine, {seen.id: seen for seen in live_calls.these(calls)}


def _progressed(payload: dict[str, Any]) -> None:
    call_id = UUID(str(payload.get("id")))
    message = {
        "id": str(call_id),
        "outcome": None,
        "progress": {name: payload.get(name) for name in ("progress", "total", "message")},
        "url": f"/calls/{call_id}/",
    }
    person = _people.get(int(payload.get("user") or 0))
    for watcher in list(person.watchers) if person is not None else ():
        watcher.send({"topic": "calls", **message})
    call = _calls.get(call_id)
    # Whether they may see it, the record has said: nobody is told progress before that.
    for watcher in call.watchers - call.fresh if call is not None else ():
        watcher.send({"topic": "call", **message})


def _drop(call_id: UUID, watcher: Watcher) -> None:
    call = _calls.get(call_id)
    if call is None or watcher not in call.watchers:
        return
    subscriptions.release(subscriptions.call(call_id))
    call.watchers.discard(watcher)
    call.fresh.discard(watcher)
    if not call.watchers:
        del _calls[call_id]


bus.on(PROGRESS, _progressed)
