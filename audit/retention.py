"""Removal of old bodies and old calls from the audit log, without the data that its verification needs.

A body (arguments, result) is replaced by `pruned:sha256:...`, the digest that the hash chain covers. A row is removed
completely; its links stay. Every run is logged as an admin change itself, and covered by a checkpoint, before the first
row is changed. The work is done in small transactions: the writer of new calls waits for one at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.cache import cache
from django.db import connection, transaction
from django.db.models import Q
from django.utils import timezone

from audit import outcomes
from audit.actions import actor, log
from audit.background import Pacer
from audit.bodies import whole
from audit.format.chain import PRUNED_PREFIX, body_digest
from audit.format.timestamps import to_ms
from audit.format.uuid7 import first_id_of
from audit.integrity import checkpoints
from audit.models import Call
from audit.queries import text_index

logger = logging.getLogger(__name__)

BATCH_CALLS = 500
MAX_PURGE_SECONDS = 20.0
"""Maximum seconds that a run rewrites the text index at its end."""
BODIES, ROWS = "bodies", "rows"
_ENDED = ~Q(outcome=outcomes.RUNNING)
_DAY_SECONDS = 86_400


@dataclass(slots=True)
class PruneCounts:
    """Numbers of bodies and rows that a run removed."""

    bodies: int = 0
    rows: int = 0


def count_due(before: datetime) -> dict[str, int]:
    """Return the numbers of rows and bodies that a run would remove, for a confirmation before the run."""
    old = Call.objects.filter(_ENDED, pk__lt=first_id_of(to_ms(before)))
    return {ROWS: old.count(), BODIES: old.filter(body_state="").count()}


def prune(before: datetime, what: str, step: Callable[[PruneCounts], None] | None = None) -> PruneCounts:
    """Remove the bodies, or the whole rows, of ended calls that started before that time.

    `what` is BODIES or ROWS; `step` is called with the numbers so far after each batch. Raise StoreUnavailable, with
    nothing removed, when no checkpoint can be signed. The job of the text index goes on with what is left there.
    """
    done = _prune(before, what, step)
    text_index.purge(MAX_PURGE_SECONDS, lambda: step(done) if step is not None else None)
    return done


def _prune(before: datetime, what: str, step: Callable[[PruneCounts], None] | None) -> PruneCounts:
    from audit.writing.stores.shared import SharedStore  # imports the drivers of both databases

    limit = first_id_of(to_ms(before))
    done = PruneCounts()
    old = Call.objects.filter(_ENDED, pk__lt=limit)
    if what == BODIES:
        old = old.filter(body_state="")
    if not old.exists():
        return done
    log.record(
        "pruned", "calls", f"{what} before {before:%Y-%m-%dT%H:%M:%S.%f%z}", None, {"what": what, "before": limit.hex}
    )
    # The removal is believed once a checkpoint covers its entry: sign it before anything is gone.
    checkpoints.sign_before(SharedStore())
    last: UUID | None = None
    while True:
        part = old if last is None else old.filter(pk__gt=last)
        if what == BODIES:
            rows = list(part.order_by("pk").values_list("pk", "arguments", "result")[:BATCH_CALLS])
            if not rows:
                return done
            last = rows[-1][0]
            bodies = {row[0]: row for row in rows}
            for part_keys in text_index.split(list(bodies)):
                done.bodies += _remove_bodies([bodies[key] for key in part_keys])
        else:
            keys = list(part.order_by("pk").values_list("pk", flat=True)[:BATCH_CALLS])
            if not keys:
                return done
            last = keys[-1]
            for part_keys in text_index.split(keys):
                with transaction.atomic():
                    text_index.lock()  # triggers remove the searchable text
                    text_index.mark_removal()
                    done.rows += Call.objects.filter(pk__in=part_keys)._raw_delete(using=connection.alias)
                    whole.remove(part_keys)
        if step is not None:
            step(done)


def _remove_bodies(rows: list[tuple[UUID, str, str]]) -> int:
    key = Call._meta.pk
    values = [
        (_digest(arguments), _digest(result), key.get_db_prep_value(pk, connection)) for pk, arguments, result in rows
    ]
    # One executemany for the whole batch keeps the transaction open for a few milliseconds only.
    with transaction.atomic(), connection.cursor() as cursor:
        text_index.lock()  # triggers remove the searchable text
        text_index.mark_removal()
        cursor.executemany(
            "UPDATE audit_call SET arguments = %s, result = %s, body_state = 'pruned'"
            " WHERE id = %s AND body_state = ''",
            values,
        )
        keys = [pk for pk, _arguments, _result in rows]
        text_index.index_remains(keys)
        whole.remove(keys)
    return len(values)


def _digest(text: str) -> str:
    return text if text.startswith(PRUNED_PREFIX) else f"{PRUNED_PREFIX}{body_digest(text)}"


def apply_if_due() -> None:
    """Apply the retention settings in this thread: once a day, in one of all processes, and only when they are set."""
    if not settings.KEEP_BODIES_DAYS and not settings.KEEP_CALLS_DAYS:
        return
    if not cache.add("audit:retention", 1, timeout=_DAY_SECONDS):
        return
    try:
        with actor.override("retention"):
            done = apply_settings()
    except BaseException:
        cache.delete("audit:retention")
        raise
    if done != PruneCounts():
        logger.info("retention removed %d bodies and %d calls", done.bodies, done.rows)


def apply_settings(now: datetime | None = None) -> PruneCounts:
    """Remove bodies and rows as the settings require, at `now`, with pauses while the process serves calls."""
    done = PruneCounts()
    now = now or timezone.now()
    pacer = Pacer()
    wanted: tuple[tuple[int, str], ...] = ((settings.KEEP_BODIES_DAYS, BODIES), (settings.KEEP_CALLS_DAYS, ROWS))
    for days, what in wanted:
        if days:
            part = prune(now - timedelta(days=days), what, lambda _: pacer.pause())
            done.bodies, done.rows = done.bodies + part.bodies, done.rows + part.rows
    return done


def parse_age(text: str) -> timedelta:
    """Parse `90d`, `12w` or a plain number of days.

    Raise ValueError for any other text and for more than 36,500 days.
    """
    number, factor = (text[:-1], {"d": 1, "w": 7}[text[-1]]) if text[-1:] in {"d", "w"} else (text, 1)
    if not number.isdecimal() or int(number) * factor > 36_500:
        raise ValueError("say how old as in 90d or 12w")
    return timedelta(days=int(number) * factor)


__all__: Any = ["BODIES", "ROWS", "PruneCounts", "apply_if_due", "apply_settings", "count_due", "parse_age", "prune"]
