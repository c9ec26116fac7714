"""Logged calls with the notes of rules in trial, as the call pipeline writes them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from audit.models import Call
from audit.types import Reason
from tests.audit.rows import build_call, save

KINDS = {"Grant": "grant", "Limit": "limit", "ApprovalRule": "approval_rule"}


def begin(row: Any, days: int = 1) -> Any:
    """Put the start of a trial so many days back, past `save`, which keeps it."""
    since = timezone.now() - timedelta(days=days)
    type(row).everything.filter(pk=row.pk).update(trial_since=since)
    row.refresh_from_db(from_queryset=type(row).everything)
    return row


def log(user: Any, *notes: tuple[Any, str, str], number: int = 0, **values: Any) -> Call:
    """Log a call that began `number` seconds after an hour ago; a note is (row in trial, real answer, tried answer)."""
    entries = [[KINDS[type(row).__name__], row.pk, real, tried] for row, real, tried in notes]
    text = Reason("rule.grant", {"number": 1, "trials": entries}).text
    values.setdefault("started_at", timezone.now() - timedelta(hours=1) + timedelta(seconds=number))
    return save(build_call(number, user=user, rule_reason=text, **values))[0]
