"""Which approval rules a call must satisfy before it runs. Pure: part of the decision of `rules`, with the arguments.

    find_asks(catalogue, requester, tool, now, environment, sent, complete)

Rules of the tool, of its toolsets and of all tools apply to whoever calls it. A rule of a grant applies to calls that
only such grants allow: who may make the call by another grant, without any rule, is not asked. Every rule that applies
asks; those that ask the same people are one question, with the strictest of their terms.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from catalog.conditions import windows
from catalog.conditions.constraints import Constraint
from catalog.conditions.definitions import ITEMS, Condition, Steps
from catalog.conditions.expectations import BELONGS_TO
from catalog.conditions.forms import Alternative
from catalog.conditions.original import Original
from catalog.policy import rules
from catalog.policy.definitions import AskRule, GrantRule, Snapshot, ToolDefinition, digest, is_destructive
from catalog.policy.permissions import list_values
from catalog.policy.rules import Requester

PERSON, APPROVERS = "person", "approvers"
CheckTime = Callable[[], None]


@dataclass(frozen=True)
class Ask:
    """One question before a call runs: to the person who calls, or to the members of one group."""

    rules: tuple[AskRule, ...]
    accepts_client: bool
    """Whether the person's answer through the client counts."""

    @property
    def asks(self) -> str:
        return self.rules[0].asks

    @property
    def group_id(self) -> int | None:
        return self.rules[0].group_id

    @property
    def group_name(self) -> str:
        return self.rules[0].group_name

    @property
    def four_eyes(self) -> bool:
        return any(rule.four_eyes for rule in self.rules)

    @property
    def minutes(self) -> int:
        return min(rule.minutes for rule in self.rules)


def find_asks(
    snapshot: Snapshot,
    requester: Requester,
    tool: ToolDefinition,
    now: float,
    environment: str,
    sent: Mapping[str, Any],
    complete: Mapping[str, Any],
    check_time: CheckTime = lambda: None,
    known: Collection[int] = (),
) -> tuple[Ask, ...]:
    """Return the questions that a call asks before it runs, those to the person first.

    `sent` are the valid arguments with fixed values filled in, `complete` those with defaults as well. `known` are the
    ids of the rules for the first time with a value that this person had an approved call with. Raises BudgetError
    beyond the budget of patterns, and what `check_time` raises.
    """
    matcher = _Matcher(snapshot, requester.user_id, tool, sent, complete, check_time, frozenset(known))
    found = [rule for rule in snapshot.asks_by_tool.get(tool.id, ()) if matcher.asks(rule, now)]
    if snapshot.asks_by_grant:
        found += _asks_of_grants(snapshot, requester, tool, now, environment, matcher)
    return merge(found, tool)


def all_asks(snapshot: Snapshot, requester: Requester, tool: ToolDefinition, now: float, environment: str) -> list[Ask]:
    """Return the questions that some call of the tool by this person could ask, whatever the arguments and the time."""
    found = list(snapshot.asks_by_tool.get(tool.id, ()))
    if snapshot.asks_by_grant:
        allowing = _allowing(snapshot, requester, tool, now, environment)
        by_grants = [_rules_of(snapshot, grant, tool) for grant in allowing]
        if all(rules_of or grant.conditions for grant, rules_of in zip(allowing, by_grants, strict=True)):
            found += [rule for rules_of in by_grants for rule in rules_of]
    return list(merge(found, tool))


def _rules_of(snapshot: Snapshot, grant: GrantRule, tool: ToolDefinition) -> list[AskRule]:
    found = snapshot.asks_by_grant.get(grant.id, ())
    return [rule for rule in found if not rule.destructive_only or is_destructive(tool)]


def find_first_times(snapshot: Snapshot, tool: ToolDefinition, complete: Mapping[str, Any]) -> dict[int, Any]:
    """Return for each rule about the first time with a value that can ask for this tool: its id -> [path, value].

    An argument that is left out has the value null. With another path, every value is new to the rule.
    """
    rules = [
        *snapshot.asks_by_tool.get(tool.id, ()),
        *(one for found in snapshot.asks_by_grant.values() for one in found),
    ]
    return {rule.id: [list(rule.first_time), _value_at(complete, rule.first_time)] for rule in rules if rule.first_time}


def _value_at(value: Any, steps: Iterable[str | None]) -> Any:
    for step in steps:
        if not isinstance(value, Mapping) or step not in value:
            return None
        value = value[step]
    return value


def merge(found: Iterable[AskRule], tool: ToolDefinition) -> tuple[Ask, ...]:
    """Return one question for each group of people that the rules ask, the person who calls first."""
    by_people: dict[tuple[bool, int], list[AskRule]] = {}
    for rule in found:
        by_people.setdefault((rule.asks == APPROVERS, rule.group_id or 0), []).append(rule)
    destroys = is_destructive(tool)
    return tuple(
        Ask(tuple(together), not destroys and not asks_others and all(rule.accepts_client for rule in together))
        for (asks_others, _group), together in sorted(by_people.items(), key=lambda pair: pair[0])
    )


