"""Requests for approval: found again by the same call, made, used once, and ended. Everything here uses the database.

Every change is one conditional UPDATE or a locked row, so that of two processes one does it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils import timezone

from audit.actions import log
from audit.types import Caller
from catalog import signals
from catalog.approvals import activity, bindings, temporary
from catalog.approvals.bindings import Question
from catalog.functions.sanitise import sanitise_line
from catalog.models import Approval, TemporaryApproval
from catalog.policy.asking import APPROVERS
from catalog.policy.definitions import Snapshot

KIND: Final = "approval"
"""Kind in admin activity."""
MAX_PENDING: Final = 20
"""Maximum requests of one person that wait."""
DENIAL_MINUTES: Final = 10
"""How long a denial answers the same call: a model that tries again bothers nobody."""
ENDS: Final = ("used", "denied", "expired", "withdrawn", "voided")
"""Verbs in admin activity after which an approval is none."""
State = Approval.State


@dataclass(frozen=True, slots=True)
class Asked:
    """What a new request says of its call."""

    caller: Caller
    call_id: uuid.UUID
    tool_id: int
    tool_name: str
    arguments: str
    """Redacted, for approvers."""
    values: Mapping[str, Any]
    """The arguments themselves, which are compared and not stored."""


class TooMany(Exception):
    """Error: the person has as many waiting requests as one may have."""


def find(questions: Sequence[Question], now: datetime) -> list[Approval | None]:
    """Return for each question the request that waits or was answered; None where nobody was asked yet.

    One that toolhub did not write, or whose time is over, does not count: it is void, or expired.
    """
    found = {}
    rows = Approval.objects.filter(
        binding__in=[one.binding for one in questions], state__in=(*Approval.LIVE, State.DENIED)
    )
    for row in rows.order_by("created"):
        if not bindings.is_sealed(row):
            if row.state in Approval.LIVE:
                end(row, State.VOID, "toolhub")
        elif now >= row.expires:
            if row.state in Approval.LIVE:
                end(row, State.EXPIRED, "toolhub")
        elif row.state == State.APPROVED and was_ended(row):
            end(row, State.VOID, "toolhub")
        else:
            found[row.binding] = row
    return [found.get(one.binding) for one in questions]


def find_used(
    questions: Sequence[Question], call_id: uuid.UUID, snapshot: Snapshot, now: datetime
) -> list[Approval | None]:
    """Return for each question the approval that this call has used: its next round, with answers, is the same call."""
    rows = Approval.objects.filter(
        binding__in=[one.binding for one in questions], state=State.USED, used_by=call_id, expires__gt=now
    )
    found = {row.binding: row for row in rows if _is_in_use(row, call_id, snapshot, now)}
    return [found.get(one.binding) for one in questions]


def _is_in_use(row: Approval, call_id: uuid.UUID | None, snapshot: Snapshot, now: datetime) -> bool:
    """Return whether this call was the last one that used the approval, and whoever gave it may still do so."""
    if call_id is None or row.state != State.USED or row.used_by != call_id or now >= row.expires:
        return False
    if not bindings.is_sealed(row) or activity.find_last_use(KIND, row.pk, row.created) != str(call_id):
        return False
    return temporary.may_approve(snapshot, row.decided_by_id, row.asks, row.group_id)


def make(questions: Sequence[Question], asked: Asked) -> list[Approval]:
    """Ask each question that nobody has asked for the same call yet; return the requests. Raises TooMany."""
    now = timezone.now()
    caller = asked.caller
    try:
        with transaction.atomic():
            # One at a time for each person: no number of calls at once gets past the maximum.
            User.objects.select_for_update().filter(pk=caller.user_id).first()
            present = find(questions, now)
            missing = [one for one, row in zip(questions, present, strict=True) if row is None]
            waiting = Approval.objects.filter(user=caller.user_id, state=State.WAITING, expires__gt=now).count()
            if missing and waiting + len(missing) > MAX_PENDING:
                raise TooMany
            made = {one.binding: _make(one, asked, now) for one in missing}
            signals.approvals_requested.send(sender=Approval, approvals=list(made.values()))
    except IntegrityError:  # another database session asked the same at the same time
        return [row for row in find(questions, now) if row is not None]
    return [row or made[one.binding] for one, row in zip(questions, present, strict=True)]


def _make(question: Question, asked: Asked, now: datetime) -> Approval:
    caller, ask = asked.caller, question.ask
    credential = caller.credential
    client = sanitise_line(f"{caller.client_name} {caller.client_version}")
    made = Approval(
        id=uuid.uuid4(),
        call_id=asked.call_id,
        user_id=caller.user_id,
        maker_id=credential.maker_id,
        credential=credential.id[:100],
        credential_name=sanitise_line(credential.label)[:200],
        client=client[:300],
        tool_id=asked.tool_id,
        tool_name=asked.tool_name,
        rule_id=ask.rules[0].id,
        rule_name=", ".join(rule.name for rule in ask.rules)[:100],
        rule_ids=[rule.id for rule in ask.rules],
        asks=ask.asks,
        group_id=ask.group_id if ask.asks == APPROVERS else None,
        four_eyes=ask.four_eyes,
        arguments=asked.arguments,
        argument_digests=bindings.digest_arguments(question.context, asked.values),
        binding=question.binding,
        context=question.context,
        created=now,
        expires=now + timedelta(minutes=ask.minutes),
    )
    made.seal = bindings.seal(made)
    made.save(force_insert=True)
    return made


def use(
    approvals: Iterable[Approval | TemporaryApproval],
    call_id: uuid.UUID,
    snapshot: Snapshot,
    remember: Callable[[], None] = lambda: None,
    continues: uuid.UUID | None = None,
) -> bool:
    """Use all these approvals for one call; return False, and change nothing, unless each can still be used.

    `remember` runs in the transaction of the use. `continues` is the call whose next round this is: it may have used
    them, and only its latest round goes on.
    """
    now = timezone.now()
    with transaction.atomic():
        for known in sorted(approvals, key=lambda row: str(row.pk)):
            if isinstance(known, TemporaryApproval):
                again = TemporaryApproval.objects.filter(pk=known.pk).first()
                if again is None or not temporary.is_in_force(again, snapshot, now) or temporary.was_revoked(again):
                    transaction.set_rollback(True)
                    return False
                continue
            row = lock(known.pk)
            fresh = row is not None and is_usable(row, snapshot, now) and not was_ended(row)
            if row is None or not (fresh or _is_in_use(row, continues, snapshot, now)):
                transaction.set_rollback(True)
                return False
            row.state, row.used_by = State.USED, call_id
            row.seal = bindings.seal(row)
            row.save(update_fields=["state", "used_by", "seal"])
            log.record("used", KIND, name_for_log(row), None, {"call": str(call_id)}, actor=row.user.get_username())
        remember()
    return True


def lock(key: Any) -> Approval | None:
    """Return a request, locked for a change in this transaction."""
    return Approval.objects.select_for_update(of=("self",)).select_related("user").filter(pk=key).first()


def is_usable(row: Approval, snapshot: Snapshot, now: datetime) -> bool:
    """Return whether this is an approval in force, by somebody who may still give it."""
    if row.state != State.APPROVED or now >= row.expires or not bindings.is_sealed(row):
        return False
    return temporary.may_approve(snapshot, row.decided_by_id, row.asks, row.group_id)


def was_ended(row: Approval) -> bool:
    """Return whether admin activity says so, whatever the row says: its earlier content could have been put back."""
    return activity.has_ended(KIND, row.pk, row.created, ENDS)


def end(row: Approval, state: str, actor: str) -> bool:
    """End a request that waits or was not used; return whether it was still so."""
    with transaction.atomic():
        rows = Approval.objects.select_for_update(of=("self",)).filter(pk=row.pk, state__in=Approval.LIVE)
        current = rows.first()
        if current is not None:
            is_ours = bindings.is_sealed(current)
            current.state = state
            current.seal = bindings.seal(current) if is_ours else ""  # what toolhub did not write stays unbelieved
            current.save(update_fields=["state", "seal"])
            verb = {State.EXPIRED: "expired", State.WITHDRAWN: "withdrawn"}.get(State(state), "voided")
            log.record(verb, KIND, name_for_log(row), {"state": str(row.state)}, {"state": str(state)}, actor=actor)
    row.state = state
    return current is not None


def expire(now: datetime | None = None, most: int = 1_000) -> int:
    """End the requests whose time is over; return how many."""
    at = timezone.now() if now is None else now
    rows = Approval.objects.filter(state__in=Approval.LIVE, expires__lte=at).select_related("user")
    with transaction.atomic():
        return sum(end(row, State.EXPIRED, "toolhub") for row in rows[:most])


def remove_old(now: datetime | None = None) -> int:
    """Delete the requests that are as old as the calls that retention removes; return how many.

    Temporary approvals go with them. Without retention, everything stays.
    """
    if not settings.KEEP_CALLS_DAYS:
        return 0
    before = (timezone.now() if now is None else now) - timedelta(days=settings.KEEP_CALLS_DAYS)
    TemporaryApproval.objects.filter(expires__lt=before).delete()
    return Approval.objects.filter(expires__lt=before).exclude(state__in=Approval.LIVE).delete()[0]


def name_for_log(row: Approval) -> str:
    return f"{row.tool_name} for {row.user.get_username()} ({row.id})"


def read_again(ids: Iterable[Any]) -> dict[Any, Approval]:
    """Return these requests as they are now."""
    return {row.id: row for row in Approval.objects.filter(pk__in=list(ids))}
