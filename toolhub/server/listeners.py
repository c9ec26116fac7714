"""Who listens: open streams and sockets, what each wants to hear, and when they are closed."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

from catalog.errors import SERVER_STOPPING
from toolhub.server import audiences, relay, sessions
from toolhub.server.peer import Peer
from toolhub.wire import jsonrpc

log = logging.getLogger(__name__)

KINDS = frozenset({"tools", "resources", "prompts"})
PER_USER = 100
PER_PROCESS = 10_000
SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"
_numbers = itertools.count(1)


class TooManyListeners(Exception):
    """This user or this process holds as many open streams as it may; HTTP 503 or WebSocket 1013."""


class Listener:
    """One open stream or socket, or one subscription on it."""

    __slots__ = (
        "_close",
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
        peer: Peer,
        send: Callable[[dict[str, Any]], None],
        close: Callable[[str], None],
        kinds: frozenset[str],
        uris: frozenset[str],
        task_ids: frozenset[str],
        tag: str | int | None,
    ) -> None:
        self.peer = peer
        self._send, self._close = send, close
        self.kinds, self.uris, self.task_ids, self.tag = kinds, uris, task_ids, tag
        credential = peer.caller.credential
        self.user_id, self.credential_id = credential.user_id, credential.id
        self.audience: audiences.Audience | None = None
        self.open = True
        self.number, self.since = next(_numbers), time.time()

    @property
    def session_key(self) -> str:
        return self.peer.session.key if self.peer.session is not None else ""

    def send(self, method: str, params: dict[str, Any] | None = None) -> None:
        """A notification, marked with the subscription it belongs to where there is one."""
        if not self.open:
            return
        if self.tag is not None:
            params = {**(params or {}), "_meta": {SUBSCRIPTION_ID: self.tag}}
        self._send(jsonrpc.notification(method, params))

    def detach(self) -> None:
        """Stop listening; may be called twice."""
        if self.open:
            self.open = False
            _forget(self)

    def close(self, reason: str) -> None:
        """Detach, and have the transport close the stream or socket."""
        if self.open:
            self.detach()
            self._close(reason)


_all: set[Listener] = set()
_by_user: dict[int, int] = {}
_by_session: dict[str, list[Listener]] = {}
_by_task: dict[str, set[Listener]] = {}


def attach(
    peer: Peer,
    send: Callable[[dict[str, Any]], None],
    close: Callable[[str], None],
    *,
    kinds: frozenset[str] = KINDS,
    uris: frozenset[str] = frozenset(),
    task_ids: frozenset[str] = frozenset(),
    tag: str | int | None = None,
) -> Listener:
    """Listen for this peer until `detach`: GET streams (handshake), WebSocket and stdio connections of both eras.

    `send` gets JSON-RPC notifications and must not block; `close(reason)` is called once when access is revoked, the
    session ends elsewhere, or the server stops: the transport then closes the stream or socket. For the connections of
    stateless clients pass `kinds=frozenset()`: they are watched for revocation only (`subscriptions/listen` is a
    request like any other and goes through `dispatch.answer`). Raises TooManyListeners.
    """
    user_id = peer.caller.credential.user_id
    if len(_all) >= PER_PROCESS or _by_user.get(user_id, 0) >= PER_USER:
        raise TooManyListeners
    listener = Listener(peer, send, close, kinds, uris, task_ids, tag)
    _all.add(listener)
    _by_user[user_id] = _by_user.get(user_id, 0) + 1
    if kinds and peer.session is not None:
        _by_session.setdefault(peer.session.key, []).append(listener)
    for task_id in task_ids:
        _by_task.setdefault(task_id, set()).add(listener)
    if kinds or uris:
        audiences.join(listener)
    return listener


def credentials() -> dict[str, int]:
    """Credential id -> user of everybody who listens."""
    return {listener.credential_id: listener.user_id for listener in _all}


def close_credentials(ids: Iterable[str], reason: str) -> None:
    wanted = frozenset(ids)
    for listener in [listener for listener in _all if listener.credential_id in wanted]:
        close_quietly(listener, reason)


def close_all(reason: str = SERVER_STOPPING) -> None:
    for listener in list(_all):
        close_quietly(listener, reason)


def of_task(task_id: str) -> list[Listener]:
    return list(_by_task.get(task_id, ()))


def count() -> int:
    return len(_all)


def every() -> list[Listener]:
    return list(_all)


def reset() -> None:
    """Forget everybody (their event loop is gone)."""
    for known in (_all, _by_user, _by_session, _by_task):
        known.clear()
    audiences.forget_audiences()


def _forget(listener: Listener) -> None:
    if listener not in _all:
        return
    _all.discard(listener)
    left = _by_user[listener.user_id] - 1
    if left:
        _by_user[listener.user_id] = left
    else:
        del _by_user[listener.user_id]
    key = listener.session_key
    if key and listener in (found := _by_session.get(key, [])):
        found.remove(listener)
        if not found:
            del _by_session[key]
    for task_id in listener.task_ids:
        if (watching := _by_task.get(task_id)) is not None:
            watching.discard(listener)
            if not watching:
                del _by_task[task_id]
    if listener.audience is not None:
        audiences.leave(listener)


def close_quietly(listener: Listener, reason: str) -> None:
    """`Listener.close` that never raises."""
    try:
        listener.close(reason)
    except Exception:
        # One stream that cannot be closed must not keep the others open.
        log.exception("A stream could not be closed")


def _session_closed(payload: dict[str, Any]) -> None:
    for listener in list(_by_session.get(str(payload.get("key")), ())):
        close_quietly(listener, "the session was ended")


relay.on(sessions.CLOSED, _session_closed)
