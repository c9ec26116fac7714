"""One listener: an open stream or socket, or one subscription on it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from catalog.errors import Cancellation
from toolhub.access.bearer import Restriction
from toolhub.server.peer import Peer
from toolhub.wire import jsonrpc
from toolhub.wire.envelope import SUBSCRIPTION_ID

log = logging.getLogger(__name__)


class Listener:
    """One open stream or socket, or one subscription on it."""

    __slots__ = (
        "_close",
        "_forget",
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
        forget: Callable[[Listener], None],
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
        self._forget = forget
        self._send, self._close = send, close
        self.kinds, self.uris, self.task_ids, self.tag = kinds, uris, task_ids, tag
        credential = peer.caller.credential
        self.user_id, self.credential_id = credential.user_id, credential.id
        self.audience: Any = None
        """Its `subscribers.Audience`, or None."""
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
            self._forget(self)
            self._send = self._close = _ignore

    def close(self, reason: Cancellation) -> None:
        """Detach, and have the transport close the stream or socket."""
        if self.open:
            close = self._close
            self.detach()
            close(reason)


def _ignore(_: object) -> None:
    """Stand in for the functions of a transport, which keep it in memory as long as the listener."""


def close_quietly(listener: Listener, reason: Cancellation) -> None:
    """Close the listener; never raises."""
    try:
        listener.close(reason)
    except Exception:
        # One stream that cannot be closed must not keep the others open.
        log.exception("A stream could not be closed")
