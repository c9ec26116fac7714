"""Connected clients: the state that this process keeps of the clients it answers, for one lookup per request.

A client is an open connection (WebSocket, stdio), a session of the stateful transport, a stream of
`subscriptions/listen`, or, where the protocol has none of these, a caller: the same credential, client, revision and
address.
"""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings

from audit.types import Caller
from catalog.errors import Cancellation
from toolhub.server.bus import Bus
from toolhub.server.listeners import Listener, close_quietly
from toolhub.server.peer import Peer
from toolhub.server.sessions import CLOSED
from toolhub.server.subscribers import Subscribers

MAX_CLIENTS = 20_000
MAX_CLIENTS_PER_CREDENTIAL = 1_000
"""Maximum clients of one credential. Above it the first ones of that credential are dropped, and no others: a client
may claim any name.
"""
MAX_NAME_CHARACTERS = 200
"""Maximum stored characters of a client's name, and of its version."""
STATELESS_SECONDS = 300.0
"""Seconds for which a caller without connection and session counts as connected."""

WEBSOCKET, STDIO, SESSION, STREAM, STATELESS = "websocket", "stdio", "session", "stream", "stateless"

Row = dict[str, Any]
"""One client, as JSON: `kind`, `key` (the argument of `presence.disconnect`), `user_id`, `user`, `credential`, `token`,
`client`, `version`, `revision`, `address`, `streams` (open ones), and Unix seconds: `since`, `seen`, `called` (or 0).
"""


@dataclass(slots=True, eq=False)
class Client:
    """The stored data of a client: nothing whose size the client decides."""

    caller: Caller
    kind: str
    issued: float
    """Start of its session, or 0.0."""
    since: float
    seen: float
    called: float = 0.0


def _kind(peer: Peer) -> str:
    if peer.connection:
        return peer.caller.transport
    return SESSION if peer.session is not None else STATELESS


def _row(kind: str, key: str, caller: Caller, since: float) -> Row:
    credential = caller.credential
    return {
        "kind": kind,
        "key": key,
        "user_id": credential.user_id,
        "user": credential.username,
        "credential": credential.id,
        "token": credential.label,
        "client": caller.client_name[:MAX_NAME_CHARACTERS],
        "version": caller.client_version[:MAX_NAME_CHARACTERS],
        "revision": caller.revision,
        "address": caller.address,
        "streams": 0,
        "since": since,
        "seen": since,
        "called": 0.0,
    }


def _merge(row: Row, client: Client) -> None:
    caller = client.caller
    if caller.client_name:
        # A connection identifies itself with its first message.
        row["client"], row["version"], row["revision"] = caller.client_name, caller.client_version, caller.revision
    if row["kind"] != SESSION:
        row["since"] = min(row["since"], client.since)
    row["seen"], row["called"] = max(row["seen"], client.seen), client.called


class Clients:
    """The clients that this process keeps."""

    def __init__(self, bus: Bus, subscribers: Subscribers) -> None:
        self._worker, self._subscribers = bus.worker, subscribers
        self._clients: dict[str, dict[str | tuple[str, ...], Client]] = {}
        """Clients by credential."""
        self._count = 0
        bus.on(CLOSED, self._on_session_closed)

    def register_message(self, peer: Peer, called: bool) -> None:
        """Register a message from this client; `called` when it is a request for work. On the path of every call."""
        caller = peer.caller
        name, version = caller.client_name, caller.client_version
        if len(name) > MAX_NAME_CHARACTERS or len(version) > MAX_NAME_CHARACTERS:
            name, version = name[:MAX_NAME_CHARACTERS], version[:MAX_NAME_CHARACTERS]
            caller = replace(caller, client_name=name, client_version=version)
        key = peer.scope or (caller.credential.id, name, version, caller.address, caller.revision)
        now = time.time()
        known = self._clients.get(caller.credential.id)
        client = known.get(key) if known is not None else None
        if client is None:
            client = self._add(key, peer, caller, now)
        client.caller = caller
        client.seen = now
        if called:
            client.called = now

    def forget(self, key: str) -> None:
        """Remove a session or connection that has ended."""
        for credential in [credential for credential, known in self._clients.items() if key in known]:
            self._drop(credential, key)

    def rows(self, max_rows: int) -> tuple[list[Row], int]:
        """Return the connected clients, the most recently seen first, and the number beyond `max_rows`."""
        now = time.time()
        found: dict[str, Row] = {}
        for listener in self._subscribers.all_listeners():
            self._add_listener(found, listener)
        every = [(own, key, client) for own, known in self._clients.items() for key, client in known.items()]
        for own, key, client in every:
            kind = client.kind
            idle = now - client.seen
            if kind in {WEBSOCKET, STDIO}:
                if str(key) in found:
                    _merge(found[str(key)], client)
                elif idle > STATELESS_SECONDS:
                    self._drop(own, key)
            elif idle > (settings.SESSION_IDLE_SECONDS if kind == SESSION else STATELESS_SECONDS):
                self._drop(own, key)
            elif kind == SESSION and str(key) in found:
                _merge(found[str(key)], client)
            else:
                name = key if isinstance(key, str) else "/".join(key)
                row = found[name] = _row(kind, name, client.caller, client.issued or client.since)
                _merge(row, client)
        shown = heapq.nlargest(max_rows, found.values(), key=lambda row: float(row["seen"]))
        return shown, len(found) - len(shown)

    def close(self, key: str, reason: Cancellation) -> None:
        """Close every stream and connection of this client that is open in this process."""
        for listener in self._subscribers.all_listeners():
            if self._key(listener) == key:
                close_quietly(listener, reason)
        self.forget(key)

    def _add(self, key: str | tuple[str, ...], peer: Peer, caller: Caller, now: float) -> Client:
        own = caller.credential.id
        if len(self._clients.get(own, ())) >= MAX_CLIENTS_PER_CREDENTIAL:
            self._drop(own, next(iter(self._clients[own])))
        while self._count >= MAX_CLIENTS:
            first = next(iter(self._clients))
            self._drop(first, next(iter(self._clients[first])))
        issued = peer.session.issued_at if peer.session is not None and not peer.connection else 0.0
        client = Client(caller, _kind(peer), issued, now, now)
        self._clients.setdefault(own, {})[key] = client
        self._count += 1
        return client

    def _drop(self, credential: str, key: str | tuple[str, ...]) -> None:
        known = self._clients.get(credential)
        if known is not None and known.pop(key, None) is not None:
            self._count -= 1
            if not known:
                del self._clients[credential]

    def _key(self, listener: Listener) -> str:
        """Return the client's key; empty for the remainder of a broken stream, which belongs to no connection."""
        peer = listener.peer
        if peer.scope:
            return peer.scope
        return f"{self._worker}.{listener.number}" if peer.era == "modern" else ""

    def _add_listener(self, found: dict[str, Row], listener: Listener) -> None:
        key = self._key(listener)
        if not key:
            return
        row = found.get(key)
        if row is None:
            kind = _kind(listener.peer)
            kind = STREAM if kind == STATELESS else kind
            session = listener.peer.session
            since = session.issued_at if session is not None and not listener.peer.connection else listener.since
            row = found[key] = _row(kind, key, listener.peer.caller, since)
        row["streams"] += 1

    def _on_session_closed(self, payload: dict[str, Any]) -> None:
        self.forget(str(payload.get("key")))
