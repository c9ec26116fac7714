"""Queries of pages that show calls live, about once a second: few rows, read along one index."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from audit import outcomes
from audit.models import Call
from audit.queries.search import id_at

NEWEST = 50
"""Maximum calls of one user in one query; older ones appear only in the list of calls."""
RUNNING = 100


@dataclass(frozen=True, slots=True)
class Seen:
    """The values of a call that show a change of its state in a list."""

    id: UUID
    user_id: int | None
    outcome: str
    name: str


FIELDS = ("id", "user_id", "outcome", "name")


def since(user_id: int, moment: datetime, known: Iterable[UUID] = ()) -> list[Seen]:
    """Return the newest calls of a user that started after `moment`, and the calls in `known`, oldest first."""
    rows = Call.objects.filter(user_id=user_id, pk__gt=id_at(moment)).order_by("-pk").values_list(*FIELDS)
    found = [Seen(*row) for row in rows[:NEWEST]]
    missing = set(known) - {seen.id for seen in found}
    return sorted([*found, *these(missing)], key=lambda seen: seen.id)


def running(user_id: int) -> list[Seen]:
    """Return the newest running calls of a user."""
    rows = Call.objects.filter(user_id=user_id, outcome=outcomes.RUNNING).order_by("-pk").values_list(*FIELDS)
    return [Seen(*row) for row in rows[:RUNNING]]


def these(ids: Iterable[UUID]) -> list[Seen]:
    """Return the existing calls with these ids."""
    wanted = list(ids)
    if not wanted:
        return []
    return [Seen(*row) for row in Call.objects.filter(pk__in=wanted).values_list(*FIELDS)]
