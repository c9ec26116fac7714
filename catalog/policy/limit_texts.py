"""Limits in words, in the language of the page: what they allow, what is left, and when they reset."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from audit import local_time
from catalog.conditions import measures, periods
from catalog.models.validators import RATE
from toolhub.chinese import close_blanks

MINUTE: Final = 60
HOUR: Final = 3_600
DAY: Final = 86_400


def format_seconds(seconds: int) -> str:
    """Return a time to wait, such as 6 s, 12 min, 3 h 20 min or 4 days 2 h: never less than the seconds are."""
    if seconds < 2 * MINUTE:
        return _("%(number)s s") % {"number": seconds}
    if seconds < HOUR:
        return _("%(number)s min") % {"number": -(-seconds // MINUTE)}
    if seconds < 2 * DAY:
        minutes = -(-seconds // MINUTE)
        return _join_parts(
            _("%(number)s h") % {"number": minutes // 60}, minutes % 60, _("%(number)s min") % {"number": minutes % 60}
        )
    hours = -(-seconds // HOUR)
    days = ngettext("%(number)s day", "%(number)s days", hours // 24) % {"number": f"{hours // 24:,}"}
    return _join_parts(days, hours % 24, _("%(number)s h") % {"number": hours % 24})


def _join_parts(first: str, rest: int, second: str) -> str:
    return _("%(first)s %(second)s") % {"first": first, "second": second} if rest else first


def describe_limit(measure: str, rate: str) -> str:
    """Return what a limit allows: "at most 30 calls a minute", "at most 3 calls at a time"; `rate` where it is odd."""
    quota, found = periods.parse(rate), RATE.fullmatch(rate)
    if measure == measures.RUNNING:
        return _("at most %(count)s calls at a time") % {"count": rate}
    if quota is not None:
        calls, cost = {
            "hour": (_("at most %(count)s calls an hour"), _("at most %(count)s cost units an hour")),
            "day": (_("at most %(count)s calls a day"), _("at most %(count)s cost units a day")),
            "week": (_("at most %(count)s calls a week"), _("at most %(count)s cost units a week")),
            "month": (_("at most %(count)s calls a month"), _("at most %(count)s cost units a month")),
        }[quota.period]
        return (cost if measure == measures.COST else calls) % {"count": f"{quota.amount:,}"}
    if found is None:
        return rate
    number, count = int(found[2] or 1), f"{int(found[1]):,}"
    if measure in measures.LOOPS:
        time = format_period(number, found[3])
        text = (
            _("the same call at most %(count)s times within %(time)s")
            if measure == measures.REPEATS
            else _("the same error at most %(count)s times in a row within %(time)s")
        )
        return text % {"count": count, "time": time}
    one, several = {
        "s": (_("at most %(count)s calls a second"), _("at most %(count)s calls in %(number)s seconds")),
        "m": (_("at most %(count)s calls a minute"), _("at most %(count)s calls in %(number)s minutes")),
        "h": (_("at most %(count)s calls an hour"), _("at most %(count)s calls in %(number)s hours")),
        "d": (_("at most %(count)s calls a day"), _("at most %(count)s calls in %(number)s days")),
    }[found[3]]
    return (one if number == 1 else several) % {"count": count, "number": number}


def format_period(number: int, unit: str) -> str:
    """Return the period of a rate, whose unit is s, m, h or d."""
    match unit:
        case "s":
            text = ngettext("%(number)s second", "%(number)s seconds", number)
        case "m":
            text = ngettext("%(number)s minute", "%(number)s minutes", number)
        case "h":
            text = ngettext("%(number)s hour", "%(number)s hours", number)
        case "d":
            text = ngettext("%(number)s day", "%(number)s days", number)
    return text % {"number": f"{number:,}"}


def describe_left(measure: str, left: int, limit: int) -> str:
    """Return what is left, such as "3 of 6 left", "412 of 1,000 cost units left" or "1 of 3 may start now"."""
    values = {"left": f"{left:,}", "limit": f"{limit:,}"}
    if measure == measures.COST:
        return _("%(left)s of %(limit)s cost units left") % values
    if measure == measures.RUNNING:
        return _("%(left)s of %(limit)s may start now") % values
    return _("%(left)s of %(limit)s left") % values


def describe_reset(rate: str, seconds: int, now: datetime) -> str:
    """Return when a limit resets, such as "resets in 6 s"; of a quota that is far from it, the time on the clock."""
    if periods.parse(rate) is None or seconds < HOUR:
        return _("resets in %(time)s") % {"time": format_seconds(seconds)}
    # Periods end with a minute, and `seconds` were rounded.
    ends = now + timedelta(seconds=seconds + MINUTE / 2)
    return _("resets on %(time)s") % {"time": local_time.format_time_with_zone(ends, "minutes")}


def describe_cost(cost: int, argument: str, per_kilobyte: int) -> str:
    """Return what a call of a tool costs, in sentences."""
    units = ngettext("%(number)s cost unit", "%(number)s cost units", cost) % {"number": f"{cost:,}"}
    text = _("Each call costs %(units)s.") % {"units": units}
    if argument and cost:
        text = _("Each call costs %(units)s, times %(argument)s.") % {"units": units, "argument": argument}
    if not per_kilobyte:
        return text
    more = ngettext("%(number)s cost unit", "%(number)s cost units", per_kilobyte) % {"number": f"{per_kilobyte:,}"}
    rest = _("Every 1,000 bytes of the result cost %(units)s more.") % {"units": more}
    return close_blanks(f"{text} {rest}")
