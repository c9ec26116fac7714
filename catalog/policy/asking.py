"""Which approval rules a call must satisfy before it runs. Pure: part of the decision of `rules`, with the arguments.

    find_asks(catalogue, requester, tool, now, environment, sent, complete)

Rules of the tool, of its toolsets and of all tools apply to whoever calls it. A rule of a grant applies to calls that
only such grants allow: who may make the call by another grant, without any rule, is not asked. Every rule that applies
asks; those that ask the same people are one question, with the strictest of their terms. No rule asks about a call that
a grant allows which says so (`skips_approval`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.policy import rules
from catalog.policy.changes import NO_CHANGE, Change
from catalog.policy.definitions import AskRule, GrantRule, Snapshot, ToolDefinition, digest, is_destructive
from catalog.policy.matching import Arguments, CheckTime, Matcher
from catalog.policy.rules import Requester

PERSON, APPROVERS = "person", "approvers"


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


@dataclass(frozen=True, slots=True)
class Questions:
    """What the approval rules say about one call."""

    asks: tuple[Ask, ...] = ()
    """Its questions, those to the person first."""
    lifted_by: GrantRule | None = None
    """The grant by which it runs without the approval that a rule asks for."""


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
) -> Questions:
    """Return the questions that a call asks before it runs.

    `sent` are the valid arguments with fixed values filled in, `complete` those with defaults as well. `known` are the
    ids of the rules for the first time with a value that this person had an approved call with. Raises BudgetError
    beyond the budget of patterns, and what `check_time` raises.
    """
    matcher = Matcher(snapshot, requester.user_id, tool, check_time)
    needs_grants = snapshot.asks_by_grant or snapshot.has_exemptions
    grants = rules.find_applicable(snapshot, requester, tool, environment) if needs_grants else []
    return match(snapshot, tool, grants, matcher, Arguments(sent, complete), now, known)


def match(
    snapshot: Snapshot,
    tool: ToolDefinition,
    grants: Sequence[GrantRule],
    matcher: Matcher,
    arguments: Arguments,
    now: float,
    known: Collection[int] = (),
    change: Change = NO_CHANGE,
) -> Questions:
    """Return the questions of a call; `grants` are those for this person and this tool, at whatever time, by id."""

    def asks(rule: AskRule) -> bool:
        return matcher.asks(rule, arguments, now, known)

    found = [rule for rule in change.find_asks(snapshot, tool) if asks(rule)]
    if change.has_asks_of_grants(snapshot):
        allowing = [grant for grant in grants if grant.effect == "allow"]
        in_force = [grant for grant in allowing if rules.is_in_force(grant, now) and matcher.allows(grant, arguments)]
        by_grant = [
            [rule for rule in change.find_asks_of_grant(snapshot, grant.id) if asks(rule)] for grant in in_force
        ]
        if not in_force:
            # No grant allows it, as far as this tells. Something does, or the call would not be here: each of them may.
            every = [rule for grant in allowing for rule in change.find_asks_of_grant(snapshot, grant.id)]
            by_grant = [[rule for rule in every if asks(rule)]]
        if all(by_grant):
            found += by_grant[0]
    lifts = (grant for grant in grants if _exempts(grant, now) and matcher.allows(grant, arguments))
    lifted_by = next(lifts, None) if found else None
    return Questions(() if lifted_by else merge(found, tool), lifted_by)


def _exempts(grant: GrantRule, now: float) -> bool:
    """Return whether calls that the grant allows run without approval now."""
    return grant.skips_approval and grant.effect == "allow" and rules.is_in_force(grant, now)


def all_asks(snapshot: Snapshot, requester: Requester, tool: ToolDefinition, now: float, environment: str) -> list[Ask]:
    """Return the questions that some call of the tool by this person could ask, whatever the arguments and the time."""
    found = list(snapshot.asks_by_tool.get(tool.id, ()))
    allowing: list[GrantRule] = []
    if snapshot.asks_by_grant or snapshot.has_exemptions:
        allowing = _allowing(snapshot, requester, tool, now, environment)
    if any(grant.skips_approval and not grant.conditions for grant in allowing):
        return []
    if snapshot.asks_by_grant:
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
    return find_first_values(rules, complete)


def find_first_values(rules: Iterable[AskRule], complete: Mapping[str, Any]) -> dict[int, Any]:
    """Return the same for each of these rules that is about the first time with a value."""
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
                *(grant.starts, grant.ends, sorted(grant.environments), sorted(grant.flags), grant.skips_approval),
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
