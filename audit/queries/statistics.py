"""Statistics for pages: calls by status over time, durations, the busiest tools and users, from the rollups.

Calls that the rollups do not hold yet (the newest calls, and those that ran long) are counted at once when they are
few. When they are many, the report has the time until which it is complete, and they are counted in the background.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Sum

from audit import outcomes
from audit.format import timestamps
from audit.models import Call, Rollup, RollupProgress
from audit.queries import rollups


@contextmanager
def repeatable_read() -> Iterator[None]:
    """Run several reads in one repeatable-read transaction, whatever is committed meanwhile.

    For reading only; it blocks no other transaction. Inside an open transaction, that transaction's isolation applies.
    """
    if connection.in_atomic_block:
        yield
    elif connection.vendor == "sqlite":
        # A normal transaction would begin with the write lock. This one gets its snapshot with its first query.
        sqlite: Any = connection
        usual, sqlite.transaction_mode = sqlite.transaction_mode, "DEFERRED"
        try:
            with transaction.atomic():
                sqlite.transaction_mode = usual
                yield
        finally:
            sqlite.transaction_mode = usual
    else:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield


PERIODS = {"24h": timedelta(hours=24), "7d": timedelta(days=7), "30d": timedelta(days=30)}
MAX_TAIL_CALLS = 2_000
"""Maximum calls that are counted while a page is rendered."""
MAX_RANKED = 8


@dataclass(slots=True)
class Slot:
    """One bar of a chart."""

    start: datetime
    end: datetime
    outcomes: Counter[str] = field(default_factory=Counter)
    took: Counter[str] = field(default_factory=Counter)

    @property
    def p95(self) -> float | None:
        return percentile(self.took)


@dataclass(slots=True)
class Report:
    """Statistics of the calls between `start` and `counted_until`."""

    start: datetime
    counted_until: datetime
    """Calls that started later are not included."""
    live: bool
    """Whether `counted_until` is the current time."""
    slots: list[Slot]
    tools: list[tuple[str, int, int]]
    """Name, number of calls, and number of those that failed; the busiest first."""
    users: list[tuple[int, int, int]]
    """The same by the id of the user."""

    @property
    def outcomes(self) -> Counter[str]:
        return sum((slot.outcomes for slot in self.slots), Counter())

    @property
    def calls(self) -> int:
        return self.outcomes.total()

    @property
    def p95(self) -> float | None:
        return percentile(sum((slot.took for slot in self.slots), Counter()))


def percentile(took: Counter[str], share: float = 0.95) -> float | None:
    """Return the percentile of the durations, in microseconds and within five percent; None without durations."""
    remaining = took.total() * share
    for key in sorted(took, key=int):
        remaining -= took[key]
        if remaining <= 1e-9:
            return rollups.duration_of(key)
    return None


def slots_of(period: str, now: datetime) -> list[Slot]:
    """Return the slots of a period: 24 hours, 7 days in quarters, or 30 days; the last slot contains `now`."""
    if period == "24h":
        start, step, number = rollups.hour_of(now) - timedelta(hours=23), timedelta(hours=1), 24
    elif period == "7d":
        start, step, number = rollups.day_of(now) - timedelta(days=6), timedelta(hours=6), 28
    else:
        start, step, number = rollups.day_of(now) - timedelta(days=29), timedelta(days=1), 30
    return [Slot(start + step * index, start + step * (index + 1)) for index in range(number)]


def report(period: str, now: datetime | None = None) -> Report:
    """Return the statistics of a period of `PERIODS`, with seven queries whatever the size of the audit log."""
    # Calls move from the tail into the rollups: without one snapshot, a call could be in both or in neither.
    with repeatable_read():
        return _report(period, now)


def _report(period: str, now: datetime | None) -> Report:
    now = now or timestamps.from_ms(timestamps.now_ms())
    slots = slots_of(period, now)
    start, step = slots[0].start, slots[0].end - slots[0].start
    fine, coarse = (
        (rollups.DAY if period == "30d" else rollups.HOUR),
        (rollups.HOUR if period == "24h" else rollups.DAY),
    )
    cells = Rollup.objects.filter(span=fine, at__gte=start, what__in=(rollups.OUTCOME, rollups.TOOK))
    for what, at, key, calls in cells.order_by().values_list("what", "at", "key", "calls"):
        if (index := (at - start) // step) < len(slots):
            slot = slots[index]
            (slot.outcomes if what == rollups.OUTCOME else slot.took)[key] += calls
    rows, counted, live = _read_tail(now)
    extra: dict[str, Counter[str]] = defaultdict(Counter)
    failed: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        began = rollups.start_of(row[0])
        index = (began - start) // step
        if not 0 <= index < len(slots):
            continue
        for what, key in rollups.cells(row):
            if what == rollups.OUTCOME:
                slots[index].outcomes[key] += 1
            elif what == rollups.TOOK:
                slots[index].took[key] += 1
            else:
                extra[what][key] += 1
                failed[what][key] += row[5] not in outcomes.NOT_FAILED
    tools, users = (
        _rank_busiest(coarse, what, start, extra[what], failed[what]) for what in (rollups.TOOL, rollups.USER)
    )
    return Report(start, counted, live, slots, tools, [(int(key), calls, bad) for key, calls, bad in users])


def find_called_tools(start: datetime) -> tuple[set[str], datetime, bool]:
    """Return the tools that were called since that day, the time until which they are complete, and if that is now."""
    with repeatable_read():
        days = Rollup.objects.filter(span=rollups.DAY, what=rollups.TOOL, at__gte=rollups.day_of(start))
        # The names alone, without their numbers: the index has them.
        found = set(days.order_by().values_list("key", flat=True).distinct())
        rows, counted, live = _read_tail(timestamps.from_ms(timestamps.now_ms()))
    found.update(key for row in rows for what, key in rollups.cells(row) if what == rollups.TOOL)
    return found, counted, live


def _read_tail(now: datetime) -> tuple[list[tuple[Any, ...]], datetime, bool]:
    """Return the calls that no rollup holds, the time until which the statistics are complete, and whether it is now.

    When the newest of these calls are too many, they are omitted and counted in the background.
    """
    state = RollupProgress.objects.filter(pk=1).first()
    rows = Call.objects.order_by("-pk").values_list(*rollups.COLUMNS)
    if state is not None:
        rows = rows.filter(pk__gte=state.through)
    newest = list(rows[: MAX_TAIL_CALLS + 1])
    open_ids = [UUID(text) for text in json.loads(state.open)] if state is not None else []
    older = (
        list(Call.objects.filter(pk__in=open_ids[:MAX_TAIL_CALLS]).order_by().values_list(*rollups.COLUMNS))
        if open_ids
        else []
    )
    if len(newest) <= MAX_TAIL_CALLS:
        return [*newest, *older], now, True
    rollups.start_update()
    through = rollups.start_of(state.through) if state is not None else now - timedelta(days=rollups.KEEP_DAYS)
    return older, through, False


def _rank_busiest(
    span: str, what: str, start: datetime, extra: Counter[str], failed: Counter[str]
) -> list[tuple[str, int, int]]:
    cells = Rollup.objects.filter(span=span, what=what, at__gte=start)
    total: dict[str, tuple[int, int]] = {key: (calls, bad) for key, calls, bad in _sum_cells(cells)[:MAX_RANKED]}
    # A recently busy user or tool may be among the busiest only together with the counts in the rollups.
    others = [key for key, _ in extra.most_common(100) if key not in total]
    if others:
        total |= {key: (calls, bad) for key, calls, bad in _sum_cells(cells.filter(key__in=others))}
    for key in extra:
        calls, bad = total.get(key, (0, 0))
        if key in total or key in others:
            total[key] = calls + extra[key], bad + failed[key]
    ranked = sorted(total.items(), key=lambda one: (-one[1][0], one[0]))[:MAX_RANKED]
    return [(key, calls, bad) for key, (calls, bad) in ranked]


def _sum_cells(cells: Any) -> Any:
    """Return rows of (key, calls, failed), the most called first."""
    grouped = cells.order_by().values("key").annotate(calls_=Sum("calls"), failed_=Sum("failed"))
    return grouped.order_by("-calls_", "key").values_list("key", "calls_", "failed_")
