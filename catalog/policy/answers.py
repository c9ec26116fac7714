"""The answer to one call, as far as rules give it: allow, deny or ask. Pure; for rules in trial and calls of the past.

    answer(catalogue, requester, item, now, environment, Sent(arguments))                   by the rules in force
    answer(catalogue, requester, item, now, environment, Sent(arguments), change=change)    as if they were changed

It says what the pipeline says, of valid arguments. Limits are counted elsewhere. The log hides some arguments:
where the answer depends on one of them, it is "unclear".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from catalog.conditions.definitions import FIXED
from catalog.policy import asking, rules
from catalog.policy.asking import Ask
from catalog.policy.changes import NO_CHANGE, Change
from catalog.policy.definitions import GrantRule, Item, Rule, Snapshot, ToolDefinition
from catalog.policy.matching import Arguments, CheckTime, Hides, Matcher, hides_nothing
from catalog.policy.rules import Requester

ALLOW: Final = "allow"
DENY: Final = "deny"
ASK: Final = "ask"
UNCLEAR: Final = "unclear"


@dataclass(frozen=True, slots=True)
class Sent:
    """What a client sent, or what the log shows of it."""

    arguments: Mapping[str, Any] | None
    """None: nothing of them is known."""
    hides: Hides = hides_nothing
    """Whether a value in them stands for one that the log does not show."""


@dataclass(frozen=True, slots=True)
class Answer:
    kind: str
    """allow | deny | ask | unclear"""
    rule: Rule | None = None
    """The rule that allowed or denied it; None for an unclear one."""
    asks: tuple[Ask, ...] = ()
    looked: bool = False
    """Whether it depended on what the arguments are."""


def answer(
    catalogue: Snapshot,
    requester: Requester,
    item: Item,
    now: float,
    environment: str,
    sent: Sent,
    *,
    change: Change = NO_CHANGE,
    known: Collection[int] = (),
    check_time: CheckTime = lambda: None,
) -> Answer:
    """Return the answer to a call of an item by one person.

    A value that a grant fixes may be missing or the same: a client that sees the grant leaves it out. `known`: ids of
    the rules for the first time with a value whose value is known. Raises BudgetError beyond the budget of patterns,
    and what `check_time` raises.
    """
    refusal = _refuse(catalogue, requester, item)
    if refusal is not None:
        return Answer(DENY, refusal)
    grants = change.find_grants(catalogue, requester, item, environment)
    case = _Case(catalogue, requester, item, now, change, grants, frozenset(known))
    hides = _hides_all if sent.arguments is None else sent.hides
    found: list[Answer] = []
    for lenient in (False, True):
        matcher = Matcher(catalogue, requester.user_id, item, check_time, hides, lenient=lenient)
        found.append(case.decide(sent.arguments or {}, matcher))
        if not matcher.met_hidden:
            return found[-1]
    return found[0] if found[0].kind == found[1].kind else Answer(UNCLEAR, looked=True)


def _hides_all(value: Any) -> bool:
    return True


def _refuse(catalogue: Snapshot, requester: Requester, item: Item) -> Rule | None:
    """Return the rule that denies the item to this person before any grant is looked at."""
    present = catalogue.items.get((item.kind, item.id))
    if present is None:
        return rules.NOT_AVAILABLE
    if present.quarantined:
        return rules.quarantine_rule(present)
    member = catalogue.members.get(requester.user_id)
    if member is None or not member.is_active:
        return rules.NO_USER if member is None else rules.INACTIVE
    if requester.toolset_ids is not None and requester.toolset_ids.isdisjoint(item.toolset_ids):
        return rules.OTHER_TOOLSETS
    return None


@dataclass(frozen=True, slots=True)
class _Case:
    catalogue: Snapshot
    requester: Requester
    item: Item
    now: float
    change: Change
    grants: list[GrantRule]
    known: frozenset[int]

    def decide(self, sent: Mapping[str, Any], matcher: Matcher) -> Answer:
        in_force = [grant for grant in self.grants if rules.is_in_force(grant, self.now)]
        denials = [grant for grant in in_force if grant.effect == "deny"]
        allowing = [grant for grant in in_force if grant.effect == "allow"]
        for grant in denials:
            if not grant.conditions:
                return Answer(DENY, grant.rule)
        if not allowing:
            return Answer(DENY, rules.NO_GRANT)
        looked = bool(denials) or all(grant.conditions for grant in allowing)
        given = self._find_allowed(allowing, denials, sent, matcher)
        if isinstance(given, Rule):
            return Answer(DENY, given, looked=looked)
        grant, arguments = given
        if not isinstance(self.item, ToolDefinition):
            return Answer(ALLOW, grant.rule, looked=looked)
        asks = asking.match(
            self.catalogue, self.item, self.grants, matcher, arguments, self.now, self.known, self.change
        ).asks
        looked = looked or self._ask_depends()
        return Answer(ASK if asks else ALLOW, grant.rule, asks, looked)

    def _find_allowed(
        self, allowing: list[GrantRule], denials: list[GrantRule], sent: Mapping[str, Any], matcher: Matcher
    ) -> tuple[GrantRule, Arguments] | Rule:
        """Return the first grant that allows the call, in the order of a form, with the arguments; else what denies."""
        denied: Rule = rules.UNFIT
        for grant in sorted(allowing, key=_in_order):
            arguments = matcher.fill(grant, sent)
            if arguments is None:
                continue
            denial = next((one for one in denials if matcher.denies(one, arguments)), None)
            if denial is None:
                return grant, arguments
            denied = denial.rule
        return denied

    def _ask_depends(self) -> bool:
        """Return whether arguments decide if the call asks."""
        assert isinstance(self.item, ToolDefinition)  # noqa: S101 - nothing else is asked about
        if any(grant.skips_approval and grant.conditions for grant in self.grants):
            return True
        found = self.change.find_asks(self.catalogue, self.item)
        for grant in self.grants if self.change.has_asks_of_grants(self.catalogue) else ():
            found += self.change.find_asks_of_grant(self.catalogue, grant.id)
        return any(rule.conditions or rule.first_time for rule in found)


def _in_order(grant: GrantRule) -> tuple[bool, bool, int]:
    """Return the key by which `Permission.build` orders what grants allow."""
    fixes = any(one.operator == FIXED for one in grant.conditions)
    return bool(grant.conditions), fixes, grant.id
