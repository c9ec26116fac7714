"""What waits for a person's decision, their own requests, and what approvers want to know of a request."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import F, Q, QuerySet
from django.utils import timezone

from audit.models import Call
from catalog.models import Approval
from catalog.models.approvals import TRIED
from catalog.policy.asking import APPROVERS, PERSON

RECENT: Final = timedelta(days=7)
MAX_SIMILAR: Final = 5
State = Approval.State


def _asked(user: Any) -> Q:
    """Return the condition for requests that this user may decide about."""
    tried = Q(maker__isnull=False, credential__startswith=TRIED)
    person = Q(asks=PERSON) & ((Q(user=user.pk) & ~tried) | (Q(maker=user.pk) & tried))
    own = Q(user=user.pk) | Q(maker=user.pk, maker__isnull=False)
    approver = Q(asks=APPROVERS, group__in=user.groups.values("pk")) & ~(Q(four_eyes=True) & own)
    return person | approver


def waiting_for(user: Any, now: datetime | None = None) -> QuerySet[Approval]:
    """Return the requests that this user can decide now, the oldest first."""
    at = timezone.now() if now is None else now
    rows = Approval.objects.filter(_asked(user), state=State.WAITING, expires__gt=at)
    return rows.select_related("user", "tool", "group").order_by("created", "id")


def own_open(user: Any, now: datetime | None = None) -> QuerySet[Approval]:
    """Return the user's own requests that wait for others, or were approved and not used yet, the oldest first."""
    at = timezone.now() if now is None else now
    rows = Approval.objects.filter(Q(user=user.pk) | Q(maker=user.pk), state__in=Approval.LIVE, expires__gt=at)
    return rows.exclude(_asked(user), state=State.WAITING).select_related("user", "group").order_by("created", "id")


def list_recent(user: Any, most: int = 20) -> list[Approval]:
    """Return the latest requests that ended, of this user or decided by them, the newest first."""
    since = timezone.now() - RECENT
    mine = Q(user=user.pk) | Q(maker=user.pk) | Q(decided_by=user.pk)
    over = ~Q(state__in=Approval.LIVE) | Q(expires__lte=timezone.now()) | Q(decided_by=user.pk)
    rows = Approval.objects.filter(mine & over, created__gte=since).select_related("user", "group")
    return list(rows.order_by(F("decided_at").desc(nulls_last=True), "-created", "-id")[:most])


def list_similar(row: Approval, most: int = MAX_SIMILAR) -> list[Approval]:
    """Return the latest other requests of the same person for the same tool, the newest first."""
    rows = Approval.objects.filter(user=row.user_id, tool_name=row.tool_name).exclude(pk=row.pk)
    return list(rows.order_by("-created", "-id")[:most])


def list_earlier_calls(row: Approval, most: int = MAX_SIMILAR) -> list[Call]:
    """Return the person's latest calls of the same tool that ran before, the newest first: to know how they ended."""
    rows = Call.objects.filter(user_id=row.user_id, name=row.tool_name).exclude(pk=row.call_id)
    return list(rows.order_by("-started_at")[:most])


def count_waiting(user: Any) -> int:
    """Return how many requests this user can decide now."""
    return waiting_for(user).count()
