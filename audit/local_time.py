"""Display and parsing of times in the time zone of the reader of a page.

The zone is that of the current request (`timezone.activate`), and UTC in commands and where no zone is known. Times
that are stored, exported or written into a URL are always in UTC.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.functional import Promise, lazy
from django.utils.text import format_lazy

FORMATS = {"minutes": "%Y-%m-%d %H:%M", "seconds": "%Y-%m-%d %H:%M:%S", "exact": "%Y-%m-%d %H:%M:%S.%f"}


def zone() -> str:
    """Return the name of the current time zone, such as Europe/Zurich or UTC."""
    return timezone.get_current_timezone_name()


def in_zone(words: str | Promise) -> Any:
    """Return the lazy title of a column or field of times: the words and the name of the time zone."""
    return format_lazy("{} ({})", words, lazy(zone, str)())


def shown(moment: datetime, precision: str = "seconds") -> str:
    """Return the time in the reader's zone without the zone's name, for a column whose title names it."""
    return timezone.localtime(moment).strftime(FORMATS[precision])


def told(moment: datetime, precision: str = "seconds") -> str:
    """Return the time in the reader's zone with the short name of the zone at that time, for a sentence."""
    local = timezone.localtime(moment)
    return f"{local.strftime(FORMATS[precision])} {local:%Z}"


def entered(text: str, *, end: bool = False) -> datetime | None:
    """Return an entered time or date in UTC; None for any other text.

    A date means its start, and with `end` the end of that day. An offset in the text applies; without one, the
    reader's zone does.
    """
    try:
        day = parse_date(text) if len(text) == 10 else None
        if day is not None:
            following = day + timedelta(days=1) if end else day
            moment: datetime | None = datetime(following.year, following.month, following.day)  # noqa: DTZ001
        else:
            moment = parse_datetime(text)
        if moment is None:
            return None
        return (moment if moment.tzinfo else timezone.make_aware(moment)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def address(moment: datetime) -> str:
    """Return the time in UTC for a URL, so that it means the same in every zone."""
    return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"


def entry(text: str) -> str:
    """Return the time in the reader's zone for a datetime-local field; return any other text unchanged."""
    moment = entered(text)
    return text if moment is None else timezone.localtime(moment).replace(tzinfo=None).isoformat()
