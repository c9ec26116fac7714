"""Comparison of the stored grants of two users: whether one could use, at any time, what the other cannot use now.

`rules.py` decides what is visible; this is for those who manage accounts, and in doubt it finds a difference.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TypeAlias

from django.conf import settings
from django.db.models import Manager, Q
from django.utils import timezone

from catalog.conditions import definitions, flags
from catalog.conditions.expectations import BELONGS_TO
from catalog.conditions.mistakes import ConditionError
from catalog.models import ApprovalRule, Grant, Limit, ValueListPart
from catalog.policy import loader

Target: TypeAlias = tuple[int | None, int | None, int | None, int | None]
"""The keys of the tool, toolset, resource or prompt: exactly one of them is set."""


def reaches_more(user_id: int, other_id: int) -> bool:
    """Return whether the first user is allowed a target that the second is not, or the second is denied more.

    All grants of the first count, past and future ones and those in trial too, whatever their flags; of the second,
    only those that apply now. A grant with conditions or time windows reaches as much as one with the same ones, and
    less than one without. A tool counts as another target than a toolset that contains it.
    """
    comparison = _Comparison(user_id, other_id, timezone.now())
    mine, theirs = _find_grants(user_id, Grant.everything), _find_grants(other_id, Grant.objects)
    allowed = [grant for grant in mine if grant.effect == Grant.Effect.ALLOW]
    usable = _by_target(grant for grant in theirs if grant.effect == Grant.Effect.ALLOW)
    if not all(any(comparison.allows(one, grant) for one in usable.get(_target(grant), ())) for grant in allowed):
        return True
    if not allowed:
        return False
    protecting = _by_target(grant for grant in mine if grant.effect == Grant.Effect.DENY and not grant.trial)
    denied = [grant for grant in theirs if grant.effect == Grant.Effect.DENY]
    return not all(any(comparison.denies(one, grant) for one in protecting.get(_target(grant), ())) for grant in denied)


def find_groups_with_access(group_ids: frozenset[int]) -> frozenset[int]:
    """Return those of the groups that have grants, denials or limits: whoever joins or leaves changes access.

    Those in trial count: they may be put in force.
    """
    grants = Grant.everything.filter(group__in=group_ids).order_by().values_list("group", flat=True).distinct()
    limits = Limit.everything.filter(group__in=group_ids).order_by().values_list("group", flat=True).distinct()
    return frozenset(key for key in (*grants, *limits) if key is not None)


@dataclass
class _Comparison:
    """Two users, and what tells them apart: the values that lists have for them, and the flags."""

    user_id: int
    other_id: int
    now: datetime
    _same_lists: dict[str, bool] = field(default_factory=dict)
    _percentages: dict[str, int] | None = None

    def allows(self, grant: Grant, hers: Grant) -> bool:
        """Return whether a grant of the second user allows now whatever the grant of the first ever does."""
        if grant.state_at(self.now, settings.ENVIRONMENT) != "in force":
            return False
        if grant.pk != hers.pk and grant.pk in self._asking:
            return False
        return self._is_as_wide(grant, hers) and self._are_on(grant, self.other_id, unknown=False)

    @cached_property
    def _asking(self) -> frozenset[int | None]:
        """The grants whose calls can need an approval."""
        return frozenset(ApprovalRule.objects.exclude(grant=None).values_list("grant", flat=True))

    def denies(self, grant: Grant, theirs: Grant) -> bool:
        """Return whether a denial of the first user denies whatever the denial of the second ever does."""
        if not self._is_as_wide(grant, theirs) or not self._are_on(grant, self.user_id, unknown=True):
            return False
        if grant.pk == theirs.pk:
            return True
        begun = grant.starts is None or grant.starts <= self.now
        outlasts = grant.ends is None or (theirs.ends is not None and theirs.ends <= grant.ends)
        where = set(theirs.environments)
        everywhere = not grant.environments or bool(where and where.issubset(grant.environments))
        return begun and outlasts and everywhere

    def _is_as_wide(self, grant: Grant, other: Grant) -> bool:
        if grant.windows not in ([], other.windows) or grant.conditions not in ([], other.conditions):
            return False
        try:
            names = [one.value for one in definitions.parse(grant.conditions) if one.operator == BELONGS_TO]
        except ConditionError:
            return False
        return all(self._is_same_list(name) for name in names)

    def _are_on(self, grant: Grant, user_id: int, *, unknown: bool) -> bool:
        if not grant.flags:
            return True
        if self._percentages is None:
            self._percentages = loader.load_flags()
        return flags.are_on(grant.flags, self._percentages, user_id, unknown=unknown)

    def _is_same_list(self, name: str) -> bool:
        if name not in self._same_lists:
            self._same_lists[name] = _find_values(name, self.user_id) == _find_values(name, self.other_id)
        return self._same_lists[name]


def _find_values(name: str, user_id: int) -> set[str]:
    """Return the values that a value list has for a user."""
    parts = ValueListPart.objects.filter(_concerns(user_id), value_list__name=name).order_by()
    return {value for entries in parts.values_list("entries", flat=True) for value in entries}


def _find_grants(user_id: int, rows: Manager[Grant]) -> list[Grant]:
    """Return those of the grants that are for a user, their groups or everyone."""
    return list({grant.pk: grant for grant in rows.filter(_concerns(user_id)).order_by()}.values())


def _concerns(user_id: int) -> Q:
    return Q(user=user_id) | Q(group__user=user_id) | Q(everyone=True)


def _by_target(grants: Iterable[Grant]) -> dict[Target, list[Grant]]:
    found: dict[Target, list[Grant]] = {}
    for grant in grants:
        found.setdefault(_target(grant), []).append(grant)
    return found


def _target(grant: Grant) -> Target:
    return grant.tool_id, grant.toolset_id, grant.resource_id, grant.prompt_id
