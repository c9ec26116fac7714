"""Limits in words."""

from __future__ import annotations

from django import template
from django.utils import timezone
from django.utils.translation import gettext

from catalog.conditions import definitions
from catalog.metering.limits import Remaining
from catalog.policy import limit_texts
from catalog.policy.definitions import LimitRule, ToolDefinition
from toolhub.invisible import show

register = template.Library()


@register.filter
def describe_limit(limit: Remaining | LimitRule) -> str:
    """Return what a limit allows, in words."""
    return limit_texts.describe_limit(limit.measure, limit.rate)


@register.filter
def describe_left(remaining: Remaining) -> str:
    """Return what is left of a limit, in words."""
    return limit_texts.describe_left(remaining.measure, remaining.left, remaining.limit)


@register.filter
def describe_reset(remaining: Remaining) -> str:
    """Return when a limit resets; empty for one of which all is left, and for calls at a time."""
    if remaining.left >= remaining.limit or not remaining.seconds:
        return ""
    return limit_texts.describe_reset(remaining.rate, remaining.seconds, timezone.now())


@register.filter
def describe_left_and_reset(remaining: Remaining) -> str:
    """Return both, such as "3 of 6 left, resets in 6 s"."""
    left, reset = describe_left(remaining), describe_reset(remaining)
    return gettext("%(left)s, %(reset)s") % {"left": left, "reset": reset} if reset else left


@register.filter
def describe_cost(tool: ToolDefinition) -> str:
    """Return what a call of a tool costs, in sentences."""
    place = show(definitions.path_text(tool.cost_argument))
    return limit_texts.describe_cost(tool.cost, place, tool.cost_per_kilobyte)


@register.filter
def group_digits(number: int) -> str:
    """Return a number with separators between the thousands."""
    return f"{number:,}"
