"""Times in the reader's time zone, as far as the server knows it, and exactly with JavaScript; and times ago."""

from __future__ import annotations

from datetime import datetime

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timesince import timesince
from django.utils.translation import gettext as _

from audit import local_time

register = template.Library()
PRECISIONS = {"both": "minutes", "seconds": "seconds"}


@register.simple_tag
def timestamp(value: datetime | None, precision: str = "both") -> SafeString | str:
    """Return a <time> element, to the "date", the minute ("both") or the "seconds"; nothing for None."""
    if value is None:
        return ""
    if precision == "date":
        text = f"{timezone.localtime(value):%Y-%m-%d}"
    else:
        text = local_time.format_time_with_zone(value, PRECISIONS[precision])
    return format_html('<time datetime="{}" data-local="{}">{}</time>', value.isoformat(), precision, text)


@register.simple_tag
def ago(value: datetime | None) -> SafeString | str:
    """Return a <time> element that says how long ago that was, with the time itself as its title; nothing for None."""
    if value is None:
        return ""
    if (timezone.now() - value).total_seconds() < 60:
        text = _("less than a minute ago")
    else:
        text = _("%(time)s ago") % {"time": timesince(value, depth=1)}
    exact = local_time.format_time_with_zone(value, "minutes")
    return format_html('<time datetime="{}" title="{}">{}</time>', value.isoformat(), exact, text)
