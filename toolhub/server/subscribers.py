"""Listeners: open streams and sockets, their subscriptions, and the reasons to close them.

Listeners who see the same catalogue are one audience, evaluated once for each change.

On a new catalogue revision, and at the times when a decision changes by itself (a time window opens or closes), every
audience is evaluated again; only those whose list really changed are notified.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from audit.types import Credential
from catalog.errors import SERVER_STOPPING, SESSION_ENDED, Cancellation
from catalog.policy import snapshot, visibility
from catalog.policy.rules import Visible
from toolhub.access.bearer import Restriction
from toolhub.server.bus import Bus
from toolhub.server.peer import Peer
from toolhub.server.sessions import CLOSED, Sessions
from toolhub.wire import jsonrpc, uritemplate

log = logging.getLogger(__name__)

KINDS = frozenset({"tools", "resources", "prompts"})
MAX_LISTENERS_PER_USER = 100
MAX_LISTENERS = 10_000
SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"


class TooManyListeners(Exception):
    """The user or the process has the maximum number of open streams; HTTP 503 or WebSocket 1013."""


class Listener:
    """One open stream or socket, or one subscription on it."""

    __slots__ = (
        "_close",
        "_owner",
        "_send",
        "audience",
        "credential_id",
        "kinds",
        "number",
        "open",
        "peer",
        "since",
        "tag",
        "task_ids",
        "uris",
        "user_id",
    )

    def __init__(
        self,
        owner: Subscribers,
        number: int,
        peer: Peer,
        send: Callable[[dict[str, Any]], None],
        close: Callable[[Cancellation], None],
        kinds: frozenset[str],
        uris: frozenset[str],
        task_ids: frozenset[str],
        tag: str | int | None,
    ) -> None:
        self.peer = peer
        self._owner = owner
        self._send, self._close = send, close
        self.kinds, self.uris, self.task_ids, self.tag = kinds, uris, task_ids, tag
        credential = peer.caller.credential
        self.user_id, self.credential_id = credential.user_id, credential.id
        self.audience: Audience | None = None
        self.open = True
        self.number, self.since = number, time.time()

    @property
    def session_key(self) -> str:
        return self.peer.session.key if self.peer.session is not None else ""

    @property
    def restriction(self) -> Restriction:
        return self.credential_id, self.peer.caller.credential.toolset_ids

    def send(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification, marked with its subscription where there is one."""
        if not self.open:
            return
        if self.tag is not None:
            params = {**(params or {}), "_meta": {SUBSCRIPTION_ID: self.tag}}
        self._send(jsonrpc.notification(method, params))

    def detach(self) -> None:
        """Stop listening; may be called twice."""
        if self.open:
            self.open = False
            self._owner.forget(self)

    def close(self, reason: Cancellation) -> None:
        """Detach, and have the transport close the stream or socket."""
        if self.open:
            self.detach()
            self._close(reason)


def close_quietly(listener: Listener, reason: Cancellation) -> None:
    """Close the listener; never raises."""
    try:
        listener.close(reason)
    except Exception:
        # One stream that cannot be closed must not keep the others open.
        log.exception("A stream could not be closed")


UPDATED = "resource.updated"
SLICE_SECONDS = 0.01
MAX_TIMER_SECONDS = 3600.0
_METHODS = {
    "tools": "notifications/tools/list_changed",
    "resources": "notifications/resources/list_changed",
    "prompts": "notifications/prompts/list_changed",
}

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
                for listener in self._listeners_for(kind):
                    listener.send(method)
        for uri in _changed_resources(before, seen):
            self._owner.announce(self, uri)

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
        try:
            self.decide()
        except Exception:
            log.exception("Could not decide what a subscriber sees now")


def is_readable(seen: Visible, uri: str) -> bool:
    """Return whether the URI is a resource, or matches a template, among the visible ones."""
    return uri in seen.resources or any(_template(text).match(uri) is not None for text in seen.templates)


@lru_cache(maxsize=10_000)
def _template(text: str) -> uritemplate.Template:
    return uritemplate.parse(text)


def _changed_resources(before: Visible, seen: Visible) -> Iterable[str]:
    if before.fingerprints["resources"] == seen.fingerprints["resources"]:
        return ()
    return [
        uri
        for uri, (definition, _) in seen.resources.items()
        if (old := before.resources.get(uri)) is not None and old[0].hash != definition.hash
    ]


class Subscribers:
    """All listeners of this process, and the last list of each audience."""

    def __init__(self, bus: Bus, sessions: Sessions) -> None:
        self._bus, self._sessions = bus, sessions
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
        TooManyListeners.
        """
        user_id = peer.caller.credential.user_id
        if len(self._all) >= MAX_LISTENERS or self._by_user.get(user_id, 0) >= MAX_LISTENERS_PER_USER:
            raise TooManyListeners
        listener = Listener(self, next(self._numbers), peer, send, close, kinds, uris, task_ids, tag)
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
        self._bus.publish_soon(UPDATED, {"uri": uri})

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
        audience = listener.audience
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
                    try:
                        audience.decide()
                    except Exception:
                        log.exception("Could not decide what a subscriber sees now")
                if time.monotonic() > resume:
                    await asyncio.sleep(0)
                    resume = time.monotonic() + SLICE_SECONDS

    def announce(self, audience: Audience, uri: str) -> None:
        """Notify the listeners of one audience that a resource they subscribed to has changed."""
        params = {"uri": uri}
        handshake: dict[str, Listener] = {}
        for listener in audience.listeners:
            if uri in listener.uris:
                listener.send("notifications/resources/updated", params)
            elif listener.kinds and (key := listener.session_key):
                handshake[key] = listener
        if handshake:
            task = asyncio.get_running_loop().create_task(self._announce_to_sessions(list(handshake.values()), uri))
            self._background.add(task)
            task.add_done_callback(self._background.discard)

    async def _announce_to_sessions(self, found: list[Listener], uri: str) -> None:
        for listener in found:
            session = listener.peer.session
            if session is not None and uri in await self._sessions.subscriptions(session):
                listener.send("notifications/resources/updated", {"uri": uri})

    def _on_updated(self, payload: dict[str, Any]) -> None:
        uri = str(payload.get("uri"))
        for audience in list(self._audiences.values()):
            if audience.may_read(uri):
                self.announce(audience, uri)
