"""Access decisions for lists and calls. One pure decision on plain data; every page, list and call uses it.

Denied unless a grant allows; a deny overrides every allow; a disabled item is not in the snapshot at all; a
quarantined item is hidden from everyone; being a superuser grants nothing. The answer names the rule that decided and
the time at which it changes without any change to the catalogue.

Where grants have conditions on arguments, the answer has the person's own form of the item: its narrowed definition,
and the judgement of what they send. An item of which they could send nothing is hidden. Without conditions, nothing of
this costs anything.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from catalog.conditions import flags, windows
from catalog.conditions.forms import Form, Permission
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
from catalog.policy.narrowed_items import Narrowed, narrow
from catalog.policy.permissions import PersonalConditions

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
UNFIT = Rule("rule.unfit")
Key: TypeAlias = tuple[str, int]
"""The kind and the id of an item."""
SEARCHED_SECONDS: Final = 15 * 86_400
"""How long after the last start and end a change by time windows is looked for: they repeat every week."""


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
    form: Form | None = None
    """What the person may send, where grants have conditions; also of an item that they hide."""


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
    found = []
    for rule in rules:
        found += [at for at in (rule.starts, rule.ends) if at is not None and at > now]
        if rule.windows and (rule.ends is None or rule.ends > now):
            at = windows.next_change(rule.windows, max(now, rule.starts or now))
            found += [at] if at is not None else []
    return min(found, default=None)


def is_in_force(rule: GrantRule, now: float) -> bool:
    """Return whether the grant applies at this time, whatever its environments."""
    begun = rule.starts is None or rule.starts <= now
    return begun and (rule.ends is None or now < rule.ends) and (not rule.windows or windows.is_open(rule.windows, now))


def is_switched_on(snapshot: Snapshot, rule: GrantRule, user_id: int) -> bool:
    """Return whether all flags of the grant are on for this user."""
    return not rule.flags or flags.are_on(rule.flags, snapshot.flags, user_id, unknown=False)


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


@dataclass(frozen=True, slots=True)
class _Verdict:
    visible: bool
    rule: Rule
    permission: Permission | None = None
    form: Form | None = field(default=None, compare=False)
    """It follows from the permission."""


def _verdict(rules: Sequence[GrantRule], now: float, item: Item, conditions: PersonalConditions) -> _Verdict:
    """Return the verdict of the grants for this item, sorted by id, that apply to one person in this environment."""
    in_force = [rule for rule in rules if is_in_force(rule, now)]
    for rule in in_force:
        if rule.effect == "deny" and not rule.conditions:
            return _Verdict(False, rule.rule)
    allowed = [rule for rule in in_force if rule.effect == "allow"]
    if not allowed:
        return _Verdict(False, NO_GRANT)
    denied = [rule for rule in in_force if rule.effect == "deny"]
    free = next((rule for rule in allowed if not rule.conditions), None)
    if free is not None and not denied:
        return _Verdict(True, free.rule)
    permission = conditions.permission([*allowed, *denied])
    narrowed = narrow(item, permission)
    return _Verdict(narrowed.item is not None, _deciding(narrowed, in_force), permission, narrowed.form)


def _deciding(narrowed: Narrowed, rules: Iterable[GrantRule]) -> Rule:
    """Return the rule of the first grant by which the person may send something, or of the one that denies it all."""
    by_id = {rule.id: rule.rule for rule in rules}
    if narrowed.item is not None:
        return by_id[narrowed.form.ways[0].alternative.grant_id]
    denials = (error.params.get("grant") for error in narrowed.form.misfits.values())
    return next((by_id[number] for number in denials if isinstance(number, int) and number in by_id), UNFIT)


def decide(snapshot: Snapshot, requester: Requester, item: Item, now: float, environment: str) -> Decision:
    """Decide on one item for one person, with the exact time at which the answer (or its reason) changes by itself.

    A change by time windows is looked for until `SEARCHED_SECONDS` after the last start and end of a grant.
    """
    present = snapshot.items.get((item.kind, item.id))
    if present is None:
        return Decision(False, NOT_AVAILABLE)
    if present.quarantined:
        return Decision(False, quarantine_rule(present))
    _, no_grant_rule = _rules(snapshot, requester.user_id)
    if no_grant_rule is not NO_GRANT:
        return Decision(False, no_grant_rule)
    if requester.toolset_ids is not None and requester.toolset_ids.isdisjoint(item.toolset_ids):
        return Decision(False, OTHER_TOOLSETS)
    applicable = find_applicable(snapshot, requester, item, environment)
    conditions = PersonalConditions(snapshot, requester.user_id)
    verdict = _verdict(applicable, now, present, conditions)
    changes_at, change_time = None, _next_change(applicable, now)
    bounds = [at for rule in applicable for at in (rule.starts, rule.ends) if at is not None]
    last = max([now, *bounds]) + SEARCHED_SECONDS
    while change_time is not None and change_time <= last:
        if _verdict(applicable, change_time, present, conditions) != verdict:
            changes_at = change_time
            break
        change_time = _next_change(applicable, change_time)
    return Decision(verdict.visible, verdict.rule, changes_at, verdict.form)


def find_applicable(snapshot: Snapshot, requester: Requester, item: Item, environment: str) -> list[GrantRule]:
    """Return the grants for this person and this item that apply in this environment, at whatever time, by id."""
    rules, _ = _rules(snapshot, requester.user_id)
    found = [rule for rule in rules if _targets(rule, item) and applies_in(rule, environment)]
    return sorted((rule for rule in found if is_switched_on(snapshot, rule, requester.user_id)), key=_by_id)


def applies_to(snapshot: Snapshot, rule: GrantRule, requester: Requester, item: Item, environment: str) -> bool:
    """Return whether a grant, of the snapshot or not, is for this person and this item in this environment."""
    member = snapshot.members.get(requester.user_id)
    if member is None or not member.is_active:
        return False
    reached = rule.subject_kind == "everyone" or (
        requester.user_id == rule.subject_id if rule.subject_kind == "user" else rule.subject_id in member.group_ids
    )
    is_about = reached and _targets(rule, item) and applies_in(rule, environment)
    return is_about and is_switched_on(snapshot, rule, requester.user_id)


def decide_all(snapshot: Snapshot, requester: Requester, now: float, environment: str) -> Visible:
    """Return all items that one person sees, each in the form that they may use.

    The cost depends on the granted items, not on the size of the catalogue.
    """
    rules, _ = _rules(snapshot, requester.user_id)
    rules = [rule for rule in rules if applies_in(rule, environment)]
    rules = sorted((rule for rule in rules if is_switched_on(snapshot, rule, requester.user_id)), key=_by_id)
    denied: set[Key] = set()
    allowed: dict[Key, tuple[Item, GrantRule]] = {}
    in_force = [rule for rule in rules if is_in_force(rule, now)]
    for rule in in_force:
        if rule.effect == "deny" and not rule.conditions:
            denied.update((item.kind, item.id) for item in _granted(snapshot, rule))
    for rule in in_force:
        if rule.effect == "allow" and not rule.conditions:
            for item in _granted(snapshot, rule):
                key = (item.kind, item.id)
                if key not in allowed and key not in denied and not item.quarantined:
                    allowed[key] = (item, rule)
    found = [(item, rule.rule) for item, rule in allowed.values()]
    if any(rule.conditions for rule in in_force):
        found = _with_conditions(snapshot, requester, in_force, denied, allowed)
    if requester.toolset_ids is not None:
        found = [pair for pair in found if not requester.toolset_ids.isdisjoint(pair[0].toolset_ids)]
    return _visible(sorted(found, key=lambda pair: sort_key(pair[0])), _next_change(rules, now))


def _with_conditions(
    snapshot: Snapshot,
    requester: Requester,
    in_force: Iterable[GrantRule],
    denied: Collection[Key],
    free: Mapping[Key, tuple[Item, GrantRule]],
) -> list[tuple[Item, Rule]]:
    """Return the items that are allowed without conditions, narrowed by denials, and those allowed under conditions."""
    applicable: dict[Key, tuple[Item, list[GrantRule]]] = {}
    for rule in in_force:
        for item in _granted(snapshot, rule) if rule.conditions else ():
            key = (item.kind, item.id)
            hidden = key in denied or item.quarantined
            if hidden or (requester.toolset_ids is not None and requester.toolset_ids.isdisjoint(item.toolset_ids)):
                continue
            if rule.effect == "deny" or key not in free:
                applicable.setdefault(key, (item, []))[1].append(rule)
    found = [(item, rule.rule) for key, (item, rule) in free.items() if key not in applicable]
    conditions = PersonalConditions(snapshot, requester.user_id)
    for reached, (item, rules) in applicable.items():
        rules += [free[reached][1]] if reached in free else []
        permission = conditions.permission(rules)
        if permission.alternatives:
            narrowed = narrow(item, permission)
            if narrowed.item is not None:
                found.append((narrowed.item, _deciding(narrowed, rules)))
    return found


def _by_id(rule: GrantRule) -> int:
    return rule.id


def count_narrowed(snapshot: Snapshot, user_id: int, most: int) -> int:
    """Return the number of items that grants with conditions reach for this user, as far as `most`."""
    rules, _ = _rules(snapshot, user_id)
    found = 0
    for rule in rules:
        if rule.conditions:
            found += len(snapshot.by_toolset.get(rule.target_id, ())) if rule.target_kind == "toolset" else 1
            if found >= most:
                return most
    return found


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
