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

from toolhub.chinese import close_blanks

FORMATS = {"minutes": "%Y-%m-%d %H:%M", "seconds": "%Y-%m-%d %H:%M:%S", "exact": "%Y-%m-%d %H:%M:%S.%f"}


def zone() -> str:
    """Return the name of the current time zone, such as Europe/Zurich or UTC."""
    return timezone.get_current_timezone_name()


def add_zone(title: str | Promise) -> Any:
    """Return the lazy title of a column or field of times: the words and the name of the time zone."""
    return _join_zone(title)


def _title_with_zone(title: str | Promise) -> str:
    return close_blanks(f"{title} ({zone()})")


_join_zone = lazy(_title_with_zone, str)


def format_time(time: datetime, precision: str = "seconds") -> str:
    """Return the time in the reader's zone without the zone's name, for a column whose title names it."""
    return timezone.localtime(time).strftime(FORMATS[precision])


def format_time_with_zone(time: datetime, precision: str = "seconds") -> str:
    """Return the time in the reader's zone with the short name of the zone at that time, for a sentence."""
    local = timezone.localtime(time)
    return f"{local.strftime(FORMATS[precision])} {local:%Z}"


def parse_time(text: str, *, end: bool = False) -> datetime | None:
    """Return an entered time or date in UTC; None for any other text.

    A date means its start, and with `end` the end of that day. An offset in the text applies; without one, the
    reader's zone does.
    """
    try:
        day = parse_date(text) if len(text) == 10 else None
        if day is not None:
            following = day + timedelta(days=1) if end else day
            time: datetime | None = datetime(following.year, following.month, following.day)  # noqa: DTZ001
        else:
            time = parse_datetime(text)
        if time is None:
            return None
        return (time if time.tzinfo else timezone.make_aware(time)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def format_for_url(time: datetime) -> str:
    """Return the time in UTC for a URL, so that it means the same in every zone."""
    return f"{time.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"


def format_for_input(text: str) -> str:
    """Return the time in the reader's zone for a datetime-local field; return any other text unchanged."""
    time = parse_time(text)
    return text if time is None else timezone.localtime(time).replace(tzinfo=None).isoformat()
