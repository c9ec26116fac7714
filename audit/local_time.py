"""Moments on the clock of whoever reads a page, and as that person enters them.

The clock is that of the request at hand (`timezone.activate`), and UTC in commands and where no zone is known. What is
kept, exported or written into an address is in UTC whoever looks.
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
    """The name of the zone, such as Europe/Zurich or UTC."""
    return timezone.get_current_timezone_name()


def in_zone(words: str | Promise) -> Any:
    """The title of a column or field of moments: the words, and whose clock it is."""
    return format_lazy("{} ({})", words, lazy(zone, str)())


def shown(moment: datetime, precision: str = "seconds") -> str:
    """For where a title names the zone."""
    return timezone.localtime(moment).strftime(FORMATS[precision])


def told(moment: datetime, precision: str = "seconds") -> str:
    """For a sentence: the moment with the short name that the zone has then."""
    local = timezone.localtime(moment)
    return f"{local.strftime(FORMATS[precision])} {local:%Z}"


def entered(text: str, *, end: bool = False) -> datetime | None:
    """What somebody entered, in UTC: a moment, or a date, which with `end` counts to its last moment; None for what is
    neither. An offset that it names counts, and the reader's clock where it names none."""
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
    """For an address, which means the same to whoever opens it."""
    return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"


def entry(text: str) -> str:
    """For a field of the browser, which takes a moment of its reader's clock; what is none stays as it is."""
    moment = entered(text)
    return text if moment is None else timezone.localtime(moment).replace(tzinfo=None).isoformat()
