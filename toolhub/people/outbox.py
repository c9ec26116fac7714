"""Mails that wait in the database, and the background job that sends them.

No page waits for a mail server, so that none shows by its time whether an account exists. Each row is claimed by one
process; a process that dies while it sends may send twice.
"""

from __future__ import annotations

import logging
import smtplib
from datetime import UTC, datetime, timedelta
from typing import Final

from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.auth.tokens import default_token_generator
from django.core.mail import EmailMessage
from django.db import DatabaseError, InterfaceError
from django.db.models import F
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone, translation
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode
from django.utils.translation import gettext as _

from catalog.approvals import inbox
from catalog.models import AccessRequest
from toolhub import contact, invisible
from toolhub.access.models import digest_of
from toolhub.people.models import PENDING, Invitation, OutgoingMail

log = logging.getLogger(__name__)

JOB_NAME: Final = "Send mail"
JOB_SECONDS = 3.0
CLAIM_SECONDS = 120
"""Time for sending one mail, more than EMAIL_TIMEOUT allows for each step of it."""
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 30, 900
"""Time until the next attempt, doubled after each failure."""
MAX_NAMED: Final = 10
"""Calls that one mail names."""
PASSWORD_LIFETIME, PATIENT_LIFETIME = timedelta(minutes=15), timedelta(days=1)
"""How long a mail may wait: somebody waits for a new password, and asks again. The others have more time."""


def is_configured() -> bool:
    """Return whether mail can be sent: TOOLHUB_SMTP_URL is set."""
    return bool(settings.EMAIL_HOST)


def invitation_url(token: str) -> str:
    return settings.PUBLIC_URL + reverse("people:invitation", args=[token])


def send_due() -> None:
    """Send every mail that is due; while the database is away, later."""
    try:
        _send_due()
    except (DatabaseError, InterfaceError) as error:
        log.warning("Mail cannot be sent now: %s", type(error).__name__)


def _send_due() -> None:
    # After a failure of the mail server itself, the others wait as well.
    while (mail := _claim()) is not None:
        try:
            message = _write(mail)
            if message is not None:
                message.send()
        except smtplib.SMTPRecipientsRefused as error:
            _give_up(mail, error)
        except (smtplib.SMTPException, OSError) as error:
            _postpone(mail, error)
            return
        else:
            if message is not None and mail.invitation is not None:
                Invitation.objects.filter(pk=mail.invitation.pk).update(mailed=timezone.now(), mail_problem="")
            mail.delete()


def _claim() -> OutgoingMail | None:
    """Return a mail that is due and that no other process sends now."""
    while True:
        now = timezone.now()
        waiting = OutgoingMail.objects.select_related("user", "invitation__inviter", "request", "approval")
        mail = waiting.filter(due__lte=now).order_by("due", "pk").first()
        if mail is None:
            return None
        mine = OutgoingMail.objects.filter(pk=mail.pk, due=mail.due)
        if mine.update(due=now + timedelta(seconds=CLAIM_SECONDS), attempts=F("attempts") + 1):
            mail.attempts += 1
            return mail


def _write(mail: OutgoingMail) -> EmailMessage | None:
    """Return the message; None when nobody is to get it any more."""
    with translation.override(mail.language or settings.LANGUAGE_CODE):
        if mail.invitation is not None:
            return _write_invitation(mail.invitation)
        if mail.request is not None:
            return _write_answer(mail.request, mail.user)
        if mail.approval is not None:
            return _write_waiting(mail.user)
        if mail.user is None or not settings.LOCAL_PASSWORDS:
            return None
        user = mail.user
        if not (user.is_active and user.email and user.has_usable_password()):
            return None
        key = urlsafe_base64_encode(force_bytes(user.pk))
        address = reverse("people:reset-link", args=[key, default_token_generator.make_token(user)])
        context = {"name": user.get_username(), "link": settings.PUBLIC_URL + address}
        return _message(_("New password for toolhub"), "people/password_mail.txt", context, user.email)


