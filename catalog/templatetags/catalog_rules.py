"""Grants and limits in the language of the page, where a template has only their rows."""

from __future__ import annotations

from django import template

from catalog.policy import messages

register = template.Library()


@register.filter
def rule_text(rule: object) -> str:
    """Return a grant or limit as a sentence; any other row as its own text."""
    return messages.name_row(rule)
