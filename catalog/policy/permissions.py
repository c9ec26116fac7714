"""What grants with conditions permit to one person, with the value lists that reach this person. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from catalog.conditions.expectations import BELONGS_TO
from catalog.conditions.forms import Alternative, Denial, Permission
from catalog.policy.definitions import EMPTY, GrantRule, Snapshot


class PersonalConditions:
    """The conditions of grants for one person, each made once."""

    def __init__(self, snapshot: Snapshot, user_id: int) -> None:
        self._snapshot, self._user_id = snapshot, user_id
        self._lists: dict[str, tuple[str, ...]] = {}
        self._made: dict[int, Alternative | Denial] = {}

    def permission(self, grants: Iterable[GrantRule]) -> Permission:
        """Return what these grants permit together."""
        made = [self._make(rule) for rule in grants]
        alternatives = [one for one in made if isinstance(one, Alternative)]
        return Permission.build(alternatives, [one for one in made if isinstance(one, Denial)])

    def _make(self, rule: GrantRule) -> Alternative | Denial:
        made = self._made.get(rule.id)
        if made is None:
            for one in rule.conditions:
                if one.operator == BELONGS_TO and one.value not in self._lists:
                    self._lists[one.value] = list_values(self._snapshot, one.value, self._user_id)
            kind = Alternative if rule.effect == "allow" else Denial
            names_item = rule.target_kind != "toolset"
            made = self._made[rule.id] = kind.of(rule.id, rule.conditions, self._lists, names_item=names_item)
        return made


def list_values(snapshot: Snapshot, name: str, user_id: int) -> tuple[str, ...]:
    """Return the values that a value list has for this user: their own, those of their groups and of everyone."""
    member = snapshot.members.get(user_id)
    groups = member.group_ids if member is not None else EMPTY
    found: dict[str, None] = {}
    for part in snapshot.value_lists.get(name, ()):
        if part.subject_kind == "user":
            reached = part.subject_id == user_id
        else:
            reached = part.subject_kind == "everyone" or part.subject_id in groups
        if reached:
            found.update(dict.fromkeys(part.entries))
    return tuple(sorted(found))
