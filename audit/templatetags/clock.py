"""Times in the reader's zone: `{{ at|format_time_with_zone }}`, or `{{ at|format_time }}` below `{% zone %}`."""

from __future__ import annotations

from datetime import datetime

from django import template

from audit import local_time

register = template.Library()


@register.filter
def format_time_with_zone(value: datetime | None, precision: str = "seconds") -> str:
    return "" if value is None else local_time.format_time_with_zone(value, precision)


@register.filter
def format_time(value: datetime | None, precision: str = "seconds") -> str:
    return "" if value is None else local_time.format_time(value, precision)


@register.simple_tag
def zone() -> str:
    return local_time.zone()
