"""Queries of pages that show calls live, about once a second: few rows, read along one index."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from audit import outcomes
from audit.models import Call
from audit.queries.search import id_at

MAX_NEWEST_CALLS = 50
"""Maximum calls of one user in one query; older ones appear only in the list of calls."""
MAX_RUNNING_CALLS = 100


@dataclass(frozen=True, slots=True)
class CallState:
    """The values of a call that show a change of its state in a list."""

    id: UUID
    user_id: int | None
    outcome: str
    name: str


FIELDS = ("id", "user_id", "outcome", "name")


def list_since(user_id: int, start: datetime, known: Iterable[UUID] = ()) -> list[CallState]:
    """Return the newest calls of a user that started after `start`, and the calls in `known`, oldest first."""
    rows = Call.objects.filter(user_id=user_id, pk__gt=id_at(start)).order_by("-pk").values_list(*FIELDS)
    found = [CallState(*row) for row in rows[:MAX_NEWEST_CALLS]]
    missing = set(known) - {state.id for state in found}
    return sorted([*found, *list_by_ids(missing)], key=lambda state: state.id)


def list_running(user_id: int) -> list[CallState]:
    """Return the newest running calls of a user."""
    rows = Call.objects.filter(user_id=user_id, outcome=outcomes.RUNNING).order_by("-pk").values_list(*FIELDS)
    return [CallState(*row) for row in rows[:MAX_RUNNING_CALLS]]


def list_by_ids(ids: Iterable[UUID]) -> list[CallState]:
    """Return the existing calls with these ids."""
    wanted = list(ids)
    if not wanted:
        return []
    return [CallState(*row) for row in Call.objects.filter(pk__in=wanted).values_list(*FIELDS)]
