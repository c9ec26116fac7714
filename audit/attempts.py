"""What the floors above hand to the record, and how it refuses them.

CannotRecord            the record cannot be written: nothing may run
+-- RecordBusy          too much is waiting to be written
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from audit.caller import Caller


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


@dataclass(slots=True)
class Ending:
    """How it ended."""

    outcome: str
    error_class: str = ""
    detail: str = ""
    result: str = ""
    result_bytes: int = 0
    result_sha256: str = ""


@dataclass(slots=True, eq=False)
class Begun:
    """A call that is on record and may run."""

    id: UUID
    started: float
    """time.monotonic() at the beginning."""
    intent: Intent
