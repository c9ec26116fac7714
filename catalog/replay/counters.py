"""The counters of limits over calls of the past, one class for each measure. Pure.

Calls come in the order in which they were made. What only the end of a call tells is kept until the counter meets a
call that came after it. All counters begin empty.
"""

from __future__ import annotations

import sys
import zlib
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final, Protocol

from audit.format import timestamps
from catalog.conditions import measures, periods
from catalog.conditions.periods import Quota
from catalog.policy.definitions import LimitRule
from toolhub import rates

FOREVER: Final = sys.maxsize
"""The end, in Unix milliseconds, of a call that still runs."""
MAX_REPEATS: Final = 200_000
"""Different calls that one limit remembers at a time; beyond them, nobody can tell of a new one."""


@dataclass(frozen=True, slots=True)
class Use:
    """One call of the past, as the limits of one catalogue see it."""

    ms: int
    """When it arrived, in Unix milliseconds."""
    end_ms: int
    """When it ended. The same as `ms` for a call that did not run, according to the log."""
    credential_id: str = ""
    tool_id: int = 0
    digest: str = ""
    """Of its arguments; empty where no limit compares them."""
    units: int = 1
    """What it costs before it runs."""
    units_of_result: int = 0
    has_end: bool = False
    """Whether its end was a success or an error: everything else changes nothing for limits of the same error."""
    error: str = ""
    """Text that equal errors have in common; empty for a success."""


class Counter(Protocol):
    """The calls that one limit counts together."""

    def is_full(self, use: Use) -> bool:
        """Return whether the limit refuses this call. Its time never goes back."""
        ...

    def count(self, use: Use) -> None:
        """Count a call that is not refused."""
        ...


