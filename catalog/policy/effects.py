"""The effect of a change of grants before it is made: who would get access to what, and who would lose it. Pure.

changed = with_grants(snapshot, add=[rule], remove={7})
effect = compare(snapshot, changed, items, now, environment)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from catalog.policy import rules
from catalog.policy.definitions import GrantRule, Item, Member, Snapshot
from catalog.policy.rules import Requester

MAX_DECISIONS = 100_000
"""Maximum work of one comparison, in decisions about a person with few grants and one item: a second at most."""
GRANTS_PER_DECISION = 8
"""Grants of one person that cost as much to go through as a decision does without them."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What a change does here and now."""

    gaining: int
    """The number of people who get access to an item that they do not have now."""
    losing: int
    """The number of people who lose access to an item that they have now."""
    exact: bool = True
    """False: too many people, items and grants to decide on. Then `gaining` is everyone whom the change reaches."""


def with_grants(snapshot: Snapshot, *, add: Iterable[GrantRule] = (), remove: Collection[int] = ()) -> Snapshot:
    """Return a catalogue with these grants as well, and without those of the given ids."""
    grants = (*(rule for rule in snapshot.grants if rule.id not in remove), *add)
    indexes: dict[str, dict[int, list[GrantRule]]] = {"user": {}, "group": {}}
    for rule in grants:
        if rule.subject_id is not None:
            indexes[rule.subject_kind].setdefault(rule.subject_id, []).append(rule)
    return replace(
        snapshot,
        grants=grants,
        grants_by_user={key: tuple(found) for key, found in indexes["user"].items()},
        grants_by_group={key: tuple(found) for key, found in indexes["group"].items()},
        grants_to_everyone=tuple(rule for rule in grants if rule.subject_kind == "everyone"),
        grants_by_id={rule.id: rule for rule in grants},
    )


def find_items(snapshot: Snapshot, targets: Iterable[tuple[str, int]]) -> list[Item]:
    """Return the items of these targets: tools, resources, prompts, and all that is in a toolset."""
    found: dict[tuple[str, int], Item] = {}
    for kind, key in targets:
        item = snapshot.items.get((kind, key))
        items = snapshot.by_toolset.get(key, ()) if kind == "toolset" else () if item is None else (item,)
        found |= {(one.kind, one.id): one for one in items}
    return list(found.values())


def find_people(snapshot: Snapshot, subjects: Collection[tuple[str, int | None]]) -> list[int]:
    """Return the active users whom these subjects (user, group, everyone, with their keys) reach."""
    return [
        user_id
        for user_id, member in snapshot.members.items()
        if member.is_active and _reaches(subjects, user_id, member)
    ]


def compare(
    before: Snapshot, after: Snapshot, people: Sequence[int], items: Sequence[Item], now: float, environment: str
) -> Effect:
    """Count the people who gain and lose access to any of the items between two catalogues."""
    if sum(_cost(before, user_id) for user_id in people) * len(items) > MAX_DECISIONS:
        return Effect(len(people), 0, exact=False)
    gaining = losing = 0
    for user_id in people:
        asked = Requester(user_id)
        changes = {
            tuple(rules.decide(catalogue, asked, item, now, environment).visible for catalogue in (before, after))
            for item in items
        }
        gaining += (False, True) in changes
        losing += (True, False) in changes
    return Effect(gaining, losing)


def find_denials(
    snapshot: Snapshot, people: Iterable[int], items: Iterable[Item], environments: Collection[str], now: float
) -> list[GrantRule]:
    """Return the denials in force that hide any of the items from any of the people, through whatever subject.

    `environments`: those that matter; empty for all.
    """
    users, groups = set(people), set[int]()
    for user_id in users:
        groups.update(snapshot.members[user_id].group_ids)
    targets: set[tuple[str, int]] = set()
    for item in items:
        targets |= {(item.kind, item.id), *(("toolset", key) for key in item.toolset_ids)}
    reached: dict[str, Collection[int | None]] = {"user": users, "group": groups, "everyone": {None} if users else ()}
    return [
        rule
        for rule in snapshot.grants
        if rule.effect == "deny"
        and (rule.target_kind, rule.target_id) in targets
        and rule.subject_id in reached[rule.subject_kind]
        and rules.is_in_force(rule, now)
        and (not environments or any(rules.applies_in(rule, one) for one in environments))
    ]


def _cost(snapshot: Snapshot, user_id: int) -> int:
    number = len(snapshot.grants_by_user.get(user_id, ())) + len(snapshot.grants_to_everyone)
    member = snapshot.members[user_id]
    number += sum(len(snapshot.grants_by_group.get(key, ())) for key in member.group_ids)
    return 1 + number // GRANTS_PER_DECISION


def _reaches(subjects: Collection[tuple[str, int | None]], user_id: int, member: Member) -> bool:
    if ("everyone", None) in subjects or ("user", user_id) in subjects:
        return True
    return any(("group", key) in subjects for key in member.group_ids)
