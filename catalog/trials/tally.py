"""What rules in trial would have changed, counted from the notes of the audit log: by person and item, and in all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeAlias
from uuid import UUID

from audit.queries import trials
from audit.queries.search import id_at, time_of
from audit.queries.trials import NotedCall

MAX_READ_CALLS = trials.MAX_CALLS
"""Maximum calls that are counted, the newest."""
MAX_ROWS: Final = 10
"""Maximum pairs of person and item that one rule lists."""
MAX_ROW_CALLS: Final = 3
"""Maximum calls that one row names."""

Key: TypeAlias = tuple[str, int]
"""The kind of a rule and its id, as notes name it."""
Change: TypeAlias = tuple[str, str]
"""The answer without the rule, and with it: `allow`, `deny`, `ask` or `limit`."""
_Pair: TypeAlias = tuple[int | None, str, str, str]
"""Id and name of a person, the method, and the name of an item."""


@dataclass(slots=True)
class Row:
    """The calls of one person to one tool, prompt or resource that a rule would have decided otherwise."""

    user_id: int | None
    username: str
    method: str
    name: str
    changes: Counter[Change] = field(default_factory=Counter)
    newest: list[UUID] = field(default_factory=list)
    """Some of these calls, the newest first."""

    @property
    def calls(self) -> int:
        return self.changes.total()

    @property
    def more(self) -> int:
        """Return the number of these calls that `newest` omits."""
        return self.calls - len(self.newest)


@dataclass(slots=True)
class RuleTally:
    """What one rule would have changed."""

    changes: Counter[Change] = field(default_factory=Counter)
    rows: list[Row] = field(default_factory=list)
    """The most calls first; only those that the reader may read."""
    more_rows: int = 0
    more_calls: int = 0
    """Calls of the rows that are not listed."""
    not_shown: int = 0
    """Calls of others, which the reader may not read."""

    @property
    def calls(self) -> int:
        return self.changes.total()


@dataclass(frozen=True, slots=True)
class Tally:
    """What all rules in trial would have changed."""

    rules: Mapping[Key, RuleTally]
    counted_since: datetime | None
    """Calls before this time were too many to count; None: all calls of all trials are counted."""


def count(since: Mapping[Key, datetime], reader_id: int | None = None) -> Tally:
    """Count the notes of these rules, each from the time since which it is in trial.

    Notes of any other rule are ignored. With `reader_id`, only calls of this person are in rows.
    """
    found = {key: _Rule() for key in since}
    if not found:
        return Tally({}, None)
    first = {key: id_at(start) for key, start in since.items()}
    number, oldest = 0, None
    for call in trials.iterate_calls(min(since.values()), MAX_READ_CALLS):
        number, oldest = number + 1, call.id
        for note in call.notes:
            key = (note.kind, note.rule_id)
            if key in found and call.id >= first[key]:
                found[key].add(call, (note.real, note.tried))
    tallies = {key: rule.close(reader_id) for key, rule in found.items()}
    return Tally(tallies, time_of(oldest) if oldest is not None and number >= MAX_READ_CALLS else None)


class _Rule:
    """The calls of one rule while they are counted: there can be as many pairs of person and item as calls."""

    def __init__(self) -> None:
        self.changes: Counter[Change] = Counter()
        self._numbers: dict[_Pair, int] = {}
        self._rows: dict[_Pair, dict[Change, int]] = {}
        self._newest: dict[_Pair, list[UUID]] = {}

    def add(self, call: NotedCall, change: Change) -> None:
        pair = (call.user_id, call.username, call.method, call.name)
        self.changes[change] += 1
        if pair not in self._rows:
            self._numbers[pair], self._rows[pair], self._newest[pair] = 1, {change: 1}, [call.id]
            return
        self._numbers[pair] += 1
        self._rows[pair][change] = self._rows[pair].get(change, 0) + 1
        if len(self._newest[pair]) < MAX_ROW_CALLS:
            self._newest[pair].append(call.id)

    def close(self, reader_id: int | None) -> RuleTally:
        readable = [pair for pair in self._rows if reader_id is None or pair[0] == reader_id]
        readable.sort(key=lambda pair: (-self._numbers[pair], pair[1], pair[3]))
        shown, others = readable[:MAX_ROWS], readable[MAX_ROWS:]
        rows = [Row(*pair, Counter(self._rows[pair]), self._newest[pair]) for pair in shown]
        more = sum(self._numbers[pair] for pair in others)
        not_shown = self.changes.total() - more - sum(row.calls for row in rows)
        return RuleTally(self.changes, rows, len(others), more, not_shown)
