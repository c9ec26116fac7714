"""Quotas: what was used in each period of a calendar, counted in the database so that it outlasts restarts.

`LimitUsage` has a row for each counter and period. A transaction locks the rows of its calls, decides about one call
after the other, and writes what is used then: whatever several calls do at the same time, in one process or in several,
no quota is exceeded. Many calls share one transaction (see `quota_writer`), because its end waits for the disk. A call
takes before it runs. That of a process which is killed in between stays counted, because nobody knows whether it ran.

All functions are synchronous and meant for a thread that may use the database. They wait for the database alone: the
audit log, which has a connection of its own, never waits for one of these transactions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from django.db import transaction
from django.db.models import QuerySet

from catalog.conditions import periods
from catalog.conditions.periods import Period, Quota
from catalog.models import LimitUsage
from catalog.models.limit_usage import name_counter
from catalog.policy.definitions import LimitRule

KEPT: Final = timedelta(days=62)
"""How long a period is kept after its end, so that the one before the current one can be read."""
MAX_REMOVED: Final = 1_000
"""Rows that one statement removes: SQLite has one writer, and calls wait for it."""

MAX_UPDATED: Final = 100
"""Rows that one statement changes."""
Key: TypeAlias = tuple[int, str, datetime]
"""The limit, the name of the counter and the start of the period, in UTC."""


@dataclass(frozen=True, slots=True)
class Charge:
    """Units that a call takes from one quota."""

    rule: LimitRule
    """Its `quota` is not None."""
    subject: str
    """Who shares the counter: "user 5", "group 3" or "everyone"."""
    units: int
    """1 for calls, cost units for cost. What takes 0 passes while anything is left: its result may cost."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What is used of one quota."""

    rule: LimitRule
    used: int
    """In the period that holds the time, with what was taken."""
    ends: datetime
    """The end of that period, in UTC."""


class QuotaReached(Exception):
    """An error: a quota has less left than a call takes. Of several, the one that ends last."""

    def __init__(self, usage: Usage, units: int) -> None:
        super().__init__(f"{usage.rule.rule}: {usage.used} used, {units} more would exceed it")
        self.usage, self.units = usage, units


@dataclass(frozen=True, slots=True)
class Order:
    """What one call takes from its quotas: all of the charges or none."""

    charges: tuple[Charge, ...]
    at: datetime
    """The time that decides about the periods."""
    can_refuse: bool = True
    """False: count also beyond a quota, but never below 0, as for the cost of a result or for what is given back."""


@dataclass(frozen=True, slots=True)
class _Counter:
    """The row of one charge."""

    charge: Charge
    quota: Quota
    period: Period
    name: str

    @property
    def key(self) -> Key:
        return self.charge.rule.id, self.name, self.period.starts

    def make_row(self) -> LimitUsage:
        limit_id, name, starts = self.key
        return LimitUsage(limit_id=limit_id, counter=name, starts=starts, ends=self.period.ends)

    def usage(self, used: int) -> Usage:
        return Usage(self.charge.rule, used, self.period.ends)


def take(charges: Sequence[Charge], at: datetime) -> list[Usage]:
    """Count all of the charges or none; return what is then used, in their order.

    The charge of a limit that was deleted meanwhile counts in a row that goes with its period. Raises QuotaReached, and
    DatabaseError when the database does not answer.
    """
    (answer,) = settle([Order(tuple(charges), at)])
    if isinstance(answer, QuotaReached):
        raise answer
    return answer


def add(charges: Sequence[Charge], at: datetime) -> None:
    """Count without refusing, as for the cost of a result; negative units give back, but never below 0.

    `at` is the time that `take` was given, so that the same period is changed. Raises DatabaseError.
    """
    settle([Order(tuple(charges), at, can_refuse=False)])


