"""The administrators' queue: open requests and reported calls, the oldest first, and those decided lately."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet

from catalog.models import AccessRequest, CallReport

OPEN = "open"


def open_requests() -> QuerySet[AccessRequest]:
    return AccessRequest.objects.filter(state=OPEN).order_by("created", "id")


def open_reports() -> QuerySet[CallReport]:
    return CallReport.objects.filter(state=OPEN).order_by("created", "id")


def list_decided(since: datetime, most: int) -> list[AccessRequest]:
    """Return the requests approved or declined since then, the newest decision first."""
    decided = (AccessRequest.State.APPROVED, AccessRequest.State.DECLINED)
    rows = AccessRequest.objects.filter(state__in=decided, decided_at__gte=since).select_related("person", "grant")
    return list(rows.order_by("-decided_at", "-id")[:most])


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a row among those that wait."""

    number: int
    """From 1; 0 for one that does not wait."""
    total: int
    before: int | None
    """The key of its neighbour."""
    after: int | None


def find_place(rows: QuerySet[Any], row: AccessRequest | CallReport) -> Place:
    """Return the place of a row in its queue; for one that does not wait, `after` is the first that does."""
    total = rows.count()
    if not row.is_open:
        return Place(0, total, None, rows.values_list("pk", flat=True).first())
    earlier = rows.filter(Q(created__lt=row.created) | Q(created=row.created, pk__lt=row.pk))
    later = rows.filter(Q(created__gt=row.created) | Q(created=row.created, pk__gt=row.pk))
    before, after = earlier.values_list("pk", flat=True).last(), later.values_list("pk", flat=True).first()
    return Place(earlier.count() + 1, total, before, after)
