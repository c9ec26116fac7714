"""Approvals on other pages: the link with its number in the navigation, and the requests of one call."""

from __future__ import annotations

from typing import Any

from django import template
from django.db.models import Q

from audit.models import Call
from catalog.approvals import inbox
from catalog.models import Approval

register = template.Library()


@register.inclusion_tag("catalog/approvals_link.html", takes_context=True)
def approvals_link(context: dict[str, Any]) -> dict[str, Any]:
    """Show the link to approvals with the number that wait; nothing for people who have nothing to approve."""
    return {"summary": inbox.summarise(context["request"].user), "is_open": context.get("section") == "approvals"}


@register.inclusion_tag("catalog/call_approvals.html", takes_context=True)
def call_approvals(context: dict[str, Any], call: Call) -> dict[str, Any]:
    """Link a call of the signed-in user to the requests that it made, and to the approvals that allowed it."""
    rows = Approval.objects.filter(Q(call_id=call.pk) | Q(used_by=call.pk), user=context["request"].user.pk)
    return {"call": call, "rows": list(rows.order_by("created", "pk"))}
