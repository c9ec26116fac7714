"""Searching rows in the order of their key: in slices of bounded time, or where the text index names the rows."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from audit.queries import text_index
from audit.queries.spans import ALL, Span

MAX_CANDIDATES = 10_000
"""Maximum calls that the text index may name. A text in more of them is soon found in slices."""
CHUNK_CANDIDATES = 200
_FIRST_SLICE_ROWS, _MAX_SLICE_ROWS = 2_000, 20_000
_MIN_SLICE_ROWS = 500
"""Rows that a slice always has besides what is estimated to fit."""


@dataclass(frozen=True, slots=True)
class IndexedText:
    """A text to search for, in the part of the log that the text index covers."""

    text: str
    coverage: text_index.Coverage
    low: UUID | None
    high: UUID | None
    """The searched interval: low <= id < high, None for an open side."""

    def find(self, start: UUID | None, *, forward: bool = False) -> list[UUID] | None:
        """Return the calls to read after `start`, in the order of the search; None when the index names too many."""
        low, high = self.low, self.coverage.through if self.high is None else min(self.high, self.coverage.through)
        if start is not None and forward:
            low = UUID(int=start.int + 1)
        elif start is not None:
            high = min(high, start)
        found = text_index.find(self.text, low, high, MAX_CANDIDATES)
        if found is None:
            return None
        still_open = [pk for pk in self.coverage.open if (low is None or pk >= low) and pk < high]
        return sorted({*found, *still_open}, reverse=not forward)


@dataclass(slots=True)
class Walk:
    """A search through rows in the order of their key, until enough are found or its time or budget is used up."""

    rows: QuerySet[Any]
    """Without bounds of their key: those are `span`."""
    rest: Q | QuerySet[Any] | None
    forward: bool
    deadline: float
    budget: int
    """Rows that may still be searched."""
    span: Span = ALL

    def collect(self, start: Any, wanted: int) -> tuple[list[Any], Any]:
        """Return up to `wanted` rows, and the key at which the search stopped before the end, or None."""
        rest, span = self.rest, self._beyond(self.span, start)
        ordered = self.rows.order_by("pk" if self.forward else "-pk")
        if rest is None:
            return list(span.of(ordered)[:wanted]), None
        found: list[Any] = []
        slice_ = max(1, min(_FIRST_SLICE_ROWS, self.budget))
        while True:
            began = time.monotonic()
            edge = span.of(ordered).values_list("pk", flat=True)[slice_ - 1 : slice_].first()
            part = span if edge is None else span.through(edge) if self.forward else span.since(edge)
            here = part.of(ordered)
            if isinstance(rest, Q):
                here = here.filter(rest)
            else:
                there = part.of(rest)
                here = ordered.filter(pk__in=_intersect_keys(here, there, self.forward, wanted - len(found)))
            found += list(here[: wanted - len(found)])
            self.budget -= slice_
            if edge is None or len(found) >= wanted:
                return found, None
            now = time.monotonic()
            if self.budget <= 0 or now > self.deadline:
                return found, edge
            # No slice may take much longer than the remaining time; its duration is estimated from the previous slice.
            fits = int(slice_ * (self.deadline - now) / max(now - began, 0.001)) + _MIN_SLICE_ROWS
            slice_ = min(slice_ * 2, _MAX_SLICE_ROWS, self.budget, fits)
            span = self._beyond(span, edge)

    def _beyond(self, span: Span, key: Any) -> Span:
        """Return the part of the interval that comes after a key in the order of the search; all of it for None."""
        if key is None:
            return span
        return span.after(key) if self.forward else span.before(key)

    def collect_indexed(self, start: UUID | None, wanted: int, indexed: IndexedText) -> tuple[list[Any], Any]:
        """Do the same as `collect` with the text index, for the part of the log that it covers."""
        boundary = indexed.coverage.through
        newest = replace(self, span=self.span.since(boundary))
        if self.forward:
            if start is not None and start >= boundary:
                return newest.collect(start, wanted)
            found, edge = self._collect_covered(start, wanted, indexed)
            if edge is not None or len(found) >= wanted:
                return found, edge
            more, edge = newest.collect(None, wanted - len(found))
            return found + more, edge
        found = []
        if start is None or start > boundary:
            found, edge = newest.collect(start, wanted)
            if edge is not None or len(found) >= wanted:
                return found, edge
        more, edge = self._collect_covered(start, wanted - len(found), indexed)
        return found + more, edge

    def _collect_covered(self, start: UUID | None, wanted: int, indexed: IndexedText) -> tuple[list[Any], Any]:
        span = self.span.before(indexed.coverage.through)
        began = time.monotonic()
        named = indexed.find(start, forward=self.forward)
        self.deadline += time.monotonic() - began  # the calls get their time, however long the index took
        if named is None:
            return replace(self, span=span).collect(start, wanted)
        found: list[Any] = []
        for at in range(0, len(named), CHUNK_CANDIDATES):
            chunk = named[at : at + CHUNK_CANDIDATES]
            part = span.of(self.rows).filter(self.rest, pk__in=chunk).order_by("pk" if self.forward else "-pk")
            found += list(part[: wanted - len(found)])
            if len(found) >= wanted:
                break
            if time.monotonic() > self.deadline and at + CHUNK_CANDIDATES < len(named):
                return found, chunk[-1]
        return found, None


def _intersect_keys(one: QuerySet[Any], other: QuerySet[Any], forward: bool, wanted: int) -> list[Any]:
    """Return the first keys that both have. SQLite merges two ordered indexes without reading any row."""
    order = "pk" if forward else "-pk"
    keys = [rows.order_by().values_list("pk", flat=True) for rows in (one, other)]
    return list(keys[0].intersection(keys[1]).order_by(order)[:wanted])
