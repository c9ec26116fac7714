"""Sessions of the stateful transport: signed ids that carry the result of `initialize`, bound to their credential.

An id holds the credential, the revision and the capabilities, so any worker can read it and nothing has to be stored
before `initialize` is answered. Changing state (closed, log level, subscriptions, last seen) is in `shared`.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict
from typing import Any

from django.conf import settings
from django.core import signing

from audit.types import Credential
from catalog.errors import SESSION_ENDED, Cancellation
from toolhub.server.bus import Bus
from toolhub.server.peer import Session
from toolhub.server.state import SharedState
from toolhub.wire import versions

SALT = "toolhub.server.session"
MAX_CACHED_SESSIONS = 20_000
MAX_ID_CHARACTERS = 4096
MAX_SUBSCRIPTIONS = 200
MAX_USER_SUBSCRIPTIONS = 2_000
"""Of all sessions of a user in this process; beyond it, the session that has waited longest loses its own."""
MAX_PLAIN_URI_CHARACTERS = 100
"""Of a longer address the digest is stored: two hundred of 8,000 characters would be read with each request."""
SEEN_SECONDS = 60.0
SIGNED_VALUES = 9
CLOSED = "session.closed"
_SUBSCRIPTION = "uri:"

_ASKABLE_CAPABILITIES = (
    ("roots", "2024-11-05", (("listChanged", "2024-11-05"),)),
    ("sampling", "2024-11-05", (("tools", "2025-11-25"), ("context", "2025-11-25"))),
    ("elicitation", "2025-06-18", (("form", "2025-11-25"), ("url", "2025-11-25"))),
)


class UnknownSession(Exception):
    """The credential has no such session: never made, closed, idle for too long, or another's. HTTP 404."""


class TooManySubscriptions(Exception):
    """The session has the maximum number of resource subscriptions."""


