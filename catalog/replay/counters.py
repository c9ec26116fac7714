"""The counters of rate limits over calls of the past, in fixed windows as django-ratelimit has them. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django_ratelimit.core import _split_rate

from catalog.policy.definitions import LimitRule, Snapshot


@dataclass(slots=True, eq=False)
class Counter:
    """The calls that one limit counts together: those of one person, or of everyone."""

    key: str
    """The name of the counter, on which the start of its windows depends."""
    limit: int
    period_seconds: int
    window: int = -1
    count: int = 0

    def is_full(self, seconds: int) -> bool:
        """Return whether the limit is reached at this time, in whole Unix seconds, which never goes back."""
        window = window_at(self.key, self.period_seconds, seconds)
        if window != self.window:
            self.window, self.count = window, 0
        return self.count >= self.limit


def window_at(key: str, period_seconds: int, seconds: int) -> int:
    """Return the end of the window that holds this time, in whole Unix seconds.

    The library offers it for the present time only; a test compares both.
    """
    if period_seconds == 1:
        return seconds
    start = seconds - seconds % period_seconds
    end = start + zlib.crc32(key.encode()) % period_seconds
    return end + period_seconds if end < seconds else end


class Counters:
    """All counters of one catalogue; they begin empty."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._counters: dict[tuple[int, str], Counter] = {}
        self._rates: dict[str, tuple[int, int]] = {}

    def find(self, rules: Iterable[LimitRule], user_id: int) -> list[Counter]:
        """Return the counters of those of the rules that apply to this person."""
        return [self._counter(rule, key) for rule in rules if (key := self._key(rule, user_id))]

    def _key(self, rule: LimitRule, user_id: int) -> str:
        """Return the name of the counter of this person, as `policy.limits` has it; empty where it does not apply."""
        if rule.scope == "everyone_together":
            return "everyone"
        member = self._snapshot.members.get(user_id)
        applies = (
            rule.scope == "each_user"
            or (rule.scope == "user" and rule.subject_id == user_id)
            or (rule.scope == "each_member" and member is not None and rule.subject_id in member.group_ids)
        )
        return f"user {user_id}" if applies else ""

    def _counter(self, rule: LimitRule, key: str) -> Counter:
        # Rules are told apart as objects: one that is not saved yet has no id of its own.
        found = self._counters.get((id(rule), key))
        if found is None:
            rate: Any = self._rates.get(rule.rate) or _split_rate(rule.rate)
            self._rates[rule.rate] = rate
            found = self._counters[id(rule), key] = Counter(key, *rate)
        return found


def take(counters: Iterable[Counter], seconds: int) -> bool:
    """Count a call at this time against all of these; return False, and count nothing, where one of them is full."""
    found = list(counters)
    if any(one.is_full(seconds) for one in found):
        return False
    for one in found:
        one.count += 1
    return True
