"""Whom a request comes from and where its messages go: the two things a transport hands to the server role."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from audit.types import Caller, Credential

if TYPE_CHECKING:
    from toolhub.wire.envelope import Envelope

Era = Literal["handshake", "modern"]


class Outlet(Protocol):
    """The stream of one request in flight. Everything here is synchronous: what is sent is queued, bounded."""

    streaming: bool
    """May this request's answer be a stream at all? When not, nothing is sent and no client can be asked."""

    def notify(self, message: dict[str, Any]) -> None:
        """Queue a JSON-RPC notification or request on this request's own stream; progress may be dropped when slow."""

    def close(self) -> None:
        """End the response stream early and keep working: the client polls for the rest (2025-11-25)."""


@dataclass(slots=True, eq=False)
class Session:
    """What `initialize` agreed on. The id is signed and carries all of it, so any worker can read it back."""

    id: str
    key: str
    """Short and without meaning: what shared state, streams and requests in flight are filed under."""
    user_id: int
    credential_id: str
    revision: str
    capabilities: dict[str, Any]
    client_name: str
    client_version: str
    issued_at: float


@dataclass(slots=True, eq=False)
class Peer:
    """The client of one request, or of one connection, as the server sees it."""

    caller: Caller
    era: Era
    revision: str
    capabilities: dict[str, Any]
    session: Session | None = None
    log_level: str | None = None
    """Modern: the level of this one request. In the handshake era the level belongs to the session."""
    connection: str = ""
    """Unique id of the WebSocket or stdio connection; empty over HTTP."""
    progress_token: str | int | None = None
    """Modern: from the envelope. In the handshake era it is read from the request's own `_meta`."""
    scope: str = field(init=False)
    """What request ids are unique within: the connection, the session, or nothing (stateless HTTP)."""

    def __post_init__(self) -> None:
        self.scope = self.connection or (self.session.key if self.session is not None else "")

    @property
    def credential(self) -> Credential:
        return self.caller.credential


def modern(envelope: Envelope, credential: Credential, transport: str, address: str, connection: str = "") -> Peer:
    """The peer of one stateless request: everything is in its envelope."""
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
    """The peer of one request, or of one connection, within a session."""
    caller = Caller(credential, transport, session.revision, address, session.client_name, session.client_version)
    return Peer(caller, "handshake", session.revision, session.capabilities, session=session, connection=connection)
