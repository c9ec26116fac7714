"""The counters of rate limits over calls of the past, in fixed windows as django-ratelimit has them. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from django_ratelimit.core import _split_rate

from catalog.policy.definitions import EMPTY, LimitRule, Snapshot, ToolDefinition


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
        # There may be a limit for each person: by target, scope and subject, those of one call are found at once.
        self._rules: dict[tuple[str, int | None], dict[tuple[str, int | None], list[LimitRule]]] = {}
        for rule in snapshot.limits:
            of_target = self._rules.setdefault((rule.target_kind, rule.target_id), {})
            of_target.setdefault((rule.scope, rule.subject_id), []).append(rule)

    def find(self, tool: ToolDefinition, user_id: int) -> list[Counter]:
        """Return the counters of the limits of this tool that apply to this person, as `policy.limits` chooses them."""
        targets = [("all", None), ("tool", tool.id), *(("toolset", key) for key in tool.toolset_ids)]
        rules = [self._rules[target] for target in targets if target in self._rules]
        if not rules:
            return []
        own = f"user {user_id}"
        member = self._snapshot.members.get(user_id)
        groups = member.group_ids if member is not None else EMPTY
        subjects = [("each_user", None), ("user", user_id), *(("each_member", key) for key in groups)]
        found = []
        for by_subject in rules:
            found += [self._counter(rule, "everyone") for rule in by_subject.get(("everyone_together", None), ())]
            found += [self._counter(rule, own) for one in subjects for rule in by_subject.get(one, ())]
        return found

    def _counter(self, rule: LimitRule, key: str) -> Counter:
        # Rules are told apart as objects: one that is not saved yet has no id of its own.
        found = self._counters.get((id(rule), key))
        if found is None:
            limit, period_seconds = _split_rate(rule.rate)
            found = self._counters[id(rule), key] = Counter(key, limit, period_seconds)
        return found


def take(counters: Iterable[Counter], seconds: int) -> bool:
    """Count a call at this time against all of these; return False, and count nothing, where one of them is full."""
    found = list(counters)
    if any(one.is_full(seconds) for one in found):
        return False
    for one in found:
        one.count += 1
    return True
