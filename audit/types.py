"""Data types that other layers pass to the audit log, and the exceptions that it raises.

AuditLogUnavailable     the audit log cannot be written: nothing may run
+-- AuditLogBusy        too many entries are waiting to be written

The types of the caller are plain data that every layer above passes down with a call.
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
    """Identity behind a bearer token or a session of the admin. Cached for at most five seconds."""

    user_id: int
    username: str
    id: str
    """`token:12`, `app:4` (a connected app), `stdio:12`, `admin:3` (user 3 tries a tool in the admin), `admin:3:17` (as
    user 17)."""
    label: str
    """Name of the token, for the audit log."""
    toolset_ids: frozenset[int] | None
    """Ids of the toolsets that the token is restricted to; None means everything the user may see."""
    expires_at: float | None
    """Unix seconds."""
    made_by_owner: bool = True
    """False for a token that somebody else created for this user: it never uses their personal secrets."""
    may_write: bool = True
    """False for an app that may use only tools that change nothing."""
    maker_id: int | None = None
    """The user who made the token for this user, or who tries a tool as this user; None: nobody else."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a call was allowed, denied or rejected: a code with parameters, kept beside the English sentence."""

    code: str
    params: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Parameters of the sentence: JSON data."""

    @property
    def text(self) -> str:
        return self.encode()

    def encode(self) -> str:
        """Return canonical JSON as the log stores it, without the parameters when the text is too large to store."""
        text = _encode([self.code, self.params])
        return text if len(text) <= MAX_REASON_CHARACTERS else _encode([self.code, {}])

    @classmethod
    def read(cls, text: str) -> Reason | None:
        """Return the reason that the log stored, or None for an empty or unreadable text."""
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
    """`http`, `websocket`, `stdio`, `admin` or `test`."""
    revision: str
    """Protocol revision of the request, such as `2025-11-25`."""
    address: str
    """IP address of the client."""
    client_name: str = ""
    """Self-reported by the client; no decision depends on it."""
    client_version: str = ""

    @property
    def user_id(self) -> int:
        return self.credential.user_id

    @property
    def username(self) -> str:
        return self.credential.username


class AuditLogUnavailable(Exception):
    """Error: the audit log cannot be written now, so nothing may run. `reason` is a sentence for the caller."""

    def __init__(self, why: str = "") -> None:
        self.reason = f"calls cannot be logged now: {why}" if why else "calls cannot be logged now"
        super().__init__(self.reason)


class AuditLogBusy(AuditLogUnavailable):
    """Error: more entries are waiting to be written than the queue may hold."""


@dataclass(slots=True)
class Intent:
    """Values of a call that are known before it runs."""

    caller: Caller
    method: str
    name: str
    """Name of the tool, prompt or resource as the client requested it."""
    target_id: int | None = None
    definition: str = ""
    rule: str = ""
    arguments: str = "{}"
    """Canonical JSON text for storage: already redacted."""
    request_id: str = ""
    rule_reason: str = ""
    """Text of the Reason whose English sentence is `rule`."""
    notes: tuple[Any, ...] = ()
    """What rules in trial would have answered: the next entry has it in its rule code."""


@dataclass(slots=True)
class Ending:
    """Values of a call that are known after it ended."""

    outcome: str
    error_class: str = ""
    detail: str = ""
    result: str = ""
    result_bytes: int = 0
    result_sha256: str = ""
    detail_reason: str = ""
    """Text of the Reason whose English sentence is `detail`: already redacted."""
    whole: str = ""
    """The whole redacted text where `result` is its beginning and the settings keep all of it; else empty."""


@dataclass(slots=True, eq=False)
class BegunCall:
    """A call that is logged and may run."""

    id: UUID
    started: float
    """time.monotonic() at the start, in seconds."""
    intent: Intent
