"""Approvers of approval rules: how many people can approve, what they can, and the rules for which nobody can."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from django.contrib.auth.models import User
from django.db.models import Count, IntegerField, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils.translation import gettext, ngettext

from catalog.models import ApprovalRule
from toolhub.chinese import close_blanks
from toolhub.invisible import show

MAX_NAMED_RULES: Final = 10


def with_approvers(rows: QuerySet[ApprovalRule]) -> QuerySet[Any]:
    """Return the rules with `approver_count`: the active members of the group that each asks."""
    members: Any = User.groups.through._default_manager.filter(group=OuterRef("group"), user__is_active=True)
    counted = members.order_by().values("group").annotate(number=Count("pk")).values("number")
    return rows.annotate(approver_count=Coalesce(Subquery(counted, output_field=IntegerField()), 0))


def count_approvers(rule: ApprovalRule) -> int:
    """Return how many active members the group of a rule has, as the row says it now, saved or not."""
    return User.objects.filter(groups=rule.group_id, is_active=True).count() if rule.group_id is not None else 0


def find_without_approvers(rows: QuerySet[ApprovalRule] | None = None) -> QuerySet[Any]:
    """Return the rules that ask approvers and have none: their group is gone, empty, or has inactive members only."""
    asking = (ApprovalRule.objects.all() if rows is None else rows).filter(asks=ApprovalRule.Asks.APPROVERS)
    return with_approvers(asking).filter(approver_count=0)


def find_rules_of(group_ids: Iterable[int]) -> QuerySet[ApprovalRule]:
    """Return the rules that ask the members of one of these groups."""
    return ApprovalRule.objects.filter(group__in=list(group_ids)).order_by("name")


def describe_losses(group_ids: Iterable[int], viewer: Any) -> str:
    """Return which rules have no approvers any more if these groups go away; empty for none.

    People who may not view rules read only their number.
    """
    rules = find_rules_of(group_ids)
    number = rules.count()
    if not number:
        return ""
    text = ngettext(
        "Without this group, nobody can approve the calls of %(number)s approval rule: they do not run.",
        "Without this group, nobody can approve the calls of %(number)s approval rules: they do not run.",
        number,
    ) % {"number": f"{number:,}"}
    if not viewer.has_perm("catalog.view_approvalrule"):
        return text
    names = [f"“{show(name)}”" for name in rules.values_list("name", flat=True)[:MAX_NAMED_RULES]]
    if number > MAX_NAMED_RULES:
        names.append(gettext("and %(more)s more") % {"more": f"{number - MAX_NAMED_RULES:,}"})
    return close_blanks(f"{text} {gettext('The rules: %(names)s.') % {'names': ', '.join(names)}}")
