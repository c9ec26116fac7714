"""Progress of work that handles each call once after it has ended: rollups, and the text index.

Such work is complete up to a time about a minute ago (`through`); calls that were still running then are remembered and
handled after they end. Any process may work: the row with the progress decides which one did.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Generic, TypeVar
from uuid import UUID

from audit import outcomes
from audit.format import timestamps
from audit.format.uuid7 import first_id_of
from audit.models import Call, RollupProgress, TextProgress

LAG_MS = 60_000
"""Minimum age of a call when it is handled: by then every writer has committed it, whatever its clock says."""
MAX_OPEN_CALLS = 5_000
"""Maximum remembered calls that run for longer than a minute; beyond that, the work waits for them."""
P = TypeVar("P", RollupProgress, TextProgress)


@dataclass(frozen=True, slots=True)
class Slice(Generic[P]):
    """The next calls to handle, and the progress once they are."""

    ids: list[UUID]
    following: P


def limit(lag_ms: int = LAG_MS) -> UUID:
    """Return the id below which calls may be handled now: those of this age."""
    return first_id_of(timestamps.now_ms() - lag_ms)


def open_ids(state: RollupProgress | TextProgress) -> list[UUID]:
    return [UUID(text) for text in json.loads(state.open)]


def read_slice(state: P, below: UUID, size: int, *, recheck: bool) -> Slice[P] | None:
    """Return the next ended calls, at most `size` besides those that were running; None when too many still run.

    With `recheck`, the calls that were running before are read again.
    """
    still_open = open_ids(state)
    ended: list[UUID] = []
    rows = Call.objects.order_by().values_list("pk", "outcome")
    if recheck and still_open:
        found = dict(rows.filter(pk__in=still_open))
        ended = [pk for pk, outcome in found.items() if outcome != outcomes.RUNNING]
        still_open = [pk for pk in still_open if found.get(pk) == outcomes.RUNNING]
    part = list(rows.filter(pk__gte=state.through, pk__lt=below).order_by("pk")[:size])
    still_open += [pk for pk, outcome in part if outcome == outcomes.RUNNING]
    if len(still_open) > MAX_OPEN_CALLS:
        return None
    ended += [pk for pk, outcome in part if outcome != outcomes.RUNNING]
    through = UUID(int=part[-1][0].int + 1) if len(part) == size else below
    following = type(state)(pk=state.pk, through=through, open=json.dumps([pk.hex for pk in still_open]))
    return Slice(ended, following)


def advance(state: P, following: P) -> bool:
    """Store the new progress. Return False when another process was faster: then nothing may be handled."""
    unchanged = type(state)._default_manager.filter(pk=state.pk, through=state.through, open=state.open)
    return bool(unchanged.update(through=following.through, open=following.open))
