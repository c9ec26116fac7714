"""The end of one run, as a test judges it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from catalog.functions.content import ABSENT


@dataclass(frozen=True, slots=True)
class Ended:
    status: str
    """A status of the audit log."""
    text: str
    """What the client would read: the texts of the result, or the sentence of the refusal."""
    structured: Any = ABSENT
    call_id: UUID | None = None