def _write_invitation(invitation: Invitation) -> EmailMessage | None:
    token = invitation.derive_token()
    if invitation.state != PENDING or digest_of(token) != invitation.digest:
        return None  # revoked or accepted meanwhile, or TOOLHUB_SECRET_KEY is another one now
    context = {
        "name": f"{invitation.first_name} {invitation.last_name}".strip(),
        "inviter": invitation.inviter_name,
        "expires": f"{invitation.expires.astimezone(UTC):%Y-%m-%d %H:%M}",
        "link": invitation_url(token),
    }
    return _message(_("Invitation to toolhub"), "people/invitation_mail.txt", context, invitation.email)


def _write_answer(request: AccessRequest, person: User | None) -> EmailMessage | None:
    """Return the mail that a request was answered; the answer itself is on the page, for those who sign in."""
    answers = {
        AccessRequest.State.APPROVED: _("Your request for access was approved"),
        AccessRequest.State.DECLINED: _("Your request for access was declined"),
    }
    subject = answers.get(AccessRequest.State(request.state))
    if subject is None or person is None or not (person.is_active and person.email):
        return None  # the decision was taken back meanwhile, for example
    context = {
        "name": person.get_username(),
        "wanted": invisible.show(request.name),
        "state": request.state,
        "link": settings.PUBLIC_URL + reverse("catalog:requests"),
    }
    return _message(subject, "people/request_mail.txt", context, person.email)


def _write_waiting(person: User | None) -> EmailMessage | None:
    """Return the mail that calls wait for this person's approval; their arguments are on the page alone."""
    if person is None or not (person.is_active and person.email):
        return None
    rows = list(inbox.waiting_for(person)[: MAX_NAMED + 1])
    if not rows:
        return None  # decided meanwhile
    named = [
        _("%(tool)s, for %(user)s") % {"tool": row.tool_name, "user": invisible.show(row.user.get_username())}
        for row in rows[:MAX_NAMED]
    ]
    context = {
        "name": person.get_username(),
        "calls": "\n".join(f"- {text}" for text in named) + ("\n- ..." if len(rows) > MAX_NAMED else ""),
        "link": settings.PUBLIC_URL + "/approvals/",
    }
    return _message(_("Calls wait for your approval"), "people/approval_mail.txt", context, person.email)


def _message(subject: str, template: str, context: dict[str, str], address: str) -> EmailMessage:
    body = render_to_string(template, {**context, "site": settings.PUBLIC_URL, "contact": contact.describe()})
    return EmailMessage(subject, body, settings.DEFAULT_FROM_EMAIL, [address])


def _postpone(mail: OutgoingMail, error: Exception) -> None:
    now = timezone.now()
    lifetime = PASSWORD_LIFETIME if mail.invitation is None and mail.request is None else PATIENT_LIFETIME
    if now - mail.created > lifetime:
        _give_up(mail, error)
        return
    pause = min(FIRST_PAUSE_SECONDS * 2 ** (mail.attempts - 1), MAX_PAUSE_SECONDS)
    log.warning("Mail cannot be sent (%s), next attempt in %d s: see TOOLHUB_SMTP_URL", type(error).__name__, pause)
    _set_due(mail, now + timedelta(seconds=pause))
    # One attempt at a time finds out whether the server is back.
    OutgoingMail.objects.filter(due__lte=now).update(due=now + timedelta(seconds=FIRST_PAUSE_SECONDS))


def _set_due(mail: OutgoingMail, due: datetime) -> None:
    OutgoingMail.objects.filter(pk=mail.pk).update(due=due)


def _give_up(mail: OutgoingMail, error: Exception) -> None:
    what = "a new password" if mail.invitation is None else f"the invitation {mail.invitation.pk}"
    what = what if mail.request is None else f"the access request {mail.request.pk}"
    log.error("The mail about %s was not sent after %d attempts: %s", what, mail.attempts, type(error).__name__)
    if mail.invitation is not None:
        Invitation.objects.filter(pk=mail.invitation.pk).update(mail_problem=type(error).__name__[:100])
    mail.delete()
