"""Times in the reader's zone in templates: `{{ at|told }}`, or `{{ at|shown }}` below a title with `{% zone %}`."""

from __future__ import annotations

from datetime import datetime

from django import template

from audit import local_time

register = template.Library()


@register.filter
def told(value: datetime | None, precision: str = "seconds") -> str:
    return "" if value is None else local_time.told(value, precision)


@register.filter
def shown(value: datetime | None, precision: str = "seconds") -> str:
    return "" if value is None else local_time.shown(value, precision)


@register.simple_tag
def zone() -> str:
    return local_time.zone()
