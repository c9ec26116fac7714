"""Times in the reader's time zone: as far as the server knows it, and exactly with JavaScript."""

from __future__ import annotations

from datetime import datetime

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

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
