"""Comparison of the stored grants of two users: whether one could use, at any time, what the other cannot use now.

`rules.py` decides what is visible; this is for those who manage accounts, and in doubt it finds a difference.
"""

from __future__ import annotations

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from catalog.models import Grant, Limit

Target = tuple[int | None, int | None, int | None, int | None]
"""The keys of the tool, toolset, resource or prompt: exactly one of them is set."""


def reaches_more(user_id: int, other_id: int) -> bool:
    """Return whether the first user is allowed a target that the second is not, or the second is denied more.

    All grants of the first count, past and future ones too; of the second, only those in force now. A tool counts as
    another target than a toolset that contains it.
    """
    allowed = _find_targets(user_id, Grant.Effect.ALLOW)
    if allowed - _find_targets(other_id, Grant.Effect.ALLOW, in_force=True):
        return True
    return bool(allowed and _find_targets(other_id, Grant.Effect.DENY) - _find_targets(user_id, Grant.Effect.DENY))


def find_groups_with_access(group_ids: frozenset[int]) -> frozenset[int]:
    """Return those of the groups that have grants, denials or rate limits: whoever joins or leaves changes access."""
    grants = Grant.objects.filter(group__in=group_ids).order_by().values_list("group", flat=True).distinct()
    limits = Limit.objects.filter(group__in=group_ids).order_by().values_list("group", flat=True).distinct()
    return frozenset(key for key in (*grants, *limits) if key is not None)


def _find_targets(user_id: int, effect: str, *, in_force: bool = False) -> set[Target]:
    """Return the targets of the grants of a user with this effect; with `in_force`, only of those that apply now."""
    mine = Grant.objects.filter(Q(user=user_id) | Q(group__user=user_id) | Q(everyone=True), effect=effect).order_by()
    if in_force:
        now = timezone.now()
        mine = mine.filter(Q(starts=None) | Q(starts__lte=now), Q(ends=None) | Q(ends__gt=now))
    rows = mine.values_list("tool", "toolset", "resource", "prompt", "environments")
    return {
        (tool, toolset, resource, prompt)
        for tool, toolset, resource, prompt, environments in rows
        if not in_force or not environments or settings.ENVIRONMENT in environments
    }
