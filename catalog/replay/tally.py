"""The counts of a replay while it goes on, in bounded memory: totals, and rows by person and item."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from audit.format import timestamps
from catalog.policy.answers import UNCLEAR
from catalog.policy.definitions import ResourceDefinition
from catalog.replay.attempts import LoggedCall
from catalog.replay.report import MAX_CALLS, MAX_ROW_CALLS, MAX_ROWS, Changed, ChangedCall, Report, Row
from catalog.replay.simulation import UNREADABLE, Kinds, Pair

MAX_GROUPS: Final = 10_000
"""Pairs of person and item that are counted apart."""


@dataclass(slots=True)
class _Group:
    pair: Pair
    username: str = ""
    changes: Counter[Kinds] = field(default_factory=Counter)
    newest: deque[tuple[UUID, str, str, str]] = field(default_factory=lambda: deque(maxlen=MAX_ROW_CALLS))
    """Id, both answers, status."""


class Tally:
    """What was found so far."""

    def __init__(self) -> None:
        self.compared = 0
        self.unclear = 0
        self.unreadable = 0
        self.not_shown = 0
        self._changes: Counter[Kinds] = Counter()
        self._groups: dict[tuple[int, str, int], _Group] = {}
        self._is_cut = False

    def add(self, call: LoggedCall, pair: Pair, kinds: Kinds | None) -> None:
        """Count a call with its answers; None for one whose answer stays."""
        self.compared += 1
        if kinds is None:
            return
        if UNREADABLE in kinds:
            self.unreadable += 1
        elif UNCLEAR in kinds:
            self.unclear += 1
        elif kinds[0] != kinds[1]:
            self._add_changed(call, pair, kinds)

    def _add_changed(self, call: LoggedCall, pair: Pair, kinds: Kinds) -> None:
        self._changes[kinds] += 1
        if not pair.is_readable:
            self.not_shown += 1
            return
        key = (pair.user_id, pair.item.kind, pair.item.id)
        group = self._groups.get(key)
        if group is None:
            if len(self._groups) >= MAX_GROUPS:
                self._is_cut = True
                return
            group = self._groups[key] = _Group(pair)
        group.username = call.username
        group.changes[kinds] += 1
        group.newest.append((call.id, *kinds, call.outcome))

    def report(
        self,
        days: int,
        since: datetime,
        until: datetime,
        looked_at: int,
        *,
        counts_limits: bool,
        counts_first_times: bool,
    ) -> Report:
        """Return what was found in the period."""
        ranked = sorted(self._groups.values(), key=_rank)
        shown = ranked[:MAX_ROWS]
        most = min(MAX_ROW_CALLS, max(1, MAX_CALLS // max(1, len(shown))))
        return Report(
            days=days,
            since=since,
            until=until,
            looked_at=looked_at,
            compared=self.compared,
            changed=_list(self._changes),
            unclear=self.unclear,
            unreadable=self.unreadable,
            rows=tuple(_row(group, most) for group in shown),
            more_rows=len(ranked) - len(shown) + self._is_cut,
            rows_are_cut=self._is_cut,
            not_shown=self.not_shown,
            counts_limits=counts_limits,
            counts_first_times=counts_first_times,
        )


def _rank(group: _Group) -> tuple[int, str, str]:
    return (-group.changes.total(), group.username, _name(group.pair))


def _name(pair: Pair) -> str:
    item = pair.item
    return item.uri if isinstance(item, ResourceDefinition) else item.name


def _list(changes: Counter[Kinds]) -> tuple[Changed, ...]:
    ranked = sorted(changes.items(), key=lambda one: (-one[1], one[0]))
    return tuple(Changed(before, after, calls) for (before, after), calls in ranked)


def _row(group: _Group, most: int) -> Row:
    named = list(reversed(group.newest))[:most]
    calls = [
        ChangedCall(number, timestamps.from_ms(number.int >> 80), before, after, status)
        for number, before, after, status in named
    ]
    item = group.pair.item
    return Row(
        user_id=group.pair.user_id,
        username=group.username,
        kind=item.kind,
        item_id=item.id,
        name=_name(group.pair),
        changes=_list(group.changes),
        named=tuple(calls),
    )
