"""Mails to people whose request for access was answered, and to approvers: queued in the transaction of the event."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final

from django.contrib.auth.models import User
from django.utils import timezone

from catalog import signals
from catalog.models import AccessRequest, Approval
from catalog.policy.asking import APPROVERS
from toolhub.access.preferences import find_preference
from toolhub.people import outbox
from toolhub.people.models import OutgoingMail

GATHER_SECONDS: Final = 60
"""How long a mail to an approver waits for further requests, and whether somebody decides meanwhile."""


def connect() -> None:
    signals.approvals_requested.connect(_queue_mails_to_approvers, dispatch_uid="toolhub.people.answers.approvers")
    signals.request_decided.connect(_queue_mail, dispatch_uid="toolhub.people.answers")


def _queue_mail(request: AccessRequest, **_options: Any) -> None:
    person = request.person
    if person.email and outbox.is_configured():
        OutgoingMail.objects.filter(request=request).delete()  # about an earlier decision that was taken back
        OutgoingMail.objects.create(user=person, request=request, language=find_preference(person).language)


def _queue_mails_to_approvers(approvals: Iterable[Approval], **_options: Any) -> None:
    """Queue one mail for each approver who has none that waits: it will name all requests that wait then."""
    if not outbox.is_configured():
        return
    for row in approvals:
        if row.asks != APPROVERS or row.group_id is None:
            continue
        people = User.objects.filter(groups=row.group_id, is_active=True).exclude(email="")
        if row.four_eyes:
            people = people.exclude(pk__in=row.callers)
        known = set(OutgoingMail.objects.filter(approval__isnull=False, user__in=people).values_list("user", flat=True))
        due = timezone.now() + timedelta(seconds=GATHER_SECONDS)
        OutgoingMail.objects.bulk_create(
            OutgoingMail(user=person, approval=row, due=due, language=find_preference(person).language)
            for person in people
            if person.pk not in known
        )
