"""What waits for a person's decision, their own requests, and what approvers want to know of a request."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.contrib.auth.models import User
from django.db.models import Count, Exists, F, Max, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce
from django.utils import timezone

from audit import outcomes
from audit.models import Call
from catalog.models import Approval, ApprovalRule
from catalog.models.approvals import TRIED
from catalog.policy.asking import APPROVERS, PERSON

RECENT: Final = timedelta(days=7)
MAX_SIMILAR: Final = 5
State = Approval.State


@dataclass(frozen=True, slots=True)
class Summary:
    """What every page of a person says of their approvals."""

    takes_part: bool
    """Whether there may be something for them: they are an approver, or a call of theirs has asked."""
    waiting: int
    newest: str
    """Id of the newest request that waits for them; "" without one."""
    newest_at: float
    """When that was made, in seconds since 1970; 0 without one."""
    version: str
    """Another text when their page of approvals shows something else."""


NOTHING: Final = Summary(False, 0, "", 0.0, "")


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
    """Return the person's latest calls of the same tool from before the request, the newest first.

    Without those that waited: what came of them is another call.
    """
    # Ids of calls are in the order of their times, and indexed together with users and with names.
    rows = Call.objects.filter(user_id=row.user_id, name=row.tool_name, pk__lt=row.call_id)
    return list(rows.exclude(outcome=outcomes.WAITING).order_by("-pk")[:most])


def find_next(user: Any, row: Approval) -> Approval | None:
    """Return the request after this one among those that wait for the user; the oldest of all after the last one."""
    rows = waiting_for(user).exclude(pk=row.pk)
    later = rows.filter(Q(created__gt=row.created) | Q(created=row.created, pk__gt=row.pk))
    return later.first() or rows.first()


def find_previous(user: Any, row: Approval) -> Approval | None:
    """Return the request before this one among those that wait for the user; the newest of all before the first one."""
    rows = waiting_for(user).exclude(pk=row.pk).order_by("-created", "-pk")
    earlier = rows.filter(Q(created__lt=row.created) | Q(created=row.created, pk__lt=row.pk))
    return earlier.first() or rows.first()


def summarise(user: Any, now: datetime | None = None) -> Summary:
    """Return the summary of this user, with one query."""
    at = timezone.now() if now is None else now
    own = Approval.objects.filter(Q(user=user.pk) | Q(maker=user.pk))
    followed = Approval.objects.filter(Q(user=user.pk) | Q(maker=user.pk) | Q(decided_by=user.pk))
    live = followed.filter(state__in=Approval.LIVE, expires__gt=at)
    rules = ApprovalRule.objects.filter(asks=APPROVERS, enabled=True, group__in=user.groups.values("pk"))
    waiting = waiting_for(user, at).select_related(None)
    found = (
        User.objects.filter(pk=user.pk)
        .order_by()
        .values_list(
            Exists(rules),
            Exists(own),
            Coalesce(Subquery(_count(waiting)), 0),
            Subquery(waiting.order_by("-created", "-pk").values("pk")[:1]),
            Subquery(waiting.order_by("-created", "-pk").values("created")[:1]),
            Coalesce(Subquery(_count(live)), 0),
            Subquery(
                followed.order_by().annotate(row=Value(1)).values("row").annotate(at=Max("decided_at")).values("at")
            ),
        )
        .first()
    )
    if found is None:
        return NOTHING
    approves, has_own, number, newest, newest_at, live_number, decided = found
    version = f"{number} {newest} {live_number} {_seconds(decided)}"
    takes_part = bool(approves or has_own or number)
    return Summary(takes_part, number, "" if newest is None else str(newest), _seconds(newest_at), version)


def _seconds(at: datetime | None) -> float:
    return 0.0 if at is None else at.timestamp()


def _count(rows: QuerySet[Approval]) -> Any:
    return rows.order_by().annotate(row=Value(1)).values("row").annotate(number=Count("pk")).values("number")
