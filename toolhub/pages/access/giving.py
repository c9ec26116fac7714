"""Giving access: a grant made of who, what, until when, where and why. Pages that give access call `give`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from catalog.policy import grant_changes
from catalog.policy.grant_changes import ALLOW, GrantChange, Plan, Subject, Target

GIVE_PERMISSIONS = (
    "catalog.add_grant",
    "catalog.view_grant",
    "catalog.view_tool",
    "catalog.view_toolset",
    "auth.view_user",
    "auth.view_group",
)
"""What a page needs that gives access: the form names people, groups, tools and grants."""
REVOKE_PERMISSIONS = ("catalog.view_grant", "catalog.change_grant", "catalog.delete_grant")
"""What revoking a grant needs: it ends, and one that has not begun yet is deleted."""


def give(
    who: Sequence[Subject],
    what: Sequence[Target],
    *,
    until: datetime | None = None,
    where: Sequence[str] = (),
    why: str = "",
    effect: str = ALLOW,
    reviewed: str | None = None,
) -> tuple[Plan, bool]:
    """Grant (or deny) each target to each subject, from now on; return the plan, and whether it was carried out.

    `until`: None for no end. `where`: environments, empty for all. Grants that exist already are kept and not doubled.
    `reviewed`: the digest of the plan that a person saw; a plan that differs by now is not carried out. The caller
    checks GIVE_PERMISSIONS. Raises TooManyPairs, and ValidationError for a row that cannot be saved.
    """
    change = GrantChange(effect, tuple(what), tuple(who), None, until, tuple(where), why)
    return grant_changes.carry_out(change, Plan.build(change).digest if reviewed is None else reviewed)
