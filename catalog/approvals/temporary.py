"""Temporary approvals: for a while, calls like an approved one need no further approval.

One is bound to the person, the credential, the tool and all that an approval is bound to, and to the values of the
arguments that the approver chose. It ends after an hour at most, when it is revoked, when its approver may no longer
approve, and with any change of what it is bound to.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet
from django.utils import timezone

from audit.actions import log
from audit.redaction.redactor import canonical
from audit.types import Caller
from catalog.approvals import activity, bindings
from catalog.approvals.bindings import Question
from catalog.models import Approval, TemporaryApproval
from catalog.policy import snapshot as snapshots
from catalog.policy.asking import APPROVERS
from catalog.policy.definitions import Snapshot

KIND: Final = "temporary approval"
"""Kind in admin activity."""
MAX_MINUTES: Final = 60
PERIODS: Final = (15, 30, 60)
"""Minutes that a page offers."""


def give(row: Approval, user: User, minutes: int, same: Iterable[str]) -> TemporaryApproval:
    """Save a temporary approval like this approved request, for the same values of these arguments.

    Raises ValueError for another number of minutes than 1 to `MAX_MINUTES`. The caller has locked the request, and
    checked that this user may decide about it.
    """
    if not 1 <= minutes <= MAX_MINUTES or row.tool_id is None:
        raise ValueError(minutes)
    chosen = set(same)
    shown = json.loads(row.arguments)
    now = timezone.now()
    made = TemporaryApproval(
        approval=row,
        user_id=row.user_id,
        credential=row.credential,
        credential_name=row.credential_name,
        tool_id=row.tool_id,
        rule_name=row.rule_name,
        asks=row.asks,
        group_id=row.group_id,
        context=row.context,
        argument_digests={name: digest for name, digest in row.argument_digests.items() if name in chosen},
        free_arguments=sorted(row.argument_digests.keys() - chosen),
        arguments=canonical({name: value for name, value in shown.items() if name in chosen}),
        created=now,
        expires=now + timedelta(minutes=minutes),
        given_by=user,
    )
    made.save()  # its number is in the seal, so that a copy of the row is worth nothing
    made.seal = bindings.seal(made)
    made.save(update_fields=["seal"])
    after = {"minutes": minutes, "arguments": json.loads(made.arguments), "request": str(row.pk)}
    log.record("created", KIND, name_for_log(made), None, after, actor=user.get_username())
    return made


def find(
    question: Question, caller: Caller, tool_id: int, arguments: Mapping[str, Any], now: datetime
) -> TemporaryApproval | None:
    """Return a temporary approval that answers this question about a call with these arguments."""
    given = TemporaryApproval.objects.filter(
        user=caller.user_id,
        credential=caller.credential.id[:100],
        tool=tool_id,
        asks=question.ask.asks,
        group=question.ask.group_id if question.ask.asks == APPROVERS else None,
        context=question.context,
        revoked=None,
        expires__gt=now,
    )
    rows = list(given.select_related("given_by"))
    if not rows:
        return None
    digests = bindings.digest_arguments(question.context, arguments)
    catalogue = snapshots.latest()
    for row in rows:
        same = {name: digest for name, digest in digests.items() if name not in row.free_arguments}
        if same == row.argument_digests and is_in_force(row, catalogue, now) and not was_revoked(row):
            return row
    return None


def is_in_force(row: TemporaryApproval, snapshot: Snapshot, now: datetime) -> bool:
    """Return whether it can be used: not over, not revoked, written by toolhub, by somebody who may still approve."""
    if row.revoked is not None or now >= row.expires or not bindings.is_sealed(row):
        return False
    return may_approve(snapshot, row.given_by_id, row.asks, row.group_id)


def was_revoked(row: TemporaryApproval) -> bool:
    """Return whether admin activity says so, whatever the row says: its earlier content could have been put back."""
    return activity.has_ended(KIND, row.pk, row.created, ("revoked",))


def may_approve(snapshot: Snapshot, user_id: int | None, asks: str, group_id: int | None) -> bool:
    """Return whether this user is active and, for a question to a group, one of its members."""
    member = snapshot.members.get(user_id or 0)
    if member is None or not member.is_active:
        return False
    return asks != APPROVERS or (group_id is not None and group_id in member.group_ids)


def list_for(user: Any, now: datetime | None = None) -> QuerySet[TemporaryApproval]:
    """Return those in force that this user has, gave or may revoke as one of the approvers, the newest first."""
    at = timezone.now() if now is None else now
    theirs = Q(user=user.pk) | Q(given_by=user.pk) | Q(group__in=user.groups.values("pk"))
    rows = TemporaryApproval.objects.filter(theirs, revoked=None, expires__gt=at)
    return rows.select_related("user", "given_by", "tool", "group")


def revoke(key: Any, user: User) -> bool:
    """Revoke one of those that `list_for` names; return False when it is not among them, as when there is none."""
    row = list_for(user).filter(pk=key).first()
    if row is None:
        return False
    row.revoked = timezone.now()
    row.seal = bindings.seal(row)
    row.save(update_fields=["revoked", "seal"])
    log.record("revoked", KIND, name_for_log(row), None, None, actor=user.get_username())
    return True


def name_for_log(row: TemporaryApproval) -> str:
    return f"{row.tool.name} for {row.user.get_username()} ({row.pk})"
