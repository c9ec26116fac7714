"""What changed, and for whom: listeners who see the same catalogue are one audience, decided about once.

On a new catalogue revision, and at the moments when an answer changes by itself (a time window opens or closes), every
audience is decided about again; only those whose list really changed hear of it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from audit.caller import Credential
from catalog import snapshot, visible
from catalog.policy import Visible
from toolhub.server import relay, sessions
from toolhub.wire import uritemplate

if TYPE_CHECKING:
    from toolhub.server.listeners import Listener

log = logging.getLogger(__name__)

UPDATED = "resource.updated"
SLICE_SECONDS = 0.01
LONGEST_TIMER = 3600.0
_METHODS = {
    "tools": "notifications/tools/list_changed",
    "resources": "notifications/resources/list_changed",
    "prompts": "notifications/prompts/list_changed",
}

Key = tuple[int, frozenset[int] | None]


class Audience:
    """Listeners of one user with one restriction to toolsets."""

    __slots__ = ("credential", "key", "listeners", "seen", "timer")

    def __init__(self, key: Key, credential: Credential) -> None:
        self.key = key
        self.credential = credential
        self.listeners: list[Listener] = []
        self.seen: Visible | None = None
        self.timer: asyncio.TimerHandle | None = None

    def decide(self) -> None:
        """Look again; tell the listeners what changed since the last look."""
        try:
            seen = visible.for_credential(self.credential)
        except snapshot.NotLoaded:
            return
        before, self.seen = self.seen, seen
        self._arm(seen.changes_at)
        if before is None or before is seen:
            return
        for kind, method in _METHODS.items():
            if before.fingerprints[kind] != seen.fingerprints[kind]:
                for listener in self._speaking_to(kind):
                    listener.send(method)
        for uri in _changed_resources(before, seen):
            _announce(self, uri)

    def may_read(self, uri: str) -> bool:
        return self.seen is not None and readable(self.seen, uri)

    def stop(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _speaking_to(self, kind: str) -> list[Listener]:
        """Those who want to hear of this kind; of the streams of one session only the newest."""
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
            wait = min(max(changes_at - time.time(), 0.0) + 0.005, LONGEST_TIMER)
            self.timer = asyncio.get_running_loop().call_later(wait, self._due)

    def _due(self) -> None:
        self.timer = None
        try:
            self.decide()
        except Exception:
            log.exception("Could not decide what a listener sees now")


_audiences: dict[Key, Audience] = {}
_again = False
_deciding: asyncio.Task[None] | None = None
_background: set[asyncio.Task[None]] = set()


def join(listener: Listener) -> None:
    credential = listener.peer.caller.credential
    key = (credential.user_id, credential.toolset_ids)
    audience = _audiences.get(key)
    if audience is None:
        audience = _audiences[key] = Audience(key, credential)
    audience.listeners.append(listener)
    listener.audience = audience
    if audience.seen is None:
        audience.decide()


def leave(listener: Listener) -> None:
    audience = listener.audience
    listener.audience = None
    if audience is None:
        return
    audience.listeners.remove(listener)
    if not audience.listeners:
        audience.stop()
        if _audiences.get(audience.key) is audience:
            del _audiences[audience.key]


def decide_all() -> None:
    """A new catalogue is in place: look again for everybody who listens, without holding up the loop."""
    global _again, _deciding
    _again = True
    if _deciding is None or _deciding.done():
        _deciding = asyncio.get_running_loop().create_task(_decide_all(), name="audiences")


def readable(seen: Visible, uri: str) -> bool:
    """Whether this is a resource, or fits a template, of somebody who sees this."""
    return uri in seen.resources or any(_template(text).match(uri) is not None for text in seen.templates)


def updated(uri: str) -> None:
    """The content of a resource changed: tell those who subscribed to it, on every worker. On the loop's thread."""
    relay.tell(UPDATED, {"uri": uri})


@lru_cache(maxsize=10_000)
def _template(text: str) -> uritemplate.Template:
    return uritemplate.parse(text)


async def _decide_all() -> None:
    global _again
    while _again:
        _again = False
        resume = time.monotonic() + SLICE_SECONDS
        for audience in list(_audiences.values()):
            if audience.listeners:
                try:
                    audience.decide()
                except Exception:
                    log.exception("Could not decide what a listener sees now")
            if time.monotonic() > resume:
                await asyncio.sleep(0)
                resume = time.monotonic() + SLICE_SECONDS


def _changed_resources(before: Visible, seen: Visible) -> Iterable[str]:
    if before.fingerprints["resources"] == seen.fingerprints["resources"]:
        return ()
    return [
        uri
        for uri, (definition, _) in seen.resources.items()
        if (old := before.resources.get(uri)) is not None and old[0].hash != definition.hash
    ]


def _announce(audience: Audience, uri: str) -> None:
    """Tell the listeners of one audience that a resource they subscribed to has changed."""
    params = {"uri": uri}
    handshake: dict[str, Listener] = {}
    for listener in audience.listeners:
        if uri in listener.uris:
            listener.send("notifications/resources/updated", params)
        elif listener.kinds and (key := listener.session_key):
            handshake[key] = listener
    if handshake:
        task = asyncio.get_running_loop().create_task(_announce_to_sessions(list(handshake.values()), uri))
        _background.add(task)
        task.add_done_callback(_background.discard)


async def _announce_to_sessions(found: list[Listener], uri: str) -> None:
    for listener in found:
        session = listener.peer.session
        if session is not None and uri in await sessions.subscriptions(session):
            listener.send("notifications/resources/updated", {"uri": uri})


def _on_updated(payload: dict[str, Any]) -> None:
    uri = str(payload.get("uri"))
    for audience in list(_audiences.values()):
        if audience.may_read(uri):
            _announce(audience, uri)


def forget_audiences() -> None:
    """Forget everybody (a new event loop)."""
    global _deciding, _again
    for audience in _audiences.values():
        audience.timer = None
    _audiences.clear()
    _background.clear()
    _deciding, _again = None, False


relay.on(UPDATED, _on_updated)
