"""A replay: the calls of a period from the log, through the simulation, to the report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Final
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from audit.format import timestamps
from catalog.policy.answers import Sent
from catalog.policy.changes import NO_CHANGE, Change
from catalog.policy.definitions import Item, Snapshot, ToolDefinition
from catalog.replay import attempts, log_arguments, log_errors, reach
from catalog.replay.attempts import AttemptFilter, Batch, LoggedCall
from catalog.replay.report import MAX_DAYS, MIN_DAYS, Progress, Report, Viewer
from catalog.replay.simulation import Pair, Simulation
from catalog.replay.tally import Tally

PIECE_SECONDS: Final = 0.002
"""Longest time of work between two pauses."""
PIECE_CALLS: Final = 4
"""Calls after which a pause may be due."""


class _Cancelled(Exception):
    """The signal that nobody waits for the report any more."""


class _Bodies:
    """The arguments and the error of one call, as far as they were read from the log."""

    def __init__(self, call: LoggedCall, arguments: Mapping[UUID, str], errors: Mapping[UUID, tuple[str, str]]) -> None:
        self._call, self._arguments, self._errors = call, arguments, errors
        self._sent: Sent | None = None

    def read_arguments(self, item: Item) -> Sent:
        """Return the arguments; those of a tool are the same for every definition of it."""
        if self._sent is None or not isinstance(item, ToolDefinition):
            text = self._arguments.get(self._call.id)
            self._sent = log_arguments.UNKNOWN if text is None else log_arguments.read(text, item, self._call.name)
        return self._sent

    def read_error(self) -> str | None:
        found = self._errors.get(self._call.id)
        return None if found is None else log_errors.read(*found)


class Rest:
    """Pauses of a replay in a process that serves calls: it rests as long as it worked."""

    def __init__(self) -> None:
        self._resumed = time.monotonic()

    def __call__(self) -> None:
        """Sleep as long as was worked since the last sleep, if that was long enough to matter."""
        worked = time.monotonic() - self._resumed
        if worked >= PIECE_SECONDS:
            time.sleep(worked)
            self._resumed = time.monotonic()


def replay(
    before: Snapshot,
    after: Snapshot,
    change: Change,
    days: int,
    viewer: Viewer,
    *,
    pause: Callable[[], None] = lambda: None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[Progress | Report]:
    """Yield the progress, and at last the report, of calls of the last `days` as answered by two catalogues.

    `change` is applied to `after`: an editor passes one snapshot twice with its change, an import passes two without
    one. It reads the database in the thread that takes the next element, a batch at a time and in no transaction.
    `pause` is called after every few calls. When `is_cancelled` says so, the iterator ends without a report. Raises
    ValueError unless `days` is from `MIN_DAYS` to `MAX_DAYS`.
    """
    if not MIN_DAYS <= days <= MAX_DAYS:
        raise ValueError(f"a replay takes {MIN_DAYS} to {MAX_DAYS} days, not {days}")

    def breathe() -> None:
        if is_cancelled():
            raise _Cancelled
        pause()

    return _walk(before, after, change, days, viewer, breathe)


def _walk(
    before: Snapshot,
    after: Snapshot,
    change: Change,
    days: int,
    viewer: Viewer,
    breathe: Callable[[], None],
) -> Iterator[Progress | Report]:
    """Do the work of `replay`; what `breathe` raises between two pieces of it ends it."""
    if change != NO_CHANGE:
        after = reach.apply(after, change)
    until = timezone.now()
    since = until - timedelta(days=days)
    reached = reach.find(before, after)
    simulation = Simulation(before, after, reached, viewer, settings.ENVIRONMENT, until.timestamp())
    period = (timestamps.to_ms(since), timestamps.to_ms(until))
    done, total = 0, attempts.count(*period)
    tally, chosen = Tally(), AttemptFilter()
    yield Progress(done, total)
    try:
        for batch in attempts.read(*period, reached) if reached.items else _nothing(total):
            _compare(batch.calls, simulation, tally, chosen, breathe)
            breathe()
            done += batch.scanned
            yield Progress(done, max(done, total))
    except _Cancelled:
        return
    yield tally.report(
        days,
        since,
        until,
        done,
        counts_limits=simulation.counts_limits,
        counts_first_times=simulation.counts_first_times,
    )


def _nothing(total: int) -> Iterator[Batch]:
    """Yield no calls: the change can reach none."""
    yield Batch(total, [])


def _compare(
    calls: list[LoggedCall],
    simulation: Simulation,
    tally: Tally,
    chosen: AttemptFilter,
    breathe: Callable[[], None],
) -> None:
    pairs: list[tuple[LoggedCall, Pair]] = []
    needed, failed = [], []
    for number, call in enumerate(calls):
        pair = simulation.find_pair(call)
        if pair is not None and chosen.accepts(call):
            pairs.append((call, pair))
            if simulation.needs_arguments(call, pair):
                needed.append(call.id)
            if simulation.needs_error(call, pair):
                failed.append(call.id)
        if number % PIECE_CALLS == 0:
            breathe()
    arguments, errors = attempts.read_arguments(needed), attempts.read_errors(failed)
    for number, (call, pair) in enumerate(pairs):
        tally.add(call, pair, simulation.compare(call, pair, _Bodies(call, arguments, errors)))
        if number % PIECE_CALLS == 0:
            breathe()
