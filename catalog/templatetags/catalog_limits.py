"""Limits in words."""

from __future__ import annotations

from django import template
from django.utils.translation import gettext as _

from catalog.models.validators import RATE

register = template.Library()


@register.filter
def format_rate(rate: str) -> str:
    """Return a rate such as `60/h` in words."""
    found = RATE.fullmatch(rate)
    if found is None:
        return rate
    one, several = {
        "s": (_("at most %(count)s calls a second"), _("at most %(count)s calls in %(number)s seconds")),
        "m": (_("at most %(count)s calls a minute"), _("at most %(count)s calls in %(number)s minutes")),
        "h": (_("at most %(count)s calls an hour"), _("at most %(count)s calls in %(number)s hours")),
        "d": (_("at most %(count)s calls a day"), _("at most %(count)s calls in %(number)s days")),
    }[found[3]]
    number = int(found[2] or 1)
    return (one if number == 1 else several) % {"count": found[1], "number": number}
