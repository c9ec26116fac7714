"""What a replay found: plain data for a page and for a command. Every list is bounded and says how much it omits.

Kinds of answers are those of `catalog.policy.answers` (allow, deny, ask, unclear), and `LIMIT` for a call that a
limit would stop, whatever it measures.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

LIMIT: Final = "limit"
MIN_DAYS, MAX_DAYS = 1, 90
MAX_ROWS = 200
MAX_ROW_CALLS = 20
"""Calls that one row names."""
MAX_CALLS = 500
"""Calls that all rows name together."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """The person for whom calls are replayed."""

    user_id: int | None
    """None: the operator at the command line, who has no calls of their own."""
    may_read_all: bool
    """Whether they may read everybody's calls (audit.view_call); else they get counts, and calls of their own."""


@dataclass(frozen=True, slots=True)
class Progress:
    done: int
    """Calls of the period that were read so far."""
    total: int
    """Calls of the period, when the replay began."""


@dataclass(frozen=True, slots=True)
class ChangedCall:
    """A call with another answer after the change."""

    id: UUID
    at: datetime
    before: str
    after: str
    status: str
    """The code of its status in the log, which older rules may have decided."""


@dataclass(frozen=True, slots=True)
class Changed:
    """How many calls have the answer `before` without the change, and `after` with it."""

    before: str
    after: str
    calls: int


@dataclass(frozen=True, slots=True)
class Row:
    """The calls of one person to one tool, prompt or resource that have another answer after the change."""

    user_id: int
    username: str
    """As the newest of these calls has it."""
    kind: str
    """tool | prompt | resource"""
    item_id: int
    name: str
    """Name of the tool or prompt, address or address template of the resource."""
    changes: tuple[Changed, ...]
    """The most frequent first."""
    named: tuple[ChangedCall, ...]
    """Some of these calls, the newest first."""

    @property
    def calls(self) -> int:
        """Return the number of these calls."""
        return sum(one.calls for one in self.changes)

    @property
    def more(self) -> int:
        """Return the number of these calls that `named` omits."""
        return self.calls - len(self.named)


@dataclass(frozen=True, slots=True)
class Report:
    """The answers of the calls of a period, without and with a change, as if each call came today.

    Groups, value lists, flags, definitions, starts and ends are those of now; time windows are judged at the time of
    each call. Limits begin with empty counters, and rules about the first time with no known value. A call that never
    ran is taken to end at once, without a result.
    """

    days: int
    since: datetime
    until: datetime
    looked_at: int
    """Calls of the period."""
    compared: int
    """Those of them that the change can reach: a call that waited for approval and its run are one."""
    changed: tuple[Changed, ...]
    """All calls with another answer, the most frequent change first; those in no row are among them."""
    unclear: int
    """Calls of which it cannot be told: the log does not show an argument or an error that a rule looks at."""
    unreadable: int
    """Calls of others that were not compared because a rule looks at what the viewer may not read: arguments, an error
    or a result.
    """
    rows: tuple[Row, ...]
    """The most calls first; only what the viewer may read."""
    more_rows: int
    """Number of further rows that the viewer may read, or the least that it is where `rows_are_cut`."""
    rows_are_cut: bool
    """Whether there were too many pairs of person and tool to count each."""
    not_shown: int
    """Calls with another answer that are in no row because the viewer may not read them."""
    counts_limits: bool
    """Whether limits could decide about calls that were compared."""
    counts_first_times: bool
    """Whether rules about the first time with a value could ask about calls that were compared."""

    @property
    def changed_calls(self) -> int:
        """Return the number of calls with another answer."""
        return sum(one.calls for one in self.changed)

    @property
    def same(self) -> int:
        """Return the number of compared calls whose answer stays."""
        return self.compared - self.changed_calls - self.unclear - self.unreadable

    @property
    def more_calls(self) -> int:
        """Return the number of calls with another answer that the viewer may read and that are in no row."""
        return self.changed_calls - self.not_shown - sum(row.calls for row in self.rows)
