"""Running requests: their limits, the cancellation of one, and the end of all when the server stops.

A running call can be ended by its id, on any worker and however it was started.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.conf import settings

from audit.types import Reason
from catalog.calls import call_tool
from catalog.errors import (
    ACCESS_REVOKED,
    CANCELLED_BY_CLIENT,
    SERVER_STOPPING,
    SESSION_ENDED,
    UNKNOWN_CANCELLATION,
    Cancellation,
)
from toolhub.access.bearer import Restriction
from toolhub.server import bus
from toolhub.server.bus import Bus
from toolhub.server.peer import Peer
from toolhub.server.request_rates import TooManyRequests
from toolhub.server.sessions import CLOSED
from toolhub.wire.errors import INTERNAL_ERROR, INVALID_REQUEST, McpError

log = logging.getLogger(__name__)

CANCEL = "request.cancel"
CANCEL_CALL = "call.cancel"
BUSY = INTERNAL_ERROR


class Entry:
    """One running request, task, or subscription."""

    __slots__ = (
        *("counted", "credential_id", "ended", "key", "listens", "reason", "scope", "started", "task", "toolset_ids"),
        "user_id",
    )

    def __init__(self, peer: Peer, task: asyncio.Task[Any], key: tuple[str, str | int] | None, counted: bool) -> None:
        self.task = task
        self.key = key
        self.scope = peer.scope
        self.counted = counted
        credential = peer.caller.credential
        self.user_id = credential.user_id
        self.credential_id = credential.id
        self.toolset_ids = credential.toolset_ids
        self.started = time.monotonic()
        self.reason: Cancellation | None = None
        self.ended = False
        """Whether the work has ended, so that a cancellation comes too late."""
        self.listens = False
        """Whether this is a subscription, which ends in order when its listener is closed."""

    def cancel(self, reason: Cancellation) -> None:
        if self.reason is None and not self.ended:
            self.reason = reason
            reason.cancel(self.task)


class RequestsInFlight:
    """The running requests of this process."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._running: set[Entry] = set()
        self._by_key: dict[tuple[str, str | int], Entry] = {}
        self._scopes: dict[str, int] = {}
        self._users: dict[int, int] = {}
        self._accepting = True
        self._emptied: asyncio.Event | None = None
        bus.on(CANCEL, self._on_cancel)
        bus.on(CLOSED, self._on_session_closed)
        bus.on(CANCEL_CALL, self._on_cancel_call)

    def enter(self, peer: Peer, request_id: str | int, counted: bool) -> Entry:
        """Register the current task as working on this request. Raises McpError when too many requests are running."""
        if not self._accepting:
            raise McpError(BUSY, "The server is stopping")
        scope = peer.scope
        key: tuple[str, str | int] | None = None
        if scope:
            in_scope = self._scopes.get(scope, 0)
            most = settings.MAX_REQUESTS_PER_SESSION
            if in_scope >= most:
                sentence = f"Busy: {most} requests of this session are in progress, the maximum"
                why = Reason("busy.session", {"most": most, "attempts": 1})
                raise TooManyRequests("in_progress", sentence, reason=why)
            key = (scope, request_id)
            if key in self._by_key and peer.connection:
                raise McpError(INVALID_REQUEST, "Invalid request: this id belongs to a request that is in flight")
        if counted:
            self._count(peer.caller.credential.user_id)
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine that runs is in a task
        entry = Entry(peer, task, key, counted)
        if key is not None:
            self._scopes[scope] = in_scope + 1
            self._by_key[key] = entry
        self._running.add(entry)
        return entry

    def leave(self, entry: Entry) -> None:
        if entry not in self._running:
            return
        self._running.discard(entry)
        key = entry.key
        if key is not None:
            if self._by_key.get(key) is entry:
                del self._by_key[key]
            remaining = self._scopes[entry.scope] - 1
            if remaining:
                self._scopes[entry.scope] = remaining
            else:
                del self._scopes[entry.scope]
        if entry.counted:
            remaining = self._users[entry.user_id] - 1
            if remaining:
                self._users[entry.user_id] = remaining
            else:
                del self._users[entry.user_id]
        if self._emptied is not None and not self._running:
            self._emptied.set()

    def adopt(self, peer: Peer, task: asyncio.Task[Any]) -> Entry:
        """Register a task that outlives its request and its connection; `leave` it when it ends.

        Raises McpError as `enter`.
        """
        if not self._accepting:
            raise McpError(BUSY, "The server is stopping")
        entry = Entry(peer, task, None, counted=True)
        entry.scope = ""
        self._count(entry.user_id)
        self._running.add(entry)
        return entry

    def _count(self, user_id: int) -> None:
        calls = self._users.get(user_id, 0)
        most = settings.MAX_CALLS_PER_USER
        if calls >= most:
            sentence = f"Busy: {most} of your calls are running, the maximum"
            raise TooManyRequests("calls", sentence, reason=Reason("busy.calls", {"most": most, "attempts": 1}))
        self._users[user_id] = calls + 1

    async def cancel(self, peer: Peer, request_id: str | int, reason: Cancellation = CANCELLED_BY_CLIENT) -> None:
        """Cancel a request of this session or connection, on whichever worker it runs."""
        if not peer.scope or self._cancel_here(peer.scope, request_id, reason) or peer.connection:
            return
        # As text: an id may be a number larger than a bus message can carry.
        kind = "number" if isinstance(request_id, int) else "text"
        message = {"scope": peer.scope, "id": str(request_id), "kind": kind, "reason": reason.reason.encode()}
        await self._bus.publish(CANCEL, message)

    def cancel_scope(self, scope: str, reason: Cancellation) -> None:
        """Cancel all requests of an ended session or connection that run here."""
        for entry in [entry for entry in self._running if entry.scope == scope and scope]:
            entry.cancel(reason)

    def cancel_task(self, task: asyncio.Task[Any], reason: Cancellation) -> bool:
        """Cancel the request that this task works on; return whether there is one."""
        for entry in self._running:
            if entry.task is task and not entry.listens:
                entry.cancel(reason)
                return True
        return False

    def cancel_credentials(self, ids: set[str], reason: Cancellation = ACCESS_REVOKED) -> None:
        for entry in [entry for entry in self._running if entry.credential_id in ids and not entry.listens]:
            entry.cancel(reason)

    def cancel_restrictions(self, outdated: Iterable[Restriction], reason: Cancellation = ACCESS_REVOKED) -> None:
        """Cancel what runs for a token that saw more toolsets when it started."""
        wanted = frozenset(outdated)
        for entry in list(self._running):
            if not entry.listens and (entry.credential_id, entry.toolset_ids) in wanted:
                entry.cancel(reason)

    def restrictions(self, older_than: float = 1.0) -> set[Restriction]:
        """Return the restrictions to toolsets of what runs here for more than `older_than` seconds."""
        started_before = time.monotonic() - older_than
        return {
            (entry.credential_id, entry.toolset_ids)
            for entry in self._running
            if not entry.listens and entry.started <= started_before
        }

    def credentials(self, older_than: float = 1.0) -> dict[str, int]:
        """Return {credential id: user id} of the requests that run here for more than `older_than` seconds."""
        started_before = time.monotonic() - older_than
        return {entry.credential_id: entry.user_id for entry in self._running if entry.started <= started_before}

    def count_running(self) -> int:
        return len(self._running)

    def stop_accepting(self) -> None:
        """Accept no new requests from now on."""
        self._accepting = False

    def accept(self) -> None:
        self._accepting = True

    async def drain(self, seconds: float, grace: float = 5.0) -> int:
        """Wait until everything has ended, for at most `seconds`; cancel the others.

        Returns the number of cancelled requests.
        """
        if await self._wait_until_empty(seconds):
            return 0
        rest = list(self._running)
        for entry in rest:
            entry.cancel(SERVER_STOPPING)
        if not await self._wait_until_empty(grace):
            log.warning("%d requests did not end when they were cancelled", len(self._running))
        return len(rest)

    def cancel_here(self, call_id: UUID, reason: Cancellation) -> bool:
        """Cancel a call of this worker, on its event loop; return whether it was running here."""
        task = call_tool.find_task(call_id)
        if task is None:
            return False
        # Cancelled through its request, if there is one: the client then gets an answer with the reason.
        if not self.cancel_task(task, reason):
            reason.cancel(task)
        return True

    async def _wait_until_empty(self, seconds: float) -> bool:
        if not self._running:
            return True
        self._emptied = asyncio.Event()
        try:
            async with asyncio.timeout(seconds):
                await self._emptied.wait()
        except TimeoutError:
            return False
        finally:
            self._emptied = None
        return True

    def _cancel_here(self, scope: str, request_id: str | int, reason: Cancellation) -> bool:
        entry = self._by_key.get((scope, request_id))
        if entry is None:
            return False
        entry.cancel(reason)
        return True

    def _on_cancel(self, payload: dict[str, Any]) -> None:
        request_id: str | int = str(payload["id"])
        if payload.get("kind") == "number":
            request_id = int(request_id)
        self._cancel_here(str(payload.get("scope")), request_id, _read(payload))

    def _on_session_closed(self, payload: dict[str, Any]) -> None:
        self.cancel_scope(str(payload.get("key")), Cancellation.read(str(payload.get("reason"))) or SESSION_ENDED)

    def _on_cancel_call(self, payload: dict[str, Any]) -> None:
        self.cancel_here(UUID(str(payload.get("id"))), _read(payload))


def cancel_from_thread(call_id: UUID, reason: Cancellation) -> None:
    """Request the cancellation of the call, logged with `reason`; nothing happens when it is not running.

    Callable from any thread. The cancellation is not guaranteed: the audit log shows how the call ended.
    """
    bus.publish_from_thread(CANCEL_CALL, {"id": str(call_id), "reason": reason.reason.encode()})


def _read(payload: dict[str, Any]) -> Cancellation:
    return Cancellation.read(str(payload.get("reason"))) or UNKNOWN_CANCELLATION
