"""Periods relative to today, in the reader's time zone, so that a saved search means the same next week."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

from django.utils import timezone
from django.utils.translation import gettext_lazy as _

CHOICES = (
    ("1h", _("Last hour")),
    ("24h", _("Last 24 hours")),
    ("7d", _("Last 7 days")),
    ("30d", _("Last 30 days")),
    ("today", _("Today")),
    ("yesterday", _("Yesterday")),
    ("this_week", _("This week")),
    ("last_week", _("Last week")),
    ("this_month", _("This month")),
    ("last_month", _("Last month")),
)
_ROLLING = {"1h": timedelta(hours=1), "24h": timedelta(hours=24), "7d": timedelta(days=7), "30d": timedelta(days=30)}


def interval(period: str, now: datetime | None = None) -> tuple[datetime | None, datetime | None]:
    """Return the start and end of the period in UTC, None for an open side; both are None for any other text.

    Weeks begin on Monday. A day is one of the current time zone.
    """
    now = now or timezone.now()
    if period in _ROLLING:
        return now - _ROLLING[period], None
    today = timezone.localtime(now).date()
    week, month = today - timedelta(days=today.weekday()), today.replace(day=1)
    days = {
        "today": (today, None),
        "yesterday": (today - timedelta(days=1), today),
        "this_week": (week, None),
        "last_week": (week - timedelta(days=7), week),
        "this_month": (month, None),
        "last_month": ((month - timedelta(days=1)).replace(day=1), month),
    }
    start, end = days.get(period, (None, None))
    return (_midnight(start), _midnight(end))


def _midnight(day: date | None) -> datetime | None:
    return timezone.make_aware(datetime.combine(day, time())).astimezone(UTC) if day else None