class Sessions:
    """The sessions known to this process, and their state that all workers share."""

    def __init__(self, bus: Bus, state: SharedState) -> None:
        self._bus, self._state = bus, state
        self._known: OrderedDict[str, Session] = OrderedDict()
        self._subscribed: dict[int, OrderedDict[str, int]] = {}
        """By user and session key, the one of the newest subscription last: number of subscriptions made here."""
        self._subscribers: dict[str, int] = {}
        """The user of each of these sessions."""

    def create(
        self, credential: Credential, revision: str, capabilities: dict[str, Any], client_name: str, client_version: str
    ) -> Session:
        """Create a session; its id is visible ASCII."""
        session = Session(
            id="",
            key=secrets.token_urlsafe(12),
            user_id=credential.user_id,
            credential_id=credential.id,
            revision=revision,
            capabilities=_filter_capabilities(capabilities, revision),
            client_name=client_name[:100],
            client_version=client_version[:50],
            issued_at=float(int(time.time())),
            restriction=_digest_restriction(credential),
        )
        content = [
            session.key,
            session.user_id,
            session.credential_id,
            session.revision,
            session.capabilities,
            session.client_name,
            session.client_version,
            int(session.issued_at),
            session.restriction,
        ]
        session.id = signing.dumps(content, salt=SALT, compress=True)
        self._remember(session)
        return session

    async def require(self, session_id: str, credential: Credential) -> Session:
        """Return the session of this id. Raises UnknownSession. Costs one Redis query, where Redis is configured.

        A token whose toolsets were changed begins a new session: what streams of the old one held stays there.
        """
        session = self._known.get(session_id)
        if session is None:
            session = self._read(session_id)
        if session.user_id != credential.user_id or session.credential_id != credential.id:
            raise UnknownSession
        if session.restriction != _digest_restriction(credential):
            raise UnknownSession
        state = await self._state.read(session.key)
        if "closed" in state:
            raise UnknownSession
        now = time.time()
        seen = max(float(state.get("seen", 0)), session.issued_at)
        if now - seen > settings.SESSION_IDLE_SECONDS:
            raise UnknownSession
        if now - seen > min(SEEN_SECONDS, settings.SESSION_IDLE_SECONDS / 4):
            await self._write(session, {"seen": str(int(now))})
        return session

    async def close(self, session_id: str, credential: Credential) -> None:
        """End a session on every worker; cancel its calls, close its streams. Raises UnknownSession."""
        session = await self.require(session_id, credential)
        await self.end(session)

    async def end(self, session: Session) -> None:
        """End a session object, for a connection that ended."""
        await self.end_key(session.key)

    async def end_key(self, key: str, reason: Cancellation = SESSION_ENDED) -> None:
        """End a session of which only the key is known."""
        self._forget_subscriptions(key)
        await self._state.replace(key, {"closed": "1"}, _state_ttl_seconds())
        await self._bus.publish(CLOSED, {"key": key, "reason": reason.reason.encode()})

    async def set_level(self, session: Session, level: str) -> None:
        await self._write(session, {"level": level})

    def level(self, session: Session) -> str | None:
        """Return the log level that the client asked for, as far as it is known here."""
        return self._state.local_copy(session.key).get("level")

    async def subscribe(self, session: Session, uri: str) -> None:
        state = await self._state.read(session.key)
        field = _subscription_field(uri)
        if field in state:
            return
        if sum(name.startswith(_SUBSCRIPTION) for name in state) >= MAX_SUBSCRIPTIONS:
            raise TooManySubscriptions
        await self._write(session, {field: "1"})
        mine = self._subscribed.setdefault(session.user_id, OrderedDict())
        mine[session.key] = mine.get(session.key, 0) + 1
        mine.move_to_end(session.key)
        self._subscribers[session.key] = session.user_id
        while sum(mine.values()) > MAX_USER_SUBSCRIPTIONS and len(mine) > 1:
            await self._drop_subscriptions(next(iter(mine)))

    async def unsubscribe(self, session: Session, uri: str) -> None:
        field = _subscription_field(uri)
        if field in await self._state.read(session.key):
            await self._write(session, {field: None})
            mine = self._subscribed.get(session.user_id)
            if mine is not None and mine.get(session.key, 0) > 1:
                mine[session.key] -= 1
            else:
                self._forget_subscriptions(session.key)

    async def is_subscribed(self, session: Session, uri: str) -> bool:
        return _subscription_field(uri) in await self._state.read(session.key)

    async def _drop_subscriptions(self, key: str) -> None:
        self._forget_subscriptions(key)
        state = await self._state.read(key)
        dropped: dict[str, str | None] = {name: None for name in state if name.startswith(_SUBSCRIPTION)}
        if dropped:
            await self._state.write(key, dropped, _state_ttl_seconds())

    def _forget_subscriptions(self, key: str) -> None:
        user_id = self._subscribers.pop(key, None)
        if user_id is not None:
            mine = self._subscribed[user_id]
            del mine[key]
            if not mine:
                del self._subscribed[user_id]

    async def _write(self, session: Session, fields: dict[str, str | None]) -> None:
        await self._state.write(session.key, fields, _state_ttl_seconds())

    def _read(self, session_id: str) -> Session:
        if len(session_id) > MAX_ID_CHARACTERS:
            raise UnknownSession
        try:
            content = signing.loads(session_id, salt=SALT)
        except signing.BadSignature:
            raise UnknownSession from None
        if len(content) != SIGNED_VALUES:
            raise UnknownSession  # of an earlier version of toolhub
        key, user_id, credential_id, revision, capabilities, name, version, issued_at, restriction = content
        session = Session(
            session_id,
            key,
            user_id,
            credential_id,
            revision,
            capabilities,
            name,
            version,
            float(issued_at),
            restriction,
        )
        self._remember(session)
        return session

    def _remember(self, session: Session) -> None:
        self._known[session.id] = session
        while len(self._known) > MAX_CACHED_SESSIONS:
            self._known.popitem(last=False)


def _digest_restriction(credential: Credential) -> str:
    if credential.toolset_ids is None:
        return ""
    return hashlib.sha256(repr(sorted(credential.toolset_ids)).encode()).hexdigest()[:32]


def _subscription_field(uri: str) -> str:
    if len(uri) > MAX_PLAIN_URI_CHARACTERS:
        uri = "sha256:" + hashlib.sha256(uri.encode("utf-8", "surrogatepass")).hexdigest()
    return _SUBSCRIPTION + uri


def _state_ttl_seconds() -> float:
    """Return a time in seconds that is longer than any session can still live, so that a closed one stays closed."""
    return float(settings.SESSION_IDLE_SECONDS + 120)


def _filter_capabilities(capabilities: dict[str, Any], revision: str) -> dict[str, Any]:
    """Return the capabilities that a client of this revision can be asked for; others are never read.

    Leaving them out also keeps the session id short.
    """
    askable: dict[str, Any] = {}
    for name, since, members in _ASKABLE_CAPABILITIES:
        declared = capabilities.get(name)
        if isinstance(declared, dict) and versions.is_at_least(revision, since):
            askable[name] = {
                member: {}
                for member, since in members
                if declared.get(member) not in (None, False) and versions.is_at_least(revision, since)
            }
    return askable
