"""Access decisions for lists and calls. One pure decision on plain data; every page, list and call uses it.

Denied unless a grant allows; a deny overrides every allow; a disabled item is not in the snapshot at all; a
quarantined item is hidden from everyone; being a superuser grants nothing. The answer names the rule that decided and
the time at which it changes without any change to the catalogue.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from catalog.policy.definitions import (
    GrantRule,
    Item,
    PromptDefinition,
    ResourceDefinition,
    Rule,
    Snapshot,
    ToolDefinition,
    order,
)

NO_USER = Rule("rule.no_user")
INACTIVE = Rule("rule.inactive")
NO_GRANT = Rule("rule.no_grant")
OTHER_TOOLSETS = Rule("rule.other_toolsets")
DISABLED = Rule("rule.disabled")
NOT_OFFERED = Rule("rule.not_offered")
QUARANTINED = Rule("rule.quarantined")
OWN_RESULT = Rule("rule.own_result")


@dataclass(frozen=True, slots=True)
class Who:
    user_id: int
    toolset_ids: frozenset[int] | None = None
    """The toolsets that the token is restricted to; None: no restriction."""


@dataclass(frozen=True, slots=True)
class Decision:
    visible: bool
    rule: Rule
    changes_at: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Visible:
    """All items that one person sees.

    Keys are tool and prompt names, addresses and address templates, in list order.
    """

    tools: dict[str, tuple[ToolDefinition, Rule]]
    resources: dict[str, tuple[ResourceDefinition, Rule]]
    templates: dict[str, tuple[ResourceDefinition, Rule]]
    prompts: dict[str, tuple[PromptDefinition, Rule]]
    changes_at: float | None
    """Earliest time at which this may change without a change to the catalogue (it may also stay the same then)."""
    fingerprints: dict[str, str]
    """tools, resources (with templates), prompts: equal exactly when the lists show the same content."""


def _rules(snapshot: Snapshot, user_id: int) -> tuple[list[GrantRule], Rule]:
    """Return the grants that apply to this user, and the reason that holds when there are none."""
    member = snapshot.members.get(user_id)
    if member is None:
        return [], NO_USER
    if not member.is_active:
        return [], INACTIVE
    rules = [*snapshot.grants_by_user.get(user_id, ()), *snapshot.grants_to_everyone]
    for group_id in member.group_ids:
        rules += snapshot.grants_by_group.get(group_id, ())
    return rules, NO_GRANT


def _next(rules: Iterable[GrantRule], now: float) -> float | None:
    return min((at for rule in rules for at in (rule.starts, rule.ends) if at is not None and at > now), default=None)


def _holds(rule: GrantRule, now: float) -> bool:
    return (rule.starts is None or rule.starts <= now) and (rule.ends is None or now < rule.ends)


def _speaks_in(rule: GrantRule, environment: str) -> bool:
    return not rule.environments or environment in rule.environments


def _targets(rule: GrantRule, item: Item) -> bool:
    if rule.target_kind == "toolset":
        return rule.target_id in item.toolset_ids
    return rule.target_kind == item.kind and rule.target_id == item.id


def _verdict(rules: list[GrantRule], now: float, nothing: Rule) -> tuple[bool, Rule]:
    allowed: GrantRule | None = None
    for rule in rules:
        if _holds(rule, now):
            if rule.effect == "deny":
                return False, rule.rule
            allowed = allowed or rule
    return (True, allowed.rule) if allowed else (False, nothing)


def decide(snapshot: Snapshot, who: Who, item: Item, now: float, environment: str) -> Decision:
    """Decide on one item for one person, with the exact time at which the answer (or its reason) changes by itself."""
    present = snapshot.items.get((item.kind, item.id))
    if present is None:
        return Decision(False, NOT_OFFERED)
    if present.quarantined:
        return Decision(False, QUARANTINED)
    rules, nothing = _rules(snapshot, who.user_id)
    if nothing is not NO_GRANT:
        return Decision(False, nothing)
    if who.toolset_ids is not None and who.toolset_ids.isdisjoint(item.toolset_ids):
        return Decision(False, OTHER_TOOLSETS)
    speaking = [rule for rule in rules if _targets(rule, item) and _speaks_in(rule, environment)]
    speaking.sort(key=_by_id)
    verdict = _verdict(speaking, now, nothing)
    changes_at, moment = None, _next(speaking, now)
    while moment is not None:
        if _verdict(speaking, moment, nothing) != verdict:
            changes_at = moment
            break
        moment = _next(speaking, moment)
    return Decision(*verdict, changes_at)


def decide_all(snapshot: Snapshot, who: Who, now: float, environment: str) -> Visible:
    """Return all items that one person sees.

    The cost depends on the granted items, not on the size of the catalogue.
    """
    rules, _ = _rules(snapshot, who.user_id)
    rules = sorted((rule for rule in rules if _speaks_in(rule, environment)), key=_by_id)
    denied: set[tuple[str, int]] = set()
    allowed: dict[tuple[str, int], tuple[Item, Rule]] = {}
    holding = [rule for rule in rules if _holds(rule, now)]
    for rule in holding:
        if rule.effect == "deny":
            denied.update((item.kind, item.id) for item in _granted(snapshot, rule))
    for rule in holding:
        if rule.effect == "allow":
            for item in _granted(snapshot, rule):
                key = (item.kind, item.id)
                if key not in allowed and key not in denied and not item.quarantined:
                    allowed[key] = (item, rule.rule)
    found: Iterable[tuple[Item, Rule]] = allowed.values()
    if who.toolset_ids is not None:
        found = [pair for pair in found if not who.toolset_ids.isdisjoint(pair[0].toolset_ids)]
    return _visible(sorted(found, key=lambda pair: order(pair[0])), _next(rules, now))


def _by_id(rule: GrantRule) -> int:
    return rule.id


def _granted(snapshot: Snapshot, rule: GrantRule) -> Iterable[Item]:
    if rule.target_kind == "toolset":
        return snapshot.by_toolset.get(rule.target_id, ())
    item = snapshot.items.get((rule.target_kind, rule.target_id))
    return () if item is None else (item,)


def _visible(pairs: list[tuple[Item, Rule]], changes_at: float | None) -> Visible:
    tools: dict[str, tuple[ToolDefinition, Rule]] = {}
    resources: dict[str, tuple[ResourceDefinition, Rule]] = {}
    templates: dict[str, tuple[ResourceDefinition, Rule]] = {}
    prompts: dict[str, tuple[PromptDefinition, Rule]] = {}
    for item, rule in pairs:
        if isinstance(item, ToolDefinition):
            tools[item.name] = (item, rule)
        elif isinstance(item, PromptDefinition):
            prompts[item.name] = (item, rule)
        else:
            (templates if item.is_template else resources)[item.uri] = (item, rule)
    fingerprints = {
        "tools": _fingerprint(pair[0].face for pair in tools.values()),
        "resources": _fingerprint(pair[0].face for found in (resources, templates) for pair in found.values()),
        "prompts": _fingerprint(pair[0].face for pair in prompts.values()),
    }
    return Visible(tools, resources, templates, prompts, changes_at, fingerprints)


def _fingerprint(faces: Iterable[str]) -> str:
    return hashlib.sha256("".join(faces).encode("ascii")).hexdigest()
