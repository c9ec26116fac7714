"""The connection check: notifies the open page of a person about the clients that they connect.

Nothing is stored while no page is open (`PageSubscriptions.keys` is empty): then a request costs one lookup there. A
page is notified about its person's tokens and apps, and about clients at its own address that were rejected before they
were identified, or look for the sign-in. A message has `topic` "connect", `step` ("metadata", "registered", "asked",
"allowed", "issued", "revision", "tools", "call", "failed"), `credential` ("token:12", "app:4", or null when it is not
known), `token` (its name), `client`, and the fields of the step: `revision`, `count`, `name`, `failed`, or `reason`,
one of the words that the page explains. `recent` is true for what happened before the page was opened.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from audit.types import Credential
from toolhub.server.bus import Bus
from toolhub.server.live import subscriptions
from toolhub.server.live.calls import Watcher
from toolhub.server.live.subscriptions import PageSubscriptions
from toolhub.server.peer import Peer
from toolhub.wire.errors import HEADER_MISMATCH, UNSUPPORTED_VERSION, McpError

STEP = "connect.step"
RECENT_SECONDS = 60.0
MAX_RECENT_STEPS = 20
"""Number of recent steps that a newly opened page still receives."""
MIN_REPEAT_SECONDS = 1.0
"""Minimum seconds between two messages about the same step of the same token, however fast its client is."""
WRONG_PATHS = frozenset({"/sse", "/sse/", "/mcp/sse", "/mcp/sse/", "/message", "/messages", "/messages/"})
_REASONS = {UNSUPPORTED_VERSION: "revision", HEADER_MISMATCH: "headers"}


class ConnectCheck:
    """The connection check pages of this process, and the messages they got recently."""

    def __init__(self, bus: Bus, pages: PageSubscriptions) -> None:
        self._bus, self._pages = bus, pages
        self._watchers: dict[str, set[Watcher]] = {}
        self._recent: dict[str, deque[tuple[float, dict[str, Any]]]] = {}
        self._sent_at: dict[tuple[str, ...], float] = {}
        bus.on(STEP, self._on_step)

    def watch(self, watcher: Watcher, address: str) -> None:
        """Notify this window about its person's clients, and about failing unknown clients at its own address."""
        for key in (subscriptions.connect_key(watcher.user_id), subscriptions.address_key(address)):
            found = self._watchers.setdefault(key, set())
            if watcher not in found:
                found.add(watcher)
                self._pages.hold(key)
        start = time.monotonic() - RECENT_SECONDS
        for at, message in self._recent.get(subscriptions.connect_key(watcher.user_id), ()):
            if at > start:
                watcher.send({**message, "recent": True})

    def forget(self, watcher: Watcher) -> None:
        for key in [key for key, found in self._watchers.items() if watcher in found]:
            self._watchers[key].discard(watcher)
            self._pages.release(key)
            if not self._watchers[key]:
                del self._watchers[key]

    def report_sign_in(
        self, step: str, *, address: str = "", user_id: int | None = None, client: str = "", credential: str = ""
    ) -> None:
        """Report a step of a sign-in, from a thread: to the pages of its person, or of those at this address."""
        key = subscriptions.address_key(address) if user_id is None else subscriptions.connect_key(user_id)
        if self._pages.keys and self._pages.is_subscribed(key):
            message = {"topic": "connect", "step": step, "credential": credential or None, "client": client[:100]}
            self._bus.publish_from_thread(STEP, {"keys": [key], "message": message})

    def report_session(self, credential: Credential, revision: str, client_name: str, client_version: str) -> None:
        """Report the start of a session."""
        if self._is_followed(credential):
            self._send_step(credential, client_name, client_version, "revision", revision=revision)

    def report_result(self, peer: Peer, method: str, result: dict[str, Any]) -> None:
        """Report a request that was answered with a result."""
        caller = peer.caller
        credential = caller.credential
        if not self._is_followed(credential):
            return
        name, version = caller.client_name, caller.client_version
        self._send_step(credential, name, version, "revision", revision=peer.revision)
        if method == "tools/list":
            more = "nextCursor" in result
            self._send_step(credential, name, version, "tools", count=len(result.get("tools", ())), more=more)
        elif method == "tools/call":
            self._send_step(credential, name, version, "call", failed=bool(result.get("isError")))

    def report_error(self, peer: Peer, method: str, error: Exception) -> None:
        """Report a request that was answered with an error.

        Only methods of connecting count: clients try many others.
        """
        caller = peer.caller
        if not self._pages.keys or not self._is_followed(caller.credential):
            return
        if method == "tools/call":
            self._send_step(caller.credential, caller.client_name, caller.client_version, "call", failed=True)
        elif method in {"tools/list", "server/discover"} and isinstance(error, McpError):
            self.report_invalid(caller.credential, error, caller.client_name, caller.client_version)

    def report_invalid(
        self, credential: Credential, error: McpError, client_name: str = "", client_version: str = ""
    ) -> None:
        """Report an invalid message with a known token."""
        if self._pages.keys and self._is_followed(credential):
            reason = _REASONS.get(error.code, "request")
            self._send_step(credential, client_name, client_version, "failed", reason=reason, said=error.message[:200])

    def report_rejected(
        self, address: str, reason: str, user_id: int | None = None, credential: str | None = None
    ) -> None:
        """Report a client that was rejected before its identification, or with a known but invalid token."""
        keys = [subscriptions.address_key(address)]
        if user_id is not None:
            keys = [subscriptions.connect_key(user_id)]
        if any(map(self._pages.is_subscribed, keys)) and self._is_new(keys[0], "failed", reason):
            message = {"topic": "connect", "step": "failed", "credential": credential, "client": "", "reason": reason}
            self._bus.publish_soon(STEP, {"keys": keys, "message": message})

    def report_path(self, address: str, method: str, path: str) -> None:
        """Report a request to an address at which clients of other servers look for MCP."""
        if path in WRONG_PATHS or (path == "/" and method == "POST"):
            self.report_rejected(address, "path")

    def clear(self) -> None:
        """Remove every page and its messages."""
        for known in (self._watchers, self._recent, self._sent_at):
            known.clear()

    def _is_followed(self, credential: Credential) -> bool:
        return self._pages.is_subscribed(subscriptions.connect_key(credential.user_id))

    def _send_step(self, credential: Credential, client_name: str, client_version: str, step: str, **more: Any) -> None:
        if not self._is_new(credential.id, step, *map(str, more.values())):
            return
        message = {
            "topic": "connect",
            "step": step,
            "credential": credential.id,
            "token": credential.label,
            "client": f"{client_name} {client_version}".strip()[:100],
            **more,
        }
        self._bus.publish_soon(STEP, {"keys": [subscriptions.connect_key(credential.user_id)], "message": message})

    def _is_new(self, *key: str) -> bool:
        now = time.monotonic()
        if now - self._sent_at.get(key, -MIN_REPEAT_SECONDS) < MIN_REPEAT_SECONDS:
            return False
        if len(self._sent_at) > 1000:
            self._sent_at.clear()
        self._sent_at[key] = now
        return True

    def _on_step(self, payload: dict[str, Any]) -> None:
        now = time.monotonic()
        for key in [key for key, steps in self._recent.items() if now - steps[-1][0] > RECENT_SECONDS]:
            del self._recent[key]
        message = dict(payload.get("message") or {})
        for key in map(str, payload.get("keys") or ()):
            if message.get("credential"):
                self._recent.setdefault(key, deque(maxlen=MAX_RECENT_STEPS)).append((now, message))
            for watcher in list(self._watchers.get(key, ())):
                watcher.send(message)
