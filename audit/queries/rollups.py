"""Rollups of the growing audit log, so that pages with statistics never count calls: the source of `statistics`.

A call is counted once, in the hour and the day in which it started, after it has ended. The rollups are exact up to a
time about a minute ago (`RollupProgress.through`); calls that were still running then are remembered and counted after
they end. Any process may count: the row with the progress decides which one did, and cells and that row are updated in
one transaction.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from audit import outcomes
from audit.background import BackgroundTask
from audit.format import timestamps
from audit.format.uuid7 import first_id_of
from audit.models import Call, Rollup, RollupProgress
from audit.queries import progress
from toolhub.parts import parts

OUTCOME, TOOL, USER, TOOK = "outcome", "tool", "user", "took"
HOUR, DAY = "h", "d"
KEEP_DAYS = 35
SLICE_CALLS = 2_000
EXECUTED = frozenset({outcomes.OK, outcomes.TOOL_ERROR, outcomes.TIMEOUT})
"""Outcomes whose duration is that of the tool."""
COLUMNS = ("pk", "method", "name", "target_id", "user_id", "outcome", "duration_us")
_LOG_STEP = math.log(1.1)
_INTERVAL_SECONDS = 50.0


def bucket(microseconds: int) -> str:
    """Return the key of a duration among the `took` cells: each bucket is ten percent longer than the previous one."""
    return str(int(math.log(max(1, microseconds)) / _LOG_STEP))


def duration_of(key: str) -> float:
    """Return the middle of a bucket, in microseconds."""
    return math.exp((int(key) + 0.5) * _LOG_STEP)


def cells(row: tuple[Any, ...]) -> Iterable[tuple[str, str]]:
    """Yield the cells (what, key) in which one call, a row of `COLUMNS`, is counted."""
    _pk, method, name, target_id, user_id, outcome, took = row
    yield OUTCOME, outcome
    if method == "tools/call" and target_id is not None:
        # The caller chooses the names of unknown tools: counting them would let any client fill the table.
        yield TOOL, name
    if user_id is not None:
        yield USER, str(user_id)
    if took is not None and outcome in EXECUTED:
        yield TOOK, bucket(took)


def start_of(pk: UUID) -> datetime:
    return timestamps.from_ms(pk.int >> 80)


def hour_of(start: datetime) -> datetime:
    return start.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def day_of(start: datetime) -> datetime:
    return hour_of(start).replace(hour=0)


def catch_up(seconds: float = 20.0) -> bool:
    """Count the calls that ended since the last update, for at most `seconds`. Return True when all are counted."""
    deadline = time.monotonic() + seconds
    state = RollupProgress.objects.filter(pk=1).first() or _create_progress()
    first, limit = True, progress.limit()
    while True:
        if state.through >= limit:
            return True
        following = _count_slice(state, limit, recheck=first)
        if following is None:
            return False  # another process counts
        state, first = following, False
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)  # let other threads of this process run between two slices


def is_fresh() -> bool:
    """Return whether some process counted within about the last two minutes."""
    through = RollupProgress.objects.filter(pk=1).values_list("through", flat=True).first()
    return through is not None and through >= first_id_of(
        timestamps.now_ms() - progress.LAG_MS - int(_INTERVAL_SECONDS * 1000)
    )


class RollupUpdate(BackgroundTask):
    """The task in this process for an update that a page requested."""

    def __init__(self) -> None:
        super().__init__("audit-rollups", _run_requested_update)


def update_if_stale() -> None:
    """Count the recently ended calls in this thread unless some process did, and delete expired rollups."""
    if not is_fresh():
        catch_up()
        _delete_expired()


def start_update() -> None:
    """Count in the background, unless this process already does: a page shows outdated numbers."""
    parts.get(RollupUpdate).start()


def _run_requested_update() -> None:
    catch_up(60.0)


def _create_progress() -> RollupProgress:
    start = first_id_of(timestamps.now_ms() - KEEP_DAYS * 86_400_000)
    return RollupProgress.objects.get_or_create(pk=1, defaults={"through": start, "open": "[]"})[0]


def _count_slice(state: RollupProgress, limit: UUID, *, recheck: bool) -> RollupProgress | None:
    """Count one more slice and return the new progress.

    Return None when another process was faster, or when too many calls are still running.
    """
    part = progress.read_slice(state, limit, SLICE_CALLS, recheck=recheck)
    if part is None:
        return None
    rows = list(Call.objects.filter(pk__in=part.ids).order_by().values_list(*COLUMNS))
    with transaction.atomic():
        if not progress.advance(state, part.following):
            return None
        _add_counts(rows)
    return part.following


def _add_counts(rows: list[tuple[Any, ...]]) -> None:
    calls: Counter[tuple[str, datetime, str, str]] = Counter()
    failed: Counter[tuple[str, datetime, str, str]] = Counter()
    recent = hour_of(timestamps.from_ms(timestamps.now_ms())) - timedelta(hours=48)
    for row in rows:
        start = start_of(row[0])
        hour, day = hour_of(start), day_of(start)
        for what, key in cells(row):
            # There are many tools and users: their hours are kept only as long as a page needs them.
            hourly = hour >= recent or what in {OUTCOME, TOOK}
            for span, at in ((DAY, day), (HOUR, hour)) if hourly else ((DAY, day),):
                calls[span, at, what, key] += 1
                failed[span, at, what, key] += row[5] not in outcomes.NOT_FAILED
    if not calls:
        return
    adapt_time = connection.ops.adapt_datetimefield_value
    table = Rollup._meta.db_table
    values = [
        (span, adapt_time(at), what, key, number, failed[span, at, what, key])
        for (span, at, what, key), number in calls.items()
    ]
    with connection.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO {table} (span, at, what, key, calls, failed) VALUES (%s, %s, %s, %s, %s, %s)"  # noqa: S608
            f" ON CONFLICT (span, what, at, key) DO UPDATE SET"
            f" calls = {table}.calls + excluded.calls, failed = {table}.failed + excluded.failed",
            values,
        )


def _delete_expired() -> None:
    now = timestamps.from_ms(timestamps.now_ms())
    Rollup.objects.filter(at__lt=day_of(now) - timedelta(days=KEEP_DAYS)).delete()
    Rollup.objects.filter(span=HOUR, what__in=(TOOL, USER), at__lt=hour_of(now) - timedelta(hours=49)).delete()
