"""Times in the reader's zone: `format_time_with_zone`, or `format_time` below a title with `add_zone`."""

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


@register.filter
def add_zone(title: str) -> str:
    return str(local_time.add_zone(title))
