"""Mails to people whose request for access was answered: queued in the transaction of the decision."""

from __future__ import annotations

from typing import Any

from catalog import signals
from catalog.models import AccessRequest
from toolhub.access.preferences import find_preference
from toolhub.people import outbox
from toolhub.people.models import OutgoingMail


def connect() -> None:
    signals.request_decided.connect(_queue_mail, dispatch_uid="toolhub.people.answers")


def _queue_mail(request: AccessRequest, **_options: Any) -> None:
    person = request.person
    if person.email and outbox.is_configured():
        OutgoingMail.objects.filter(request=request).delete()  # about an earlier decision that was taken back
        OutgoingMail.objects.create(user=person, request=request, language=find_preference(person).language)
