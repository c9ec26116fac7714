"""The report of a failed call on its owner's page."""

from __future__ import annotations

from typing import Any

from django import template

from audit.models import Call
from catalog.access_requests import submissions
from catalog.models.access_requests import MAX_TEXT_CHARACTERS
from toolhub.invisible import show

register = template.Library()


@register.inclusion_tag("catalog/call_report.html", takes_context=True)
def call_report(context: dict[str, Any], call: Call) -> dict[str, Any]:
    """Show the owner's report of a call and its answer, or the form for one; nothing for a call that did not fail."""
    found = submissions.find_report(context["request"].user.pk, call.pk) if submissions.can_report(call) else None
    return {
        "call": call,
        "can_report": submissions.can_report(call) and (found is None or not found.is_open),
        "report": found,
        "comment": show(found.comment) if found is not None else "",
        "answer": show(found.answer) if found is not None else "",
        "max_length": MAX_TEXT_CHARACTERS,
        "csrf_token": context.get("csrf_token"),
    }