def grants_digest(snapshot: Snapshot, requester: Requester, tool: ToolDefinition, now: float, environment: str) -> str:
    """Return a digest of what allows the tool to this person: another one when any of these grants changes."""
    found = _allowing(snapshot, requester, tool, now, environment)
    return digest(
        [
            [
                *(grant.id, grant.target_kind, grant.target_id, grant.subject_kind, grant.subject_id),
                *(grant.starts, grant.ends, sorted(grant.environments), sorted(grant.flags)),
                [[list(one.steps), one.operator, one.operand, one.is_optional] for one in grant.conditions],
                [[sorted(one.days), one.opens, one.closes, one.zone] for one in grant.windows],
            ]
            for grant in found
        ]
    )


def _allowing(
    snapshot: Snapshot, requester: Requester, tool: ToolDefinition, now: float, environment: str
) -> list[GrantRule]:
    """Return the grants in force that allow this tool, with or without conditions, to this person."""
    found = rules.find_applicable(snapshot, requester, tool, environment)
    return [grant for grant in found if grant.effect == "allow" and rules.is_in_force(grant, now)]


def _asks_of_grants(
    snapshot: Snapshot, requester: Requester, tool: ToolDefinition, now: float, environment: str, matcher: _Matcher
) -> list[AskRule]:
    first: list[AskRule] | None = None
    for grant in _allowing(snapshot, requester, tool, now, environment):
        if not matcher.allows(grant):
            continue
        found = [rule for rule in snapshot.asks_by_grant.get(grant.id, ()) if matcher.asks(rule, now)]
        if not found:
            return []
        first = found if first is None else first
    if first is None:
        # No grant allows it, as far as this tells. Something does, or the call would not be here: each of them may.
        grants = rules.find_applicable(snapshot, requester, tool, environment)
        allowing = [grant for grant in grants if grant.effect == "allow"]
        every = [rule for grant in allowing for rule in snapshot.asks_by_grant.get(grant.id, ())]
        return [rule for rule in every if matcher.asks(rule, now)]
    return first


class _Matcher:
    """The arguments of one call, against the conditions of rules and grants."""

    def __init__(
        self,
        snapshot: Snapshot,
        user_id: int,
        tool: ToolDefinition,
        sent: Mapping[str, Any],
        complete: Mapping[str, Any],
        check_time: CheckTime,
        known: frozenset[int],
    ) -> None:
        self._snapshot, self._user_id, self._tool = snapshot, user_id, tool
        self._sent, self._complete, self._check_time = sent, complete, check_time
        self._known = known

    @cached_property
    def _original(self) -> Original:
        return Original((self._tool.base or self._tool).input_schema)

    def asks(self, rule: AskRule, now: float) -> bool:
        """Return whether the rule asks about this call."""
        if rule.destructive_only and not is_destructive(self._tool):
            return False
        if rule.windows and windows.is_open(rule.windows, now) == rule.outside_windows:
            return False
        if rule.first_time and rule.id in self._known:
            is_gone = self._names_tool(rule) and not self._original.has_place(rule.first_time)
            if not is_gone:  # null would be known of it for ever
                return False
        if not rule.conditions:
            return True
        lists = self._lists(rule.conditions)
        for condition in rule.conditions:
            self._check_time()
            if self._original.is_secret(condition.steps):
                continue  # in doubt it asks: no condition can be about a secret
            if self._names_tool(rule) and not self._original.has_place(condition.steps):
                continue  # the definition changed: the rule no longer knows what it is about
            constraint = Constraint.of(condition, lists, is_negated=True)
            if constraint.find_violation(self._complete, self._sent) is None:
                return False
        return True

    def allows(self, grant: GrantRule) -> bool:
        """Return whether this grant by itself allows the arguments."""
        if not grant.conditions:
            return True
        names_tool = grant.target_kind != "toolset"
        made = Alternative.of(grant.id, grant.conditions, self._lists(grant.conditions), names_item=names_tool)
        for constraint in made.constraints:
            self._check_time()
            needed = names_tool or not constraint.may_be_absent
            if not self._can_be_about(constraint.steps, needed):
                return False
            if constraint.find_violation(self._complete, self._sent) is not None:
                return False
        return all(self._can_be_about(one.steps, True) and _has_fixed(self._complete, one) for one in made.fixed)

    def _can_be_about(self, steps: Steps, needed: bool) -> bool:
        """Return whether a condition of a grant can be about this argument: otherwise the grant allows nothing."""
        return not self._original.is_secret(steps) and (not needed or self._original.has_place(steps))

    def _names_tool(self, rule: AskRule) -> bool:
        """Return whether the rule names the tool itself, or a grant that does."""
        if rule.target_kind == "grant":
            grant = self._snapshot.grants_by_id.get(rule.target_id or 0)
            return grant is None or grant.target_kind != "toolset"
        return rule.target_kind == "tool"

    def _lists(self, conditions: Iterable[Condition]) -> dict[str, tuple[str, ...]]:
        names = {one.value for one in conditions if one.operator == BELONGS_TO}
        return {name: list_values(self._snapshot, name, self._user_id) for name in names}


def _has_fixed(arguments: Any, condition: Condition) -> bool:
    """Return whether the value that a grant fixes is there, in every item of a list on its way."""
    values = [arguments]
    for step in condition.steps:
        if step is ITEMS:
            values = [item for value in values if isinstance(value, list) for item in value]
        elif all(isinstance(value, dict) and step in value for value in values):
            values = [value[step] for value in values]
        else:
            return False
    return all(digest(value) == digest(condition.value) for value in values)
