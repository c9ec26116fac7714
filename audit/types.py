"""What the floors above hand to the record, and how it refuses them.

CannotRecord            the record cannot be written: nothing may run
+-- RecordBusy          too much is waiting to be written

Who attempts something: plain data that every floor above hands down with a call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

MAX_REASON_CHARACTERS = 4_000
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode


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
class Reason:
    """Why a call was allowed, denied or rejected: a code with parameters, kept beside the English sentence."""

    code: str
    params: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """JSON data."""

    @property
    def text(self) -> str:
        return self.encoded()

    def encoded(self) -> str:
        """Return canonical JSON, as the log stores it; without parameters that are too large to be stored."""
        text = _encode([self.code, self.params])
        return text if len(text) <= MAX_REASON_CHARACTERS else _encode([self.code, {}])

    @classmethod
    def read(cls, text: str) -> Reason | None:
        """Return what the log stored, or None for an empty or unreadable text."""
        try:
            code, params = json.loads(text)
        except (ValueError, TypeError, RecursionError):
            return None
        return cls(code, params) if isinstance(code, str) and isinstance(params, dict) else None


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


class CannotRecord(Exception):
    """The record cannot be written now, so nothing may run. `reason` is a sentence for the caller."""

    def __init__(self, why: str = "") -> None:
        self.reason = f"cannot record calls now: {why}" if why else "cannot record calls now"
        super().__init__(self.reason)


class RecordBusy(CannotRecord):
    """More is waiting to be written than the queue may hold."""


@dataclass(slots=True)
class Intent:
    """What is about to be attempted."""

    caller: Caller
    method: str
    name: str
    """The tool, prompt or resource as it was asked for."""
    target_id: int | None = None
    definition: str = ""
    rule: str = ""
    arguments: str = "{}"
    """Canonical JSON text as it is to be stored: already redacted."""
    request_id: str = ""
    rule_reason: str = ""
    """The text of the Reason that `rule` says in English."""


@dataclass(slots=True)
class Ending:
    """How it ended."""

    outcome: str
    error_class: str = ""
    detail: str = ""
    result: str = ""
    result_bytes: int = 0
    result_sha256: str = ""
    detail_reason: str = ""
    """The text of the Reason that `detail` says in English: already redacted."""


@dataclass(slots=True, eq=False)
class Begun:
    """A call that is on record and may run."""

    id: UUID
    started: float
    """time.monotonic() at the beginning."""
    intent: Intent
