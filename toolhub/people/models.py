"""Invitations, the mails that wait to be sent, and the email addresses that another person entered.

Of the link of an invitation only the SHA-256 is stored. The token is derived from a random salt with
TOOLHUB_SECRET_KEY, so that a mail that waits can be written without keeping the token anywhere.
"""

from __future__ import annotations

import base64
import secrets
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.db.models.functions import Lower
from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext_lazy as _

from toolhub.access.models import digest_of

DEFAULT_DAYS, MAX_DAYS = 7, 60
NAME_CHARACTERS = 150
SALT = "toolhub.people.invitation"
PENDING, ACCEPTED, REVOKED, EXPIRED, ORPHANED = "pending", "accepted", "revoked", "expired", "orphaned"


class InvitationQuerySet(models.QuerySet["Invitation"]):
    def pending(self, now: datetime | None = None) -> InvitationQuerySet:
        """Return the invitations that can be accepted now."""
        return self.filter(accepted=None, revoked=None, expires__gt=now or timezone.now(), inviter__is_active=True)


class Invitation(models.Model):
    """An invitation for one person, who chooses a username and a password and gets the groups."""

    email = models.EmailField(_("email address"), blank=True)
    username = models.CharField(
        _("suggested username"), max_length=NAME_CHARACTERS, blank=True, help_text=_("The person may choose another.")
    )
    first_name = models.CharField(_("first name"), max_length=NAME_CHARACTERS, blank=True)
    last_name = models.CharField(_("last name"), max_length=NAME_CHARACTERS, blank=True)
    groups = models.ManyToManyField(Group, blank=True, related_name="+", verbose_name=_("groups"))
    note = models.CharField(_("note"), max_length=500, blank=True, help_text=_("Only administrators see it."))
    language = models.CharField(_("language of the mail"), max_length=16, blank=True, editable=False)
    inviter = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        editable=False,
        related_name="+",
        verbose_name=_("invited by"),
    )
    inviter_name = models.CharField(_("invited by"), max_length=NAME_CHARACTERS, editable=False)
    salt = models.CharField(_("salt"), max_length=64, editable=False)
    digest = models.CharField(_("digest"), max_length=64, unique=True, editable=False)
    created = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    expires = models.DateTimeField(_("expires"))
    accepted = models.DateTimeField(_("accepted"), null=True, editable=False)
    accepted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        editable=False,
        related_name="+",
        verbose_name=_("accepted by"),
    )
    accepted_name = models.CharField(_("accepted by"), max_length=NAME_CHARACTERS, blank=True, editable=False)
    revoked = models.DateTimeField(_("revoked"), null=True, editable=False)
    mailed = models.DateTimeField(_("mail sent"), null=True, editable=False)
    mail_problem = models.CharField(_("mail problem"), max_length=100, blank=True, editable=False)
    """The class of the error that ended the attempts to send the mail."""

    objects = InvitationQuerySet.as_manager()

    class Meta:
        ordering = ("-id",)
        verbose_name = _("invitation")
        verbose_name_plural = _("invitations")
        # Who may add users invites; nobody changes or deletes one.
        default_permissions = ("view",)
        indexes = [models.Index(Lower("email"), name="invitation_email")]

    def __str__(self) -> str:
        return self.email or self.username or f"{self.first_name} {self.last_name}".strip() or f"#{self.pk}"

    @property
    def state(self) -> str:
        """Return one of PENDING, ACCEPTED, REVOKED, EXPIRED, and ORPHANED when the inviter is no longer active."""
        if self.accepted is not None:
            return ACCEPTED
        if self.revoked is not None:
            return REVOKED
        if self.expires <= timezone.now():
            return EXPIRED
        return PENDING if self.inviter is not None and self.inviter.is_active else ORPHANED

    def renew_token(self, days: int) -> None:
        """Replace the link by a new one that is valid for so many days; the row is not saved."""
        self.salt = secrets.token_hex(16)
        self.digest = digest_of(self.derive_token())
        self.expires = timezone.now() + timedelta(days=days)

    def derive_token(self) -> str:
        """Return the token of the link. It fits the digest for as long as TOOLHUB_SECRET_KEY stays the same."""
        made = salted_hmac(SALT, self.salt, algorithm="sha256").digest()
        return base64.urlsafe_b64encode(made).rstrip(b"=").decode("ascii")


class OutgoingMail(models.Model):
    """A mail that waits to be sent, and is written when it is sent.

    It is about a new password for a user, the answer to their request for access (with `request`), requests for
    approval that wait for them (with `approval`), or an invitation.
    One for nobody is a request for a new password of an account that does not exist: it is dropped, and until then
    the request takes as long as any other.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="+", verbose_name=_("user")
    )
    invitation = models.ForeignKey(
        Invitation, on_delete=models.CASCADE, null=True, related_name="+", verbose_name=_("invitation")
    )
    request = models.ForeignKey(
        "catalog.AccessRequest",
        on_delete=models.CASCADE,
        null=True,
        related_name="+",
        verbose_name=_("access request"),
    )
    approval = models.ForeignKey(
        "catalog.Approval", on_delete=models.CASCADE, null=True, related_name="+", verbose_name=_("approval")
    )
    """The first of the requests for approval that it tells an approver about."""
    language = models.CharField(_("language of the mail"), max_length=16, blank=True)
    created = models.DateTimeField(_("created"), default=timezone.now)
    due = models.DateTimeField(_("due"), default=timezone.now, db_index=True)
    """When it is sent next: later after a failure, and while a process is sending it."""
    attempts = models.PositiveIntegerField(_("attempts"), default=0)

    class Meta:
        verbose_name = _("outgoing mail")
        verbose_name_plural = _("outgoing mails")
        default_permissions = ()

    def __str__(self) -> str:
        return f"mail {self.pk}"


class EnteredEmail(models.Model):
    """An email address that another person entered for this account, and that its owner has not used yet.

    Whoever reads the mail of the address may not be the one who used the account so far: the first new password that
    comes by it revokes the access tokens and connected apps, as after a password that somebody else set.
    """

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="+",
        verbose_name=_("user"),
    )
    by = models.CharField(_("entered by"), max_length=NAME_CHARACTERS)
    at = models.DateTimeField(_("entered at"), auto_now=True)

    class Meta:
        verbose_name = _("entered email address")
        verbose_name_plural = _("entered email addresses")
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.user)
