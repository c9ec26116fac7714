"""Queries of pages that show calls live, about once a second: few rows, read along one index."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import OuterRef, Subquery

from audit import outcomes
from audit.format.chain import LAST_ACTION_CHAIN, SEQUENCE_BITS
from audit.models import Call, Link, Writer
from audit.queries.search import id_at

MAX_NEWEST_CALLS = 50
"""Maximum calls of one user in one query; older ones appear only in the list of calls."""
MAX_RUNNING_CALLS = 100
MAX_ROW_DELAY = timedelta(seconds=10)
"""How late a row may become visible: clocks of workers differ, and a row's time is older than its commit."""
MAX_WRITERS = 1_000
"""Maximum running processes whose entries are looked up."""


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


def read_position() -> dict[int, int]:
    """Return the newest hash chain entry of each process that logs calls.

    Each call adds an entry when it begins and one when it ends, so a difference means that any call did. The cost is
    one look-up in an index for each process, however many calls there are.
    """
    start, end = OuterRef("pk") * 2**SEQUENCE_BITS, (OuterRef("pk") + 1) * 2**SEQUENCE_BITS
    newest = Link.objects.filter(pk__gte=start, pk__lt=end).order_by("-pk").values("pk")[:1]
    writers = Writer.objects.filter(ended=None, pk__gt=LAST_ACTION_CHAIN).order_by("-pk")[:MAX_WRITERS]
    return dict(writers.annotate(newest=Subquery(newest)).values_list("pk", "newest"))
