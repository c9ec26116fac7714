"""Times in the reader's time zone, as far as the server knows it, and exactly with JavaScript; and times ago."""

from __future__ import annotations

from datetime import datetime

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timesince import timesince
from django.utils.translation import gettext as _

register = template.Library()
FORMATS = {"date": "%Y-%m-%d", "both": "%Y-%m-%d %H:%M", "seconds": "%Y-%m-%d %H:%M:%S"}


@register.simple_tag
def timestamp(value: datetime | None, precision: str = "both") -> SafeString | str:
    """Return a <time> element, to the "date", the minute ("both") or the "seconds"; nothing for None."""
    if value is None:
        return ""
    local = timezone.localtime(value)
    text = local.strftime(FORMATS[precision]) + ("" if precision == "date" else f" {local:%Z}")
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
    exact = timezone.localtime(value).strftime(f"{FORMATS['both']} %Z")
    return format_html('<time datetime="{}" title="{}">{}</time>', value.isoformat(), exact, text)
