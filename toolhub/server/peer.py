"""The peer of a request and the outlet for its messages: the two objects that a transport passes to the server role."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from audit.types import Caller, Credential

if TYPE_CHECKING:
    from toolhub.wire.envelope import Envelope

Era = Literal["handshake", "modern"]


class Outlet(Protocol):
    """The stream of one running request. All methods are synchronous: messages are queued, with a bound."""

    streaming: bool
    """Whether this request's answer may be a stream. If not, nothing is sent and the client cannot be asked."""

    def notify(self, message: dict[str, Any]) -> None:
        """Queue a JSON-RPC notification or request on this request's own stream; progress may be dropped when slow."""

    def refuse(self, seconds: int) -> None:
        """Note that the request is one of a flood, to be tried again after so long: over HTTP it gets status 429."""

    def challenge(self, scope: str) -> None:
        """Note that the access token lacks this scope: over HTTP the answer gets status 403 and says so."""

    def close(self) -> None:
        """End the response stream early and keep working: the client polls for later events (2025-11-25)."""


@dataclass(slots=True, eq=False)
class Session:
    """The result of `initialize`. The signed id carries all of it, so any worker can read it back."""

    id: str
    key: str
    """A short random key for shared state, streams and running requests."""
    user_id: int
    credential_id: str
    revision: str
    capabilities: dict[str, Any]
    client_name: str
    client_version: str
    issued_at: float
    restriction: str = ""
    """Digest of the toolsets that the token is restricted to: another restriction needs a new session."""


@dataclass(slots=True, eq=False)
class Peer:
    """The client of one request, or of one connection, as the server sees it."""

    caller: Caller
    era: Era
    revision: str
    capabilities: dict[str, Any]
    session: Session | None = None
    log_level: str | None = None
    """Stateless transport: the level of this one request. With the stateful transport the level belongs to the session.
    """
    connection: str = ""
    """Unique id of the WebSocket or stdio connection; empty over HTTP."""
    progress_token: str | int | None = None
    """Stateless transport: from the envelope. With the stateful transport it is read from the request's own `_meta`."""
    scope: str = field(init=False)
    """The namespace in which request ids are unique: the connection, the session, or nothing (stateless HTTP)."""

    def __post_init__(self) -> None:
        self.scope = self.connection or (self.session.key if self.session is not None else "")

    @property
    def credential(self) -> Credential:
        return self.caller.credential


def modern(envelope: Envelope, credential: Credential, transport: str, address: str, connection: str = "") -> Peer:
    """Build the peer of one stateless request from its envelope."""
    caller = Caller(
        credential, transport, envelope.revision, address, envelope.client_name or "", envelope.client_version or ""
    )
    return Peer(
        caller,
        "modern",
        envelope.revision,
        envelope.capabilities,
        log_level=envelope.log_level,
        connection=connection,
        progress_token=envelope.progress_token,
    )


def handshake(session: Session, credential: Credential, transport: str, address: str, connection: str = "") -> Peer:
    """Build the peer of one request, or of one connection, within a session."""
    caller = Caller(credential, transport, session.revision, address, session.client_name, session.client_version)
    return Peer(caller, "handshake", session.revision, session.capabilities, session=session, connection=connection)
