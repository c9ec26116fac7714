"""Intervals of keys that are read in pieces, each with one bound on each side.

Given two lower bounds of a key, SQLite begins at the first that the statement names, before it knows which is higher:
a search that goes on in the middle of a period would read all of the period again for each piece.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet


@dataclass(frozen=True, slots=True)
class Span:
    """The keys from `low` to below `high`; None for an open side. Keys are numbers or UUIDs."""

    low: Any = None
    high: Any = None

    def since(self, key: Any) -> Span:
        """Return the part from this key on; all of it for None."""
        return self if key is None or (self.low is not None and self.low >= key) else Span(key, self.high)

    def before(self, key: Any) -> Span:
        """Return the part below this key; all of it for None."""
        return self if key is None or (self.high is not None and self.high <= key) else Span(self.low, key)

    def after(self, key: Any) -> Span:
        """Return the part above this key."""
        return self.since(_next(key))

    def through(self, key: Any) -> Span:
        """Return the part up to this key, with it."""
        return self.before(_next(key))

    def of(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Return those of the rows, which have no such bounds yet, that are in the interval."""
        bounds = {"pk__gte": self.low, "pk__lt": self.high}
        bounds = {name: key for name, key in bounds.items() if key is not None}
        return rows.filter(**bounds) if bounds else rows


ALL: Final = Span()


def _next(key: Any) -> Any:
    return UUID(int=key.int + 1) if isinstance(key, UUID) else key + 1