# --- rates and quotas ------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class RateCounter:
    """Calls in fixed windows, as django-ratelimit has them."""

    key: str
    """The name of the counter, on which the start of its windows depends."""
    limit: int
    period_seconds: int
    _window: int = -1
    _count: int = 0

    def is_full(self, use: Use) -> bool:
        window = window_at(self.key, self.period_seconds, use.ms // 1000)
        if window != self._window:
            self._window, self._count = window, 0
        return self._count >= self.limit

    def count(self, use: Use) -> None:
        self._count += 1


def window_at(key: str, period_seconds: int, seconds: int) -> int:
    """Return the end of the window that holds this time, in whole Unix seconds.

    The library offers it for the present time only; a test compares both.
    """
    if period_seconds == 1:
        return seconds
    start = seconds - seconds % period_seconds
    end = start + zlib.crc32(key.encode()) % period_seconds
    return end + period_seconds if end < seconds else end


class Calendar:
    """The periods of quotas in one time zone; the last one is kept, since calls come in order."""

    def __init__(self, period: str, zone: str) -> None:
        self._period, self._zone = period, zone
        self._starts = self._ends = 0

    def find_start(self, ms: int) -> int:
        """Return the start of the period that holds this time, both in Unix milliseconds."""
        if not self._starts <= ms < self._ends:
            found = periods.find(self._period, self._zone, timestamps.from_ms(ms))
            self._starts, self._ends = timestamps.to_ms(found.starts), timestamps.to_ms(found.ends)
        return self._starts


class QuotaCounter:
    """Calls, or cost units, in the periods of a calendar.

    What a result costs is added when its call ends, to the period in which the call began, and refuses nothing by
    itself.
    """

    def __init__(self, quota: Quota, calendar: Calendar, *, counts_cost: bool) -> None:
        self._quota, self._calendar, self._counts_cost = quota, calendar, counts_cost
        self._starts = -1
        self._used = 0
        self._later: list[tuple[int, int, int]] = []
        """Ends of calls, starts of the periods in which these began, and units: a heap."""

    def is_full(self, use: Use) -> bool:
        starts = self._calendar.find_start(use.ms)
        if starts != self._starts:
            self._starts, self._used = starts, 0
        while self._later and self._later[0][0] <= use.ms:
            _, began, units = heappop(self._later)
            self._used += units if began == starts else 0
        return not self._quota.admits(self._used, self._units(use))

    def count(self, use: Use) -> None:
        self._used += self._units(use)
        if self._counts_cost and use.units_of_result:
            heappush(self._later, (use.end_ms, self._starts, use.units_of_result))

    def _units(self, use: Use) -> int:
        return use.units if self._counts_cost else 1


# --- calls at a time -------------------------------------------------------------------------------------------------


class PlaceCounter:
    """Calls that run at a time, each from its start to its end in the log."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._ends: list[int] = []
        """A heap."""

    def is_full(self, use: Use) -> bool:
        while self._ends and self._ends[0] <= use.ms:
            heappop(self._ends)
        return len(self._ends) >= self._limit

    def count(self, use: Use) -> None:
        if use.end_ms > use.ms:
            heappush(self._ends, use.end_ms)


# --- loops -----------------------------------------------------------------------------------------------------------


class RepeatCounter:
    """The same calls: those of one tool with the same arguments by the same credential, in fixed windows."""

    def __init__(self, limit: int, period_seconds: int) -> None:
        self._limit, self._period_seconds = limit, period_seconds
        self._found: dict[int, tuple[int, int]] = {}
        """Window and count, by the hash of the key."""
        self._clean_at, self._cleaned = 1_000, 0
        """Number of keys at which past windows are forgotten, and when that was done last."""

    def is_known(self, use: Use) -> bool:
        """Return whether it can be told how often the call was made: only so many are remembered."""
        seconds, number = use.ms // 1000, len(self._found)
        is_due = number >= MAX_REPEATS and seconds - self._cleaned >= self._period_seconds / 10
        if number >= self._clean_at or is_due:
            self._found = {key: one for key, one in self._found.items() if one[0] >= seconds}
            self._clean_at, self._cleaned = max(1_000, 2 * len(self._found)), seconds
        return len(self._found) < MAX_REPEATS or hash(self._key(use)) in self._found

    def is_full(self, use: Use) -> bool:
        return self._read(use)[2] >= self._limit

    def count(self, use: Use) -> None:
        number, window, count = self._read(use)
        self._found[number] = (window, count + 1)

    def _read(self, use: Use) -> tuple[int, int, int]:
        key = self._key(use)
        number, window = hash(key), window_at(key, self._period_seconds, use.ms // 1000)
        known = self._found.get(number)
        return number, window, known[1] if known is not None and known[0] == window else 0

    def _key(self, use: Use) -> str:
        return f"{use.credential_id} {use.tool_id} {use.digest}"


@dataclass(slots=True)
class _Errors:
    """The errors of one tool that one credential met, one after the other."""

    later: list[tuple[int, int, str]]
    """Ends of calls, numbers in their order, and errors: a heap."""
    error: str = ""
    count: int = 0
    until_ms: int = 0


class ErrorCounter:
    """Calls of one tool by the same credential that ended with the same error one after the other.

    The time runs from the end of the first of them. A success, or another error, begins anew.
    """

    def __init__(self, limit: int, period_seconds: int) -> None:
        self._limit, self._period_ms = limit, period_seconds * 1000
        self._found: dict[tuple[str, int], _Errors] = {}
        self._number = 0

    def is_full(self, use: Use) -> bool:
        found = self._found.get((use.credential_id, use.tool_id))
        if found is None:
            return False
        while found.later and found.later[0][0] <= use.ms:
            end_ms, _, error = heappop(found.later)
            self._end(found, end_ms, error)
        return found.count >= self._limit and use.ms < found.until_ms

    def count(self, use: Use) -> None:
        if use.has_end:
            key = (use.credential_id, use.tool_id)
            found = self._found.setdefault(key, _Errors([]))
            self._number += 1
            heappush(found.later, (use.end_ms, self._number, use.error))

    def _end(self, found: _Errors, end_ms: int, error: str) -> None:
        if not error:
            found.error, found.count, found.until_ms = "", 0, 0
        elif error == found.error and end_ms < found.until_ms:
            found.count += 1
        else:
            found.error, found.count, found.until_ms = error, 1, end_ms + self._period_ms


def make(rule: LimitRule, key: str, calendar: Calendar | None) -> Counter:
    """Return a new counter of a limit, with the name that it has among those of this limit."""
    if rule.quota is not None and calendar is not None:
        return QuotaCounter(rule.quota, calendar, counts_cost=rule.measure == measures.COST)
    match rule.measure:
        case measures.RUNNING:
            return PlaceCounter(int(rule.rate))
        case measures.REPEATS:
            return RepeatCounter(*rates.split(rule.rate))
        case measures.ERRORS:
            return ErrorCounter(*rates.split(rule.rate))
    return RateCounter(key, *rates.split(rule.rate))
