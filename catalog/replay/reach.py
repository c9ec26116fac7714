"""Which calls a change of the catalogue can reach: everything else has the same answer without and with it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, TypeAlias, TypeVar

from catalog.conditions import measures
from catalog.conditions.expectations import BELONGS_TO
from catalog.policy.changes import Change
from catalog.policy.definitions import (
    AskRule,
    GrantRule,
    Item,
    LimitRule,
    Member,
    ResourceDefinition,
    Snapshot,
    ToolDefinition,
    find_reached,
)

AnyRule: TypeAlias = GrantRule | AskRule | LimitRule
Key: TypeAlias = tuple[str, int]
Users: TypeAlias = frozenset[int] | None
"""Ids of people; None: everybody."""
R = TypeVar("R", GrantRule, AskRule, LimitRule)
KINDS: Final = {"tools/call": "tool", "prompts/get": "prompt", "resources/read": "resource"}
"""The methods whose calls have an item, with its kind."""


@dataclass(frozen=True, slots=True)
class Reach:
    touched: Mapping[Key, Users]
    """Items of which a rule or the definition is another one, with the people for whom it is."""
    counted: frozenset[int]
    """Ids of tools that share a limit with one that is touched: what that may run decides what is left for them.
    Those that are touched and have a limit are among them.
    """
    counted_users: Users
    """The people whose calls of these tools count."""
    names: frozenset[tuple[str, str]]
    """Kinds and names of items that only the catalogue after the change has."""

    @property
    def items(self) -> frozenset[Key]:
        """Return the items of which calls are compared."""
        return frozenset(self.touched) | {("tool", number) for number in self.counted}

    @property
    def users(self) -> Users:
        """Return the people whose calls are compared."""
        return _union([*self.touched.values(), self.counted_users if self.counted else frozenset()])

    def touches(self, key: Key, user_id: int) -> bool:
        """Return whether the rules or the definition of this item are others for this person."""
        if key not in self.touched:
            return False
        users = self.touched[key]
        return users is None or user_id in users

    def has(self, key: Key, user_id: int) -> bool:
        """Return whether calls of this item by this person are compared."""
        if self.touches(key, user_id):
            return True
        counted = key[0] == "tool" and key[1] in self.counted
        return counted and (self.counted_users is None or user_id in self.counted_users)


def apply(snapshot: Snapshot, change: Change) -> Snapshot:
    """Return the catalogue as it would be after the change."""
    return rebuild(
        snapshot,
        grants=[rule for rule in snapshot.grants if rule.id not in change.removed_grants] + [*change.grants],
        asks=[rule for rule in all_asks(snapshot) if rule.id not in change.removed_asks] + [*change.asks],
        limits=[rule for rule in snapshot.limits if rule.id not in change.removed_limits] + [*change.limits],
    )


def rebuild(
    snapshot: Snapshot, *, grants: Iterable[GrantRule], asks: Iterable[AskRule], limits: Iterable[LimitRule]
) -> Snapshot:
    """Return the catalogue with these rules; those in trial are left out."""
    return Snapshot.build(
        revision=snapshot.revision,
        items=snapshot.items.values(),
        grants=sorted(grants, key=lambda rule: rule.id),
        limits=sorted(limits, key=lambda rule: rule.id),
        members=snapshot.members,
        value_lists=snapshot.value_lists,
        flags=snapshot.flags,
        asks=sorted(asks, key=lambda rule: rule.id),
    )


def all_asks(snapshot: Snapshot) -> list[AskRule]:
    """Return the approval rules that can ask about something, each once."""
    groups = [*snapshot.asks_by_tool.values(), *snapshot.asks_by_grant.values()]
    return list({id(rule): rule for group in groups for rule in group}.values())


def find(before: Snapshot, after: Snapshot) -> Reach:
    """Return what differs between two catalogues, as far as it can decide about a call."""
    found = _Search(before, after)
    found.add_items()
    if _describe_members(before.members) != _describe_members(after.members):
        for key in {*before.items, *after.items}:
            found.touched[key] = None
        return found.end()
    _add_rules(found, before.grants, after.grants)
    _add_rules(found, all_asks(before), all_asks(after))
    _add_rules(found, before.limits, after.limits)
    lists = _differing(before.value_lists, after.value_lists)
    flags = _differing(before.flags, after.flags)
    for rule in (*before.grants, *after.grants) if lists or flags else ():
        if rule.flags & flags or _uses(rule, lists):
            found.add_rule(rule)
    for ask in (*all_asks(before), *all_asks(after)) if lists else ():
        if _uses(ask, lists):
            found.add_rule(ask)
    return found.end()


def _add_rules(found: _Search, before: Collection[R], after: Collection[R]) -> None:
    """Add the rules that only one of the two has."""
    shared = {id(rule) for rule in before} & {id(rule) for rule in after}
    old = {_describe(rule): rule for rule in before if id(rule) not in shared}
    new = {_describe(rule): rule for rule in after if id(rule) not in shared}
    for key in old.keys() ^ new.keys():
        found.add_rule(old[key] if key in old else new[key])


class _Search:
    def __init__(self, before: Snapshot, after: Snapshot) -> None:
        self.sides = (before, after)
        self.touched: dict[Key, Users] = {}
        self.names: set[tuple[str, str]] = set()

    def add_items(self) -> None:
        """Add the items of which the definition, or what hides it, is another one."""
        before, after = self.sides
        for key in {*before.items, *after.items}:
            old, new = before.items.get(key), after.items.get(key)
            if old is new:
                continue
            if old is None or new is None or _describe_item(old, before) != _describe_item(new, after):
                self.touched[key] = None
            if old is None and new is not None:
                self.names.add((new.kind, new.uri if isinstance(new, ResourceDefinition) else new.name))

    def add_rule(self, rule: AnyRule) -> None:
        """Add the items of a rule, for the people whom it reaches."""
        for side in self.sides:
            users = _find_users(rule, side)
            for item in find_reached(rule, side.grants_by_id, side.items, side.by_toolset):
                before = self.touched.get((item.kind, item.id), frozenset())
                self.touched[item.kind, item.id] = _union([before, users])

    def end(self) -> Reach:
        """Return the result, with the tools that share a limit with what was added."""
        limited = {number for kind, number in self.touched if kind == "tool"}
        by_rule: dict[int, set[int]] = {}
        rules: dict[int, LimitRule] = {}
        for side in self.sides:
            for tool_id, found in side.limits_by_tool.items():
                for rule in found:
                    rules[id(rule)] = rule
                    by_rule.setdefault(id(rule), set()).add(tool_id)
        by_tool: dict[int, set[int]] = {}
        for rule_id, tools in by_rule.items():
            for tool_id in tools:
                by_tool.setdefault(tool_id, set()).add(rule_id)
        pending, met = [number for number in limited if number in by_tool], set[int]()
        counted = set(pending)
        while pending:
            for rule_id in by_tool[pending.pop()] - met:
                met.add(rule_id)
                if rules[rule_id].measure in measures.LOOPS:
                    continue  # each tool has its own
                pending += by_rule[rule_id] - counted
                counted |= by_rule[rule_id]
        users: Users = _union(self.touched[key] for key in self.touched if key[0] == "tool" and key[1] in counted)
        if any(rules[rule_id].scope == "everyone_together" for rule_id in met):
            users = None
        groups = [rules[rule_id] for rule_id in met if rules[rule_id].scope == "group_together"]
        users = _union([users, *(_find_users(rule, side) for rule in groups for side in self.sides)])
        return Reach(self.touched, frozenset(counted), users, frozenset(self.names))


def _union(groups: Iterable[Users]) -> Users:
    found: set[int] = set()
    for one in groups:
        if one is None:
            return None
        found |= one
    return frozenset(found)


def _find_users(rule: AnyRule, side: Snapshot) -> Users:
    if isinstance(rule, AskRule):
        grant = side.grants_by_id.get(rule.target_id or 0) if rule.target_kind == "grant" else None
        return None if grant is None else _find_users(grant, side)
    subject = rule.subject_kind if isinstance(rule, GrantRule) else rule.scope
    if subject == "user" and rule.subject_id is not None:
        return frozenset({rule.subject_id})
    if subject in ("group", "each_member", "group_together"):
        return frozenset(key for key, member in side.members.items() if rule.subject_id in member.group_ids)
    return None


def _uses(rule: GrantRule | AskRule, lists: Collection[str]) -> bool:
    return any(one.operator == BELONGS_TO and one.value in lists for one in rule.conditions) if lists else False


def _differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(name for name in {*before, *after} if before.get(name) != after.get(name))


def _describe(rule: AnyRule) -> tuple[Any, ...]:
    """Return what makes a rule what it is: rules of two loads are equal, and no longer the same objects."""
    return tuple(getattr(rule, one.name) for one in fields(rule))


def _describe_item(item: Item, side: Snapshot) -> tuple[Any, ...]:
    found = (item.hash, item.toolset_ids, item.quarantined, item.quarantine_code, item.unpinned)
    return (*found, *_describe_use(item, side)) if isinstance(item, ToolDefinition) else found


def _describe_use(tool: ToolDefinition, side: Snapshot) -> tuple[Any, ...]:
    """Return what decides how much a call takes from limits, as far as the tool has such limits."""
    costs = any(rule.measure == measures.COST for rule in side.limits_by_tool.get(tool.id, ()))
    loops = any(rule.measure in measures.LOOPS for rule in side.limits)
    return (
        (tool.cost, tool.cost_argument, tool.cost_per_kilobyte) if costs else None,
        tool.polling if loops else None,
    )


def _describe_members(members: Mapping[int, Member]) -> dict[int, tuple[bool, frozenset[int]]]:
    return {key: (member.is_active, member.group_ids) for key, member in members.items()}
