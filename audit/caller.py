"""Who attempts something: plain data that every floor above hands down with a call."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Credential:
    """Who a bearer token, or a session of the admin, says it is. Kept for at most five seconds."""

    user_id: int
    username: str
    id: str
    """`token:12`, `stdio:12`, `admin:3` (user 3 tries a tool in the admin), `admin:3:17` (as user 17)."""
    label: str
    """The token's name, for the record."""
    toolset_ids: frozenset[int] | None
    """What the token is restricted to; None is everything the user may see."""
    expires_at: float | None
    """Unix seconds."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A credential and the client of one request."""

    credential: Credential
    transport: str
    """`http`, `websocket`, `stdio` or `admin`."""
    revision: str
    """The protocol revision that was spoken, as `2025-11-25`."""
    address: str
    """The client's IP address."""
    client_name: str = ""
    """As the client claims; nothing is decided by it."""
    client_version: str = ""

    @property
    def user_id(self) -> int:
        return self.credential.user_id

    @property
    def username(self) -> str:
        return self.credential.username
