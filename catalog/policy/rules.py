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
    sort_key,
)

NO_USER = Rule("rule.no_user")
INACTIVE = Rule("rule.inactive")
NO_GRANT = Rule("rule.no_grant")
OTHER_TOOLSETS = Rule("rule.other_toolsets")
DISABLED = Rule("rule.disabled")
NOT_AVAILABLE = Rule("rule.not_offered")
QUARANTINED = Rule("rule.quarantined")
UNPINNED = Rule("rule.unpinned")
REVIEWED = frozenset({"rule.quarantined", "rule.quarantined_gone", "rule.quarantined_rejected"})
"""Codes of the rules that a reviewer can lift."""
OWN_RESULT = Rule("rule.own_result")


@dataclass(frozen=True, slots=True)
class Requester:
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


def reaches_origin(requester: Requester, origin: Iterable[int] | None) -> bool:
    """Return whether a requester reaches what a call left behind: its task, or a result too large to send.

    `origin` has the ids of the tool's toolsets at the time of the call; None, when they are not known, is reached only
    without a restriction. That it is the requester's own call is checked elsewhere.
    """
    if requester.toolset_ids is None:
        return True
    return origin is not None and not requester.toolset_ids.isdisjoint(origin)


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


def _next_change(rules: Iterable[GrantRule], now: float) -> float | None:
    return min((at for rule in rules for at in (rule.starts, rule.ends) if at is not None and at > now), default=None)


def is_in_force(rule: GrantRule, now: float) -> bool:
    """Return whether the grant has started and not ended, whatever its environments."""
    return (rule.starts is None or rule.starts <= now) and (rule.ends is None or now < rule.ends)


def applies_in(rule: GrantRule, environment: str) -> bool:
    """Return whether the grant applies in this environment."""
    return not rule.environments or environment in rule.environments


def _targets(rule: GrantRule, item: Item) -> bool:
    if rule.target_kind == "toolset":
        return rule.target_id in item.toolset_ids
    return rule.target_kind == item.kind and rule.target_id == item.id


def quarantine_rule(item: Item) -> Rule:
    """Return the rule that hides a quarantined item from everyone."""
    return UNPINNED if item.unpinned else Rule(item.quarantine_code)


def _verdict(rules: list[GrantRule], now: float, no_grant_rule: Rule) -> tuple[bool, Rule]:
    allowed: GrantRule | None = None
    for rule in rules:
        if is_in_force(rule, now):
            if rule.effect == "deny":
                return False, rule.rule
            allowed = allowed or rule
    return (True, allowed.rule) if allowed else (False, no_grant_rule)


def decide(snapshot: Snapshot, requester: Requester, item: Item, now: float, environment: str) -> Decision:
    """Decide on one item for one person, with the exact time at which the answer (or its reason) changes by itself."""
    present = snapshot.items.get((item.kind, item.id))
    if present is None:
        return Decision(False, NOT_AVAILABLE)
    if present.quarantined:
        return Decision(False, quarantine_rule(present))
    rules, no_grant_rule = _rules(snapshot, requester.user_id)
    if no_grant_rule is not NO_GRANT:
        return Decision(False, no_grant_rule)
    if requester.toolset_ids is not None and requester.toolset_ids.isdisjoint(item.toolset_ids):
        return Decision(False, OTHER_TOOLSETS)
    applicable = [rule for rule in rules if _targets(rule, item) and applies_in(rule, environment)]
    applicable.sort(key=_by_id)
    verdict = _verdict(applicable, now, no_grant_rule)
    changes_at, change_time = None, _next_change(applicable, now)
    while change_time is not None:
        if _verdict(applicable, change_time, no_grant_rule) != verdict:
            changes_at = change_time
            break
        change_time = _next_change(applicable, change_time)
    return Decision(*verdict, changes_at)


def decide_all(snapshot: Snapshot, requester: Requester, now: float, environment: str) -> Visible:
    """Return all items that one person sees.

    The cost depends on the granted items, not on the size of the catalogue.
    """
    rules, _ = _rules(snapshot, requester.user_id)
    rules = sorted((rule for rule in rules if applies_in(rule, environment)), key=_by_id)
    denied: set[tuple[str, int]] = set()
    allowed: dict[tuple[str, int], tuple[Item, Rule]] = {}
    in_force = [rule for rule in rules if is_in_force(rule, now)]
    for rule in in_force:
        if rule.effect == "deny":
            denied.update((item.kind, item.id) for item in _granted(snapshot, rule))
    for rule in in_force:
        if rule.effect == "allow":
            for item in _granted(snapshot, rule):
                key = (item.kind, item.id)
                if key not in allowed and key not in denied and not item.quarantined:
                    allowed[key] = (item, rule.rule)
    found: Iterable[tuple[Item, Rule]] = allowed.values()
    if requester.toolset_ids is not None:
        found = [pair for pair in found if not requester.toolset_ids.isdisjoint(pair[0].toolset_ids)]
    return _visible(sorted(found, key=lambda pair: sort_key(pair[0])), _next_change(rules, now))


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
        "tools": _fingerprint(pair[0].wire_hash for pair in tools.values()),
        "resources": _fingerprint(pair[0].wire_hash for found in (resources, templates) for pair in found.values()),
        "prompts": _fingerprint(pair[0].wire_hash for pair in prompts.values()),
    }
    return Visible(tools, resources, templates, prompts, changes_at, fingerprints)


def _fingerprint(wire_hashes: Iterable[str]) -> str:
    return hashlib.sha256("".join(wire_hashes).encode("ascii")).hexdigest()
