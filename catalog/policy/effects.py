"""The effect of a change of grants before it is made: who gets, keeps and loses access, to which arguments. Pure.

changed = with_grants(snapshot, add=[rule], remove={7})
effect = compare(snapshot, changed, items, now, environment)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from catalog.conditions.constraints import Constraint
from catalog.conditions.definitions import Condition
from catalog.conditions.expectations import BELONGS_TO
from catalog.conditions.forms import Form
from catalog.policy import rules
from catalog.policy.definitions import GrantRule, Item, Member, Snapshot
from catalog.policy.rules import Requester

MAX_DECISIONS = 100_000
"""Maximum work of one comparison, in decisions about a person with few grants and one item: a second at most."""
GRANTS_PER_DECISION = 8
"""Grants of one person that cost as much to go through as a decision does without them."""
SHARED_FORM_DECISIONS, PERSONAL_FORM_DECISIONS = 10, 100
"""What a grant with conditions costs more: people share a form, unless a value list makes one for each of them."""
Permitted: TypeAlias = tuple[
    frozenset[tuple[tuple[Constraint, ...], tuple[Condition, ...], tuple[str, ...] | None]],
    frozenset[tuple[Constraint, ...]],
]
"""What may be sent, whichever grants say so: the alternatives, and what is denied."""
_EVERYTHING: Permitted = (frozenset({((), (), None)}), frozenset())


@dataclass(frozen=True, slots=True)
class Effect:
    """What a change does here and now."""

    gaining: int
    """The number of people who get access to an item that they do not have now."""
    losing: int
    """The number of people who lose access to an item that they have now."""
    changing: int = 0
    """The number of people who keep access to an item, with other conditions on its arguments."""
    exact: bool = True
    """False: too many people, items and grants to decide on. Then `gaining` is everyone whom the change reaches."""


def with_grants(snapshot: Snapshot, *, add: Iterable[GrantRule] = (), remove: Collection[int] = ()) -> Snapshot:
    """Return a catalogue with these grants as well, and without those of the given ids.

    The added ones get ids of their own, below 0: a person's conditions are told apart by the ids of their grants.
    """
    added = [replace(rule, id=-number) for number, rule in enumerate(add, 1)]
    grants = (*(rule for rule in snapshot.grants if rule.id not in remove), *added)
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
    """Count the people who gain, lose and keep access to any of the items between two catalogues."""
    conditional = _find_conditional([*before.grants, *after.grants], items)
    if sum(_cost(before, user_id, conditional) for user_id in people) * len(items) > MAX_DECISIONS:
        return Effect(len(people), 0, exact=False)
    gaining = losing = changing = 0
    for user_id in people:
        asked = Requester(user_id)
        gains = loses = changes = False
        for item in items:
            old, new = (rules.decide(catalogue, asked, item, now, environment) for catalogue in (before, after))
            gains = gains or (new.visible and not old.visible)
            loses = loses or (old.visible and not new.visible)
            both = old.visible and new.visible
            changes = changes or (both and _permitted(old.form) != _permitted(new.form))
        gaining, losing, changing = gaining + gains, losing + loses, changing + changes
    return Effect(gaining, losing, changing)


def find_denials(
    snapshot: Snapshot, people: Iterable[int], items: Iterable[Item], environments: Collection[str], now: float
) -> list[GrantRule]:
    """Return the denials in force that hide any of the items from any of the people, through whatever subject.

    Those with conditions count as well: they hide some of the calls. `environments`: those that matter; empty for all.
    """
    users, groups = set(people), set[int]()
    for user_id in users:
        groups.update(snapshot.members[user_id].group_ids)
    targets = _list_targets(items)
    reached: dict[str, Collection[int | None]] = {"user": users, "group": groups, "everyone": {None} if users else ()}
    return [
        rule
        for rule in snapshot.grants
        if rule.effect == "deny"
        and (rule.target_kind, rule.target_id) in targets
        and rule.subject_id in reached[rule.subject_kind]
        and rules.is_in_force(rule, now)
        and any(rules.is_switched_on(snapshot, rule, user_id) for user_id in users)
        and (not environments or any(rules.applies_in(rule, one) for one in environments))
    ]


def _list_targets(items: Iterable[Item]) -> set[tuple[str, int]]:
    """Return the targets of all grants of these items."""
    found: set[tuple[str, int]] = set()
    for item in items:
        found |= {(item.kind, item.id), *(("toolset", key) for key in item.toolset_ids)}
    return found


def _permitted(form: Form | None) -> Permitted:
    if form is None:
        return _EVERYTHING
    alternatives = frozenset(
        (way.alternative.constraints, way.alternative.fixed, way.alternative.only) for way in form.ways
    )
    return alternatives, frozenset(denial.constraints for denial in form.permission.denials)


def _find_conditional(grants: Iterable[GrantRule], items: Iterable[Item]) -> dict[tuple[str, int | None], int]:
    """Return what the conditions of the grants of these items cost for one person, by the subjects of the grants."""
    targets = _list_targets(items)
    found: dict[tuple[str, int | None], int] = {}
    for rule in {rule.id: rule for rule in grants if rule.conditions}.values():
        if (rule.target_kind, rule.target_id) in targets:
            is_personal = any(one.operator == BELONGS_TO for one in rule.conditions)
            subject = (rule.subject_kind, rule.subject_id)
            cost = PERSONAL_FORM_DECISIONS if is_personal else SHARED_FORM_DECISIONS
            found[subject] = found.get(subject, 0) + cost
    return found


def _cost(snapshot: Snapshot, user_id: int, conditional: Mapping[tuple[str, int | None], int]) -> int:
    number = len(snapshot.grants_by_user.get(user_id, ())) + len(snapshot.grants_to_everyone)
    member = snapshot.members[user_id]
    number += sum(len(snapshot.grants_by_group.get(key, ())) for key in member.group_ids)
    forms = conditional.get(("user", user_id), 0) + conditional.get(("everyone", None), 0)
    forms += sum(conditional.get(("group", key), 0) for key in member.group_ids)
    return 1 + number // GRANTS_PER_DECISION + forms


def _reaches(subjects: Collection[tuple[str, int | None]], user_id: int, member: Member) -> bool:
    if ("everyone", None) in subjects or ("user", user_id) in subjects:
        return True
    return any(("group", key) in subjects for key in member.group_ids)
