"""Grants and limits in the language of the page, where a template has only what they write of themselves."""

from __future__ import annotations

from django import template

from catalog.policy import messages

register = template.Library()


@register.filter
def said(rule: object) -> str:
    """Any other text stays as it is."""
    return messages.said(str(rule))
