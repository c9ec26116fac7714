"""The limits of one catalogue over calls of the past: which counters a call meets, and when each of them counts. Pure.

    arrive   rates, the same call again and the same error again: before the arguments are looked at
    reserve  quotas, cost units and calls at a time: of calls with valid arguments that were approved
    end      the same error again: how the call ended

What refuses a call counts it nowhere, and neither does what comes later. A call that the second step refuses has
counted in the first one, as it has when it is made.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from catalog.conditions import measures
from catalog.metering import cost
from catalog.policy.definitions import EMPTY, LimitRule, Snapshot, ToolDefinition
from catalog.replay.counters import Calendar, Counter, ErrorCounter, RepeatCounter, Use, make


@dataclass(slots=True, eq=False)
class CounterSet:
    """The counters that the calls of one tool by one person meet in one catalogue."""

    tool: ToolDefinition
    arriving: list[Counter] = field(default_factory=list)
    ending: list[ErrorCounter] = field(default_factory=list)
    reserved: list[Counter] = field(default_factory=list)
    repeats: list[RepeatCounter] = field(default_factory=list)
    """Those of `arriving` that compare arguments."""
    counts_cost: bool = False

    def __bool__(self) -> bool:
        """Return whether there is any limit."""
        return bool(self.arriving or self.ending or self.reserved)

    @property
    def reads_factor(self) -> bool:
        """Whether an argument decides what a call costs."""
        return self.counts_cost and bool(self.tool.cost_argument)

    @property
    def looks_at_arguments(self) -> bool:
        return bool(self.repeats) or self.reads_factor

    @property
    def looks_at_errors(self) -> bool:
        return bool(self.ending)

    @property
    def looks_at_bodies(self) -> bool:
        """Whether what is left tells something about arguments, errors or results."""
        reads_size = self.counts_cost and bool(self.tool.cost_per_kilobyte)
        return self.looks_at_arguments or self.looks_at_errors or reads_size

    def is_known(self, use: Use) -> bool:
        """Return whether it can be told what the limits say of this call."""
        return all(one.is_known(use) for one in self.repeats)

    def arrive(self, use: Use) -> bool:
        """Count a call that arrives; return False, and count nothing, where a limit refuses it."""
        return not any(one.is_full(use) for one in self.ending) and take(self.arriving, use)

    def reserve(self, use: Use) -> bool:
        """Count a call that is about to run; return False, and count nothing, where a limit refuses it."""
        return take(self.reserved, use)

    def end(self, use: Use) -> None:
        """Note how a call ends that no limit has refused."""
        for one in self.ending:
            one.count(use)


def take(counters: Iterable[Counter], use: Use) -> bool:
    """Count a call against all of these; return False, and count nothing, where one of them is full."""
    found = list(counters)
    if any(one.is_full(use) for one in found):
        return False
    for one in found:
        one.count(use)
    return True


class Counters:
    """All counters of one catalogue; they begin empty."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._counters: dict[tuple[int, str], Counter] = {}
        self._calendars: dict[tuple[str, str], Calendar] = {}
        # There may be a limit for each person: by target, scope and subject, those of one call are found at once.
        self._rules: dict[tuple[str, int | None], dict[tuple[str, int | None], list[LimitRule]]] = {}
        for rule in snapshot.limits:
            of_target = self._rules.setdefault((rule.target_kind, rule.target_id), {})
            of_target.setdefault((rule.scope, rule.subject_id), []).append(rule)
        scopes = ("each_member", "group_together")
        self._groups = frozenset(rule.subject_id for rule in snapshot.limits if rule.scope in scopes)

    def find(self, tool: ToolDefinition, user_id: int) -> CounterSet:
        """Return the counters of the limits of this tool that apply to this person, as `metering.limits` does."""
        found = CounterSet(tool)
        targets = [("all", None), ("tool", tool.id), *(("toolset", key) for key in tool.toolset_ids)]
        rules = [self._rules[target] for target in targets if target in self._rules]
        if rules:
            member = self._snapshot.members.get(user_id)
            groups = member.group_ids & self._groups if member is not None else EMPTY
            own = f"user {user_id}"
            subjects = [("everyone_together", None, "everyone"), ("each_user", None, own), ("user", user_id, own)]
            subjects += [("each_member", key, own) for key in groups]
            subjects += [("group_together", key, f"group {key}") for key in groups]
            for by_subject in rules:
                for scope, subject_id, key in subjects:
                    for rule in by_subject.get((scope, subject_id), ()):
                        if rule.counts(tool):
                            self._add(found, rule, key)
        return found

    def _add(self, found: CounterSet, rule: LimitRule, key: str) -> None:
        if rule.measure == measures.COST and cost.is_free(found.tool):
            return
        counter = self._counter(rule, "" if rule.measure in measures.LOOPS else key)
        if isinstance(counter, ErrorCounter):
            found.ending.append(counter)
        elif rule.is_reserved:
            found.reserved.append(counter)
            found.counts_cost = found.counts_cost or rule.measure == measures.COST
        else:
            found.arriving.append(counter)
            if isinstance(counter, RepeatCounter):
                found.repeats.append(counter)

    def _counter(self, rule: LimitRule, key: str) -> Counter:
        # Rules are told apart as objects: one that is not saved yet has no id of its own.
        found = self._counters.get((id(rule), key))
        if found is None:
            found = self._counters[id(rule), key] = make(rule, key, self._find_calendar(rule))
        return found

    def _find_calendar(self, rule: LimitRule) -> Calendar | None:
        """Return the calendar of a quota, which all of the same period and zone share."""
        if rule.quota is None:
            return None
        key = (rule.quota.period, rule.zone)
        if key not in self._calendars:
            self._calendars[key] = Calendar(*key)
        return self._calendars[key]
