"""The calls that rules in trial would have decided otherwise: the newest first, along an index of theirs alone.

Their notes are in the rule code of the call. The hash chain covers it, and only the call pipeline writes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import BooleanField, QuerySet
from django.db.models.expressions import RawSQL

from audit.models import TRIAL_NOTES, Call
from audit.queries.search import id_at
from audit.types import Reason

MAX_CALLS: Final = 20_000
"""Maximum calls that one reading returns."""
MAX_NOTES: Final = 20
"""Maximum notes of one call."""
ANSWERS: Final = frozenset({"allow", "deny", "ask", "limit"})
_CHUNK_ROWS: Final = 2_000
_FIELDS: Final = ("id", "user_id", "username", "method", "name", "target_id", "outcome", "rule_reason")
# SQLite reads a partial index only for the condition of the index itself, so nothing of it can be a parameter.
# PostgreSQL reads the same text as its own condition: the backslash escapes there anyway.
_CONDITION: Final = f"\"audit_call\".\"rule_reason\" LIKE '%%{TRIAL_NOTES}%%' ESCAPE '\\'"


@dataclass(frozen=True, slots=True)
class Note:
    """What one rule in trial would have changed about a call."""

    kind: str
    rule_id: int
    real: str
    """The answer without the rule: `allow`, `deny`, `ask` or `limit`."""
    tried: str
    """The answer with it."""


@dataclass(frozen=True, slots=True)
class NotedCall:
    """A call with the notes of rules in trial."""

    id: UUID
    user_id: int | None
    username: str
    method: str
    name: str
    """Name of the tool, prompt or resource as the client requested it."""
    target_id: int | None
    outcome: str
    notes: tuple[Note, ...]


def find_noted(since: datetime) -> QuerySet[Call]:
    """Return the calls since a time whose rule code has notes, the newest first."""
    noted = RawSQL(_CONDITION, (), output_field=BooleanField())  # noqa: S611 - a text of this module
    return Call.objects.filter(noted, pk__gte=id_at(since)).order_by("-pk")


def newest_id(since: datetime) -> UUID | None:
    """Return the newest call since a time whose rule code has notes; None when there is none."""
    return find_noted(since).values_list("pk", flat=True).first()


def iterate_calls(since: datetime, limit: int = MAX_CALLS) -> Iterator[NotedCall]:
    """Yield the calls since a time that have notes, the newest first, at most `limit`."""
    known: dict[str, tuple[Note, ...]] = {}  # one text for all calls of a person that one rule decided
    rows = find_noted(since).values_list(*_FIELDS)[:limit]
    for key, user_id, username, method, name, target_id, outcome, text in rows.iterator(_CHUNK_ROWS):
        if text not in known:
            known[text] = read_notes(text)
        if known[text]:
            yield NotedCall(key, user_id, username, method, name, target_id, outcome, known[text])


def read_notes(text: str) -> tuple[Note, ...]:
    """Return the notes in the rule code of a call; none of a text that the call pipeline did not write."""
    reason = Reason.read(text)
    entries = reason.params.get("trials") if reason is not None else None
    if not isinstance(entries, list):
        return ()
    return tuple(note for entry in entries[:MAX_NOTES] if (note := _read_note(entry)) is not None)


def _read_note(entry: Any) -> Note | None:
    match entry:
        case [str(kind), int(rule_id), str(real), str(tried)] if not isinstance(rule_id, bool):
            return Note(kind, rule_id, real, tried) if {real, tried} <= ANSWERS and real != tried else None
    return None
