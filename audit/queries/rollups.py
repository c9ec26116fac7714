"""Count the record as it grows, so that pages of numbers never count calls: the background half of `counts`.

A call is counted once, in the hour and the day in which it began, when it has ended. What the rollups hold is exact up
to a time about a minute ago (`RollupProgress.through`); calls that were still running then are remembered and counted
Any process may count: the one row that says how far it came decides who did, and cells and row change together.
"""

from __future__ import annotations

import json
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
from toolhub.parts import parts

OUTCOME, TOOL, USER, TOOK = "outcome", "tool", "user", "took"
HOUR, DAY = "h", "d"
LAG_MS = 60_000
"""How old a call is when it is counted: by then every writer has committed it, whatever its clock says."""
KEEP_DAYS = 35
SLICE = 2_000
MOST_OPEN = 5_000
"""Calls that run for longer than a minute and are remembered; beyond that, counting waits for them."""
RAN = frozenset({outcomes.OK, outcomes.TOOL_ERROR, outcomes.TIMEOUT})
"""Outcomes whose duration says how long a tool took."""
COLUMNS = ("pk", "method", "name", "target_id", "user_id", "outcome", "duration_us")
_STEP = math.log(1.1)
_EVERY = 50.0


def bucket(microseconds: int) -> str:
    """The key of a duration among the `took` cells: each is ten percent longer than the one before."""
    return str(int(math.log(max(1, microseconds)) / _STEP))


def duration_of(key: str) -> float:
    """The middle of a bucket, in microseconds."""
    return math.exp((int(key) + 0.5) * _STEP)


def cells(row: tuple[Any, ...]) -> Iterable[tuple[str, str]]:
    """What one call, as `COLUMNS`, is counted under: (what, key)."""
    _pk, method, name, target_id, user_id, outcome, took = row
    yield OUTCOME, outcome
    if method == "tools/call" and target_id is not None:
        # Names that no tool has are for the caller to choose: counting them would let anybody fill the table.
        yield TOOL, name
    if user_id is not None:
        yield USER, str(user_id)
    if took is not None and outcome in RAN:
        yield TOOK, bucket(took)


def began(pk: UUID) -> datetime:
    return timestamps.from_ms(pk.int >> 80)


def hour_of(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def day_of(moment: datetime) -> datetime:
    return hour_of(moment).replace(hour=0)


def catch_up(seconds: float = 20.0) -> bool:
    """Count what has ended since the last time, for at most so long. True when nothing is left to count."""
    deadline = time.monotonic() + seconds
    state = RollupProgress.objects.filter(pk=1).first() or _begin()
    first, limit = True, first_id_of(timestamps.now_ms() - LAG_MS)
    while True:
        if state.through >= limit:
            return True
        following = _step(state, limit, recheck=first)
        if following is None:
            return False  # another process counts
        state, first = following, False
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)  # the others in this process have a turn between two slices


def fresh() -> bool:
    """Whether somebody counted within the last two minutes or so."""
    through = RollupProgress.objects.filter(pk=1).values_list("through", flat=True).first()
    return through is not None and through >= first_id_of(timestamps.now_ms() - LAG_MS - int(_EVERY * 1000))


class RollupUpdate(BackgroundTask):
    """The update that a page asked for, in this process."""

    def __init__(self) -> None:
        super().__init__("audit-rollups", _count_for_a_page)


def update_if_stale() -> None:
    """Count in this thread what ended lately, unless some process did; forget what is older than is kept."""
    if not fresh():
        catch_up()
        _forget_old()


def hurry() -> None:
    """Count in the background, unless this process does already: somebody looks at numbers that are old."""
    parts.get(RollupUpdate).start()


def _count_for_a_page() -> None:
    catch_up(60.0)


def _begin() -> RollupProgress:
    start = first_id_of(timestamps.now_ms() - KEEP_DAYS * 86_400_000)
    return RollupProgress.objects.get_or_create(pk=1, defaults={"through": start, "open": "[]"})[0]


def _step(state: RollupProgress, limit: UUID, *, recheck: bool) -> RollupProgress | None:
    """One slice more; None when another process was quicker."""
    open_ids = [UUID(text) for text in json.loads(state.open)]
    still_open = open_ids
    rows: list[tuple[Any, ...]] = []
    if recheck and open_ids:
        found = {row[0]: row for row in _rows().filter(pk__in=open_ids)}
        still_open = [pk for pk in open_ids if pk in found and found[pk][5] == outcomes.RUNNING]
        rows += [row for row in found.values() if row[5] != outcomes.RUNNING]
    part = list(_rows().filter(pk__gte=state.through, pk__lt=limit).order_by("pk")[:SLICE])
    running = [row[0] for row in part if row[5] == outcomes.RUNNING]
    if len(still_open) + len(running) > MOST_OPEN:
        return None
    rows += [row for row in part if row[5] != outcomes.RUNNING]
    through = UUID(int=part[-1][0].int + 1) if len(part) == SLICE else limit
    kept = json.dumps([pk.hex for pk in (*still_open, *running)])
    with transaction.atomic():
        mine = RollupProgress.objects.filter(pk=1, through=state.through, open=state.open)
        if not mine.update(through=through, open=kept):
            return None
        _add(rows)
    return RollupProgress(pk=1, through=through, open=kept)


def _rows() -> Any:
    return Call.objects.order_by().values_list(*COLUMNS)


def _add(rows: list[tuple[Any, ...]]) -> None:
    calls: Counter[tuple[str, datetime, str, str]] = Counter()
    failed: Counter[tuple[str, datetime, str, str]] = Counter()
    recent = hour_of(timestamps.from_ms(timestamps.now_ms())) - timedelta(hours=48)
    for row in rows:
        moment = began(row[0])
        hour, day = hour_of(moment), day_of(moment)
        for what, key in cells(row):
            # There are many tools and people: their hours are kept for as long as a page asks for them.
            hourly = hour >= recent or what in {OUTCOME, TOOK}
            for span, at in ((DAY, day), (HOUR, hour)) if hourly else ((DAY, day),):
                calls[span, at, what, key] += 1
                failed[span, at, what, key] += row[5] != outcomes.OK
    if not calls:
        return
    moment_of = connection.ops.adapt_datetimefield_value
    table = Rollup._meta.db_table
    values = [
        (span, moment_of(at), what, key, number, failed[span, at, what, key])
        for (span, at, what, key), number in calls.items()
    ]
    with connection.cursor() as cursor:
        cursor.executemany(
            f"INSERT INTO {table} (span, at, what, key, calls, failed) VALUES (%s, %s, %s, %s, %s, %s)"  # noqa: S608
            f" ON CONFLICT (span, what, at, key) DO UPDATE SET"
            f" calls = {table}.calls + excluded.calls, failed = {table}.failed + excluded.failed",
            values,
        )


def _forget_old() -> None:
    now = timestamps.from_ms(timestamps.now_ms())
    Rollup.objects.filter(at__lt=day_of(now) - timedelta(days=KEEP_DAYS)).delete()
    Rollup.objects.filter(span=HOUR, what__in=(TOOL, USER), at__lt=hour_of(now) - timedelta(hours=49)).delete()