def settle(orders: Sequence[Order]) -> list[list[Usage] | QuotaReached]:
    """Decide about all orders, one after the other, in one transaction; return the answers in their order.

    An answer is what is used after it, or the error. Raises DatabaseError; then nothing was counted.
    """
    found = [_find_counters(order.charges, order.at) for order in orders]
    counters = {counter.key: counter for of_order in found for counter in of_order}
    # What is given back to a counter without a row was never taken.
    needed = {
        counter.key: counter
        for order, of_order in zip(orders, found, strict=True)
        for counter in of_order
        if order.can_refuse or counter.charge.units > 0
    }
    while True:
        with transaction.atomic():
            rows = _lock(counters)
            missing = [counter for key, counter in sorted(needed.items()) if key not in rows]
            if not missing:
                before = {key: row.used for key, row in rows.items()}
                answers = [_settle(order, of_order, rows) for order, of_order in zip(orders, found, strict=True)]
                _write([row for key, row in rows.items() if row.used != before[key]])
                return answers
        # Rows are made in a transaction of their own: in this one, two processes could wait for each other's.
        _make_rows(missing)


def _settle(order: Order, counters: Sequence[_Counter], rows: Mapping[Key, LimitUsage]) -> list[Usage] | QuotaReached:
    present = [(counter, rows[counter.key]) for counter in counters if counter.key in rows]
    if order.can_refuse:
        reached = [
            (counter, row) for counter, row in present if not counter.quota.admits(row.used, counter.charge.units)
        ]
        if reached:
            last, row = max(reached, key=lambda pair: pair[0].period.ends)
            return QuotaReached(last.usage(row.used), last.charge.units)
    for counter, row in present:
        row.used = max(0, row.used + counter.charge.units)
    return [counter.usage(rows[counter.key].used if counter.key in rows else 0) for counter in counters]


def _lock(keys: Collection[Key]) -> dict[Key, LimitUsage]:
    """Return the rows of these counters, locked until the end of the transaction.

    Always in the same order, so that nobody waits in a circle. SQLite has locked everything at the beginning.
    """
    rows = _select(keys).select_for_update().order_by("limit_id", "counter", "starts")
    found = {(row.limit_id, row.counter, row.starts.astimezone(UTC)): row for row in rows}
    return {key: row for key, row in found.items() if key in keys}


def _write(rows: Sequence[LimitUsage]) -> None:
    if len(rows) == 1:
        LimitUsage.objects.filter(pk=rows[0].pk).update(used=rows[0].used)
    elif rows:
        LimitUsage.objects.bulk_update(rows, ["used"], batch_size=MAX_UPDATED)


def _make_rows(counters: Sequence[_Counter]) -> None:
    """Make the rows of these counters, unless somebody else has made them meanwhile."""
    LimitUsage.objects.bulk_create([counter.make_row() for counter in counters], ignore_conflicts=True)


def find(charges: Sequence[Charge], at: datetime) -> list[Usage]:
    """Return what is used of each quota, in the order of the charges, by one query. Raises DatabaseError."""
    counters = _find_counters(charges, at)
    used = _read(counters)
    return [counter.usage(used.get(counter.key, 0)) for counter in counters]


def remove_past(at: datetime) -> int:
    """Remove the periods that ended more than 62 days before `at`, and return how many there were."""
    removed = 0
    past = LimitUsage.objects.filter(ends__lt=at - KEPT)
    while ids := list(past.values_list("id", flat=True)[:MAX_REMOVED]):
        removed += LimitUsage.objects.filter(id__in=ids).delete()[0]
    return removed


def _find_counters(charges: Sequence[Charge], at: datetime) -> list[_Counter]:
    found = []
    for charge in charges:
        rule, quota = charge.rule, charge.rule.quota
        if quota is None:
            raise ValueError(f"{rule.rule} is no quota")
        period = periods.find(quota.period, rule.zone, at)
        found.append(_Counter(charge, quota, period, name_counter(rule.measure, quota.period, charge.subject)))
    return found


def _read(counters: Sequence[_Counter]) -> dict[Key, int]:
    """Return what is used of each counter that has a row."""
    rows = _select([counter.key for counter in counters])
    found = rows.values_list("limit_id", "counter", "starts", "used")
    return {(limit_id, name, starts.astimezone(UTC)): used for limit_id, name, starts, used in found}


def _select(keys: Collection[Key]) -> QuerySet[LimitUsage]:
    """Return the rows of these counters, and perhaps some that differ from them in one part of the key."""
    limit_ids, names, starts = (set(part) for part in zip(*keys, strict=True)) if keys else (set(), set(), set())
    return LimitUsage.objects.filter(limit_id__in=limit_ids, counter__in=names, starts__in=starts)
