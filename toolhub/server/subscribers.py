"""Listeners: open streams and sockets, their subscriptions, and the reasons to close them.

Listeners who see the same catalogue are one audience, evaluated once for each change.

On a new catalogue revision, and at the times when a decision changes by itself (a time window opens or closes), every
audience is evaluated again; only those whose list really changed are notified.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from django.conf import settings

from audit.types import Credential
from catalog.calls.resources import is_readable
from catalog.errors import SERVER_STOPPING, SESSION_ENDED, Cancellation
from catalog.policy import snapshot, visibility
from catalog.policy.rules import Visible
from toolhub.access.bearer import Restriction
from toolhub.server.bus import Bus
from toolhub.server.listeners import Listener, close_quietly
from toolhub.server.peer import Peer
from toolhub.server.request_rates import TooManyRequests
from toolhub.server.sessions import CLOSED, Sessions
from toolhub.server.state import SharedState

log = logging.getLogger(__name__)

KINDS = frozenset({"tools", "resources", "prompts"})
MAX_LISTENERS = 10_000
"""Of all users in this process; `toolhub.refusals` and the README name this number."""
RETRY_SECONDS = 30.0
"""When a client may try again to open a stream."""
UPDATED = "resource.updated"
SLICE_SECONDS = 0.01
MAX_TIMER_SECONDS = 3600.0
_METHODS = {
    "tools": "notifications/tools/list_changed",
    "resources": "notifications/resources/list_changed",
    "prompts": "notifications/prompts/list_changed",
}

_UPDATED_METHOD = "notifications/resources/updated"

Key = tuple[int, frozenset[int] | None]


class Audience:
    """Listeners of one user with one restriction to toolsets."""

    __slots__ = ("_owner", "credential", "key", "listeners", "seen", "timer")

    def __init__(self, owner: Subscribers, key: Key, credential: Credential) -> None:
        self._owner = owner
        self.key = key
        self.credential = credential
        self.listeners: list[Listener] = []
        self.seen: Visible | None = None
        self.timer: asyncio.TimerHandle | None = None

    def decide(self) -> None:
        """Evaluate the policy; notify the listeners of changes since the last evaluation."""
        try:
            seen = visibility.for_credential(self.credential)
        except snapshot.NotLoaded:
            return
        before, self.seen = self.seen, seen
        self._arm(seen.changes_at)
        if before is None or before is seen:
            return
        for kind, method in _METHODS.items():
            if before.fingerprints[kind] != seen.fingerprints[kind]:
                sessions = []
                for listener in self._listeners_for(kind):
                    if listener.session_key:
                        sessions.append(listener)
                    else:
                        listener.send(method)
                self._owner.announce_to_sessions(sessions, method, None, kind, seen.fingerprints[kind])
        for uri, version in _changed_resources(before, seen):
            self._owner.announce(self, uri, version)

    def may_read(self, uri: str) -> bool:
        return self.seen is not None and is_readable(self.seen, uri)

    def stop(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _listeners_for(self, kind: str) -> list[Listener]:
        """Return the listeners subscribed to this kind; of the streams of one session only the newest."""
        sessions_newest: dict[str, Listener] = {}
        found = []
        for listener in self.listeners:
            if kind in listener.kinds:
                if key := listener.session_key:
                    sessions_newest[key] = listener
                else:
                    found.append(listener)
        return [*found, *sessions_newest.values()]

    def _arm(self, changes_at: float | None) -> None:
        self.stop()
        if changes_at is not None:
            wait = min(max(changes_at - time.time(), 0.0) + 0.005, MAX_TIMER_SECONDS)
            self.timer = asyncio.get_running_loop().call_later(wait, self._on_timer)

    def _on_timer(self) -> None:
        self.timer = None
        self._owner.run_in_background(self.prepare_and_decide())

    async def prepare_and_decide(self) -> None:
        """Evaluate the policy without blocking the loop; a failure is logged."""
        try:
            await visibility.prepare(self.credential)
            if self.listeners:
                self.decide()
        except Exception:
            log.exception("Could not decide what a subscriber sees now")


def _changed_resources(before: Visible, seen: Visible) -> Iterable[tuple[str, str]]:
    """Return (URI, hash of the definition) of each resource that was visible before, with another definition."""
    if before.fingerprints["resources"] == seen.fingerprints["resources"]:
        return ()
    return [
        (uri, definition.hash)
        for uri, (definition, _) in seen.resources.items()
        if (old := before.resources.get(uri)) is not None and old[0].hash != definition.hash
    ]


class Subscribers:
    """All listeners of this process, and the last list of each audience."""

    def __init__(self, bus: Bus, sessions: Sessions, state: SharedState) -> None:
        self._bus, self._sessions, self._state = bus, sessions, state
        self._all: set[Listener] = set()
        self._by_user: dict[int, int] = {}
        self._by_session: dict[str, list[Listener]] = {}
        self._by_task: dict[str, set[Listener]] = {}
        self._numbers = itertools.count(1)
        self._audiences: dict[Key, Audience] = {}
        self._again = False
        self._deciding: asyncio.Task[None] | None = None
        self._background: set[asyncio.Task[None]] = set()
        bus.on(CLOSED, self._on_session_closed)
        bus.on(UPDATED, self._on_updated)

    def attach(
        self,
        peer: Peer,
        send: Callable[[dict[str, Any]], None],
        close: Callable[[Cancellation], None],
        *,
        kinds: frozenset[str] = KINDS,
        uris: frozenset[str] = frozenset(),
        task_ids: frozenset[str] = frozenset(),
        tag: str | int | None = None,
    ) -> Listener:
        """Listen for this peer until `detach`: GET streams (stateful), WebSocket and stdio connections of all versions.

        `send` gets JSON-RPC notifications and must not block; `close(reason)` is called once when access is revoked,
        the session ends elsewhere, or the server stops: the transport then closes the stream or socket. For the
        connections of stateless clients pass `kinds=frozenset()`: they are watched for revocation only
        (`subscriptions/listen` is a request like any other and goes through `dispatch.answer`). Raises
        TooManyRequests when the user or the process has the maximum of them.
        """
        user_id = peer.caller.credential.user_id
        most = settings.MAX_STREAMS_PER_USER
        if self._by_user.get(user_id, 0) >= most:
            sentence = f"You have {most} open streams and WebSockets, the maximum. Close one"
            raise TooManyRequests("streams", sentence, RETRY_SECONDS)
        if len(self._all) >= MAX_LISTENERS:
            raise TooManyRequests("all_streams", "This server has too many open streams and WebSockets", RETRY_SECONDS)
        listener = Listener(self.forget, next(self._numbers), peer, send, close, kinds, uris, task_ids, tag)
        self._all.add(listener)
        self._by_user[user_id] = self._by_user.get(user_id, 0) + 1
        if kinds and peer.session is not None:
            self._by_session.setdefault(peer.session.key, []).append(listener)
        for task_id in task_ids:
            self._by_task.setdefault(task_id, set()).add(listener)
        if kinds or uris:
            self._join(listener)
        return listener

    def credentials(self) -> dict[str, int]:
        """Return {credential id: user id} of all listeners."""
        return {listener.credential_id: listener.user_id for listener in self._all}

    def close_credentials(self, ids: Iterable[str], reason: Cancellation) -> None:
        wanted = frozenset(ids)
        for listener in [listener for listener in self._all if listener.credential_id in wanted]:
            close_quietly(listener, reason)

    def close_expired(self, now: float, reason: Cancellation) -> None:
        """Close the listeners whose token has expired; `now` in Unix seconds."""
        for listener in list(self._all):
            expires_at = listener.peer.caller.credential.expires_at
            if expires_at is not None and expires_at <= now:
                close_quietly(listener, reason)

    def restrictions(self) -> set[Restriction]:
        """Return the restrictions to toolsets with which listeners were attached."""
        return {listener.restriction for listener in self._all}

    def close_restrictions(self, outdated: Iterable[Restriction], reason: Cancellation) -> None:
        wanted = frozenset(outdated)
        for listener in [listener for listener in self._all if listener.restriction in wanted]:
            close_quietly(listener, reason)

    def close_all(self, reason: Cancellation = SERVER_STOPPING) -> None:
        for listener in list(self._all):
            close_quietly(listener, reason)

    def task_listeners(self, task_id: str) -> list[Listener]:
        return list(self._by_task.get(task_id, ()))

    def count(self) -> int:
        return len(self._all)

    def all_listeners(self) -> list[Listener]:
        return list(self._all)

    def decide_all(self) -> None:
        """Evaluate all audiences after a new catalogue was loaded, without blocking the loop."""
        self._again = True
        if self._deciding is None or self._deciding.done():
            self._deciding = asyncio.get_running_loop().create_task(self._decide_all(), name="audiences")

    def publish_update(self, uri: str) -> None:
        """Notify the subscribers of a changed resource, on every worker. On the loop's thread."""
        self._bus.publish_soon(UPDATED, {"uri": uri, "id": secrets.token_hex(8)})

    def forget(self, listener: Listener) -> None:
        """Drop a listener that was detached."""
        if listener not in self._all:
            return
        self._all.discard(listener)
        remaining = self._by_user[listener.user_id] - 1
        if remaining:
            self._by_user[listener.user_id] = remaining
        else:
            del self._by_user[listener.user_id]
        key = listener.session_key
        if key and listener in (found := self._by_session.get(key, [])):
            found.remove(listener)
            if not found:
                del self._by_session[key]
        for task_id in listener.task_ids:
            if (watching := self._by_task.get(task_id)) is not None:
                watching.discard(listener)
                if not watching:
                    del self._by_task[task_id]
        if listener.audience is not None:
            self._leave(listener)

    def _join(self, listener: Listener) -> None:
        credential = listener.peer.caller.credential
        key = (credential.user_id, credential.toolset_ids)
        audience = self._audiences.get(key)
        if audience is None:
            audience = self._audiences[key] = Audience(self, key, credential)
        audience.listeners.append(listener)
        listener.audience = audience
        if audience.seen is None:
            audience.decide()

    def _leave(self, listener: Listener) -> None:
        audience: Audience | None = listener.audience
        listener.audience = None
        if audience is None:
            return
        audience.listeners.remove(listener)
        if not audience.listeners:
            audience.stop()
            if self._audiences.get(audience.key) is audience:
                del self._audiences[audience.key]

    def _on_session_closed(self, payload: dict[str, Any]) -> None:
        reason = Cancellation.read(str(payload.get("reason"))) or SESSION_ENDED
        for listener in list(self._by_session.get(str(payload.get("key")), ())):
            close_quietly(listener, reason)

    async def _decide_all(self) -> None:
        while self._again:
            self._again = False
            resume = time.monotonic() + SLICE_SECONDS
            for audience in list(self._audiences.values()):
                if audience.listeners:
                    await audience.prepare_and_decide()
                if time.monotonic() > resume:
                    await asyncio.sleep(0)
                    resume = time.monotonic() + SLICE_SECONDS

    def announce(self, audience: Audience, uri: str, version: str) -> None:
        """Notify the listeners of one audience that a resource they subscribed to has changed.

        `version` names this change on every worker.
        """
        params = {"uri": uri}
        newest: dict[str, Listener] = {}
        for listener in audience.listeners:
            if uri in listener.uris:
                listener.send(_UPDATED_METHOD, params)
            elif listener.kinds and (key := listener.session_key):
                newest[key] = listener
        self.announce_to_sessions(list(newest.values()), _UPDATED_METHOD, params, uri, version)

    def announce_to_sessions(
        self, found: list[Listener], method: str, params: dict[str, Any] | None, subject: str, version: str
    ) -> None:
        """Notify the streams of sessions, each session once although it may have streams on several workers.

        What is said last about a subject, a kind of list or a resource, has its `version`: a worker that finds it said
        stays silent.
        """
        if found:
            self.run_in_background(self._announce_to_sessions(found, method, params, subject, version))

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run this in a task of its own, which is kept until it ends. On the loop's thread."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _announce_to_sessions(
        self, found: list[Listener], method: str, params: dict[str, Any] | None, subject: str, version: str
    ) -> None:
        for listener in found:
            session = listener.peer.session
            if session is None:
                continue
            if method == _UPDATED_METHOD and not await self._sessions.is_subscribed(session, subject):
                continue
            if await self._state.is_first(f"said:{session.key}:{subject}", version):
                listener.send(method, params)

    def _on_updated(self, payload: dict[str, Any]) -> None:
        uri, version = str(payload.get("uri")), str(payload.get("id"))
        for audience in list(self._audiences.values()):
            if audience.may_read(uri):
                self.announce(audience, uri, version)
