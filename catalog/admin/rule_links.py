"""Approval rules on the pages of what they are about: a tool, a toolset, a grant."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from django.db.models import Q, QuerySet
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.translation import gettext, ngettext

from audit.actions import actor
from catalog.approvals import approvers
from catalog.models import ApprovalRule, Grant, Tool, Toolset
from catalog.policy import approval_texts
from toolhub.invisible import show

MAX_LISTED_RULES: Final = 20
RELATED: Final = ("tool", "toolset", "group", "grant__tool", "grant__toolset", "grant__resource", "grant__prompt")
"""What the sentence about a rule reads."""


def list_rules(row: Tool | Toolset | Grant) -> str:
    """Return the approval rules that can ask about calls of a saved row, with links, and one to add another.

    People who may not view rules read only their number.
    """
    user = actor.current_user()
    rules = find_rules(row)
    if user is None or not user.has_perm("catalog.view_approvalrule"):
        number = rules.count()
        return ngettext("%(number)s approval rule", "%(number)s approval rules", number) % {"number": f"{number:,}"}
    found = list(approvers.with_approvers(rules.select_related(*RELATED))[:MAX_LISTED_RULES])
    listed: list[dict[str, Any]] = [
        {
            "name": show(rule.name),
            "address": reverse("admin:catalog_approvalrule_change", args=[rule.pk]),
            "sentence": approval_texts.describe_rule(rule, rule.approver_count),
        }
        for rule in found
    ]
    add = f"{reverse('admin:catalog_approvalrule_add')}?{urlencode({str(row._meta.model_name): row.pk})}"
    context = {
        "rules": listed,
        "more": max(0, rules.count() - len(found)),
        "all": reverse("admin:catalog_approvalrule_changelist"),
        "add": add if user.has_perm("catalog.add_approvalrule") else "",
        "none": gettext("No approval rule asks about these calls."),
    }
    return render_to_string("admin/catalog/rule_links.html", context)


def find_rules(row: Tool | Toolset | Grant) -> QuerySet[ApprovalRule]:
    """Return the rules for a row: of a tool also those of its toolsets and of all tools."""
    rules = ApprovalRule.objects.order_by("name")
    if isinstance(row, Grant):
        return rules.filter(grant=row)
    if isinstance(row, Toolset):
        return rules.filter(Q(toolset=row) | Q(all_tools=True))
    found = Q(tool=row) | Q(toolset__in=row.toolsets.order_by().values("pk")) | Q(all_tools=True)
    if row.read_only or row.destructive is False:
        found &= Q(destructive_only=False)
    return rules.filter(found)
