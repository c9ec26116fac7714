"""The windows that look at a person's calls, or at one call: what they were told, and what they are told next."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from audit import outcomes
from audit.live_calls import Seen
from audit.searches import id_at

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
