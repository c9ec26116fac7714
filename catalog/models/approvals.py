"""Requests for approval: one call that waits for a person, or was approved and may run once."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import ClassVar, Final

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from catalog.models.approval_rules import ApprovalRule
from catalog.models.fields import JSONTextField
from catalog.models.tools import Tool

MAX_REASON_CHARACTERS: Final = 500
TRIED: Final = "admin:"
"""How the credential of a try in the admin begins."""


class Approval(models.Model):
    """One request for approval. It is changed by catalog.approvals only, which logs every step.

    It has no argument of the call in the clear that the audit log would not keep: the call itself brings them again,
    and a keyed digest tells whether they are the same.
    """

    class State(models.TextChoices):
        WAITING = "waiting", pgettext_lazy("approval", "waiting")
        APPROVED = "approved", _("approved")
        DENIED = "denied", _("denied")
        USED = "used", _("used")
        EXPIRED = "expired", _("expired")
        WITHDRAWN = "withdrawn", _("withdrawn")
        VOID = "void", _("void")

    LIVE: ClassVar = (State.WAITING, State.APPROVED)
    """States of a request that a call with the same arguments finds."""

    id = models.UUIDField(_("id"), primary_key=True, default=uuid.uuid4, editable=False)
    call_id = models.UUIDField(_("call"), db_index=True)
    """The attempt that asked. No relation: the audit log forgets calls at its own time."""
    used_by = models.UUIDField(_("call that ran"), null=True, blank=True, db_index=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, verbose_name=_("user"), related_name="approvals_requested"
    )
    maker = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,
        verbose_name=_("made by"),
        null=True,
        blank=True,
        related_name="+",
    )
    """Who made the credential for this user, or tries the tool as this user; None: the user."""
    credential = models.CharField(_("credential"), max_length=100)
    credential_name = models.CharField(_("name of the credential"), max_length=200, blank=True)
    client = models.CharField(_("client"), max_length=300, blank=True)
    tool = models.ForeignKey(Tool, models.SET_NULL, verbose_name=_("tool"), null=True, related_name="+")
    tool_name = models.CharField(_("name of the tool"), max_length=128)
    rule = models.ForeignKey(
        ApprovalRule, models.SET_NULL, verbose_name=_("approval rule"), null=True, related_name="approvals"
    )
    rule_name = models.CharField(_("name of the rule"), max_length=100)
    rule_ids = JSONTextField(_("approval rules"), default=list, editable=False)
    """All rules that ask the same people; `rule` is the first of them."""
    asks = models.CharField(_("asks"), max_length=10, choices=ApprovalRule.Asks.choices)
    group = models.ForeignKey(
        "auth.Group", models.SET_NULL, verbose_name=_("approvers"), null=True, blank=True, related_name="approvals"
    )
    four_eyes = models.BooleanField(_("four eyes"), default=True)
    arguments = models.TextField(_("arguments"))
    """Canonical JSON, redacted as the audit log has it: what an approver reads."""
    argument_digests = JSONTextField(_("digests of the arguments"), default=dict, editable=False)
    """Name of each argument -> keyed digest of its value, so that a temporary approval can be for the same values."""
    binding = models.CharField(_("binding"), max_length=64, editable=False)
    """Keyed digest of all that the approval is bound to: equal for the same call, by the same person, to the same."""
    context = models.CharField(_("context"), max_length=64, editable=False)
    """Keyed digest of the definition, the grants, the rules and the secrets at the time of the request."""
    state = models.CharField(_("state"), max_length=10, choices=State.choices, default=State.WAITING)
    created = models.DateTimeField(_("created"), default=timezone.now)
    expires = models.DateTimeField(_("expires"))
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,
        verbose_name=_("decided by"),
        null=True,
        blank=True,
        related_name="approvals_decided",
    )
    decided_by_name = models.CharField(_("name of who decided"), max_length=150, blank=True)
    decided_at = models.DateTimeField(_("decided at"), null=True, blank=True)
    by_client = models.BooleanField(_("answered by the client"), default=False)
    reason = models.CharField(_("reason"), max_length=MAX_REASON_CHARACTERS, blank=True)
    lasting_grant = models.ForeignKey(
        "catalog.Grant", models.SET_NULL, verbose_name=_("lasting grant"), null=True, blank=True, related_name="+"
    )
    """The grant that an approver made of this request: later calls like it need no approval."""
    announced = models.DateTimeField(_("announced"), null=True, blank=True, editable=False)
    """When the webhook was called; None: not yet."""
    seal = models.CharField(_("seal"), max_length=64, blank=True, editable=False)
    """Keyed digest of the decision: an approval that was written into the table by hand is not believed."""

    class Meta:
        verbose_name = _("approval")
        verbose_name_plural = _("approvals")
        ordering: ClassVar = ["created", "id"]
        default_permissions = ("view",)
        indexes: ClassVar = [
            models.Index(fields=("state", "group", "created"), name="approval_queue"),
            models.Index(fields=("user", "state", "created"), name="approval_user"),
            models.Index(fields=("binding", "state"), name="approval_binding"),
            models.Index(fields=("state", "expires"), name="approval_expiry"),
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=("binding",), condition=Q(state__in=("waiting", "approved")), name="one_live_approval"
            )
        ]

    def __str__(self) -> str:
        return f"{self.user}: {self.tool_name}"

    @property
    def callers(self) -> frozenset[int]:
        """The users who call: the one whose rights the call has, and who made the credential for them."""
        return frozenset(key for key in (self.user_id, self.maker_id) if key is not None)

    @property
    def person_id(self) -> int | None:
        """The one whose confirmation counts as that of the person who calls: of a try as another user, who tries it."""
        tried = self.maker_id is not None and self.credential.startswith(TRIED)
        return self.maker_id if tried and self.maker_id is not None else self.user_id

    def is_live(self, now: datetime) -> bool:
        """Return whether it waits or can be used."""
        return self.state in self.LIVE and now < self.expires

    def state_at(self, now: datetime) -> str:
        """Return the state: "expired" for one whose time is over, although nobody has stored that yet."""
        over = self.state in self.LIVE and now >= self.expires
        return self.State.EXPIRED.value if over else str(self.state)


class TemporaryApproval(models.Model):
    """Calls like an approved one that need no further approval for a while: same person, credential, tool and rule.

    It is made and revoked by catalog.approvals only, which logs both.
    """

    approval = models.ForeignKey(
        Approval, models.SET_NULL, verbose_name=_("approval"), null=True, related_name="temporary"
    )
    """The request on whose page it was given."""
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, verbose_name=_("user"), related_name="temporary_approvals"
    )
    credential = models.CharField(_("credential"), max_length=100)
    credential_name = models.CharField(_("name of the credential"), max_length=200, blank=True)
    tool = models.ForeignKey(Tool, models.CASCADE, verbose_name=_("tool"), related_name="+")
    rule_name = models.CharField(_("name of the rule"), max_length=100)
    asks = models.CharField(_("asks"), max_length=10, choices=ApprovalRule.Asks.choices)
    group = models.ForeignKey("auth.Group", models.CASCADE, verbose_name=_("approvers"), null=True, related_name="+")
    context = models.CharField(_("context"), max_length=64, editable=False)
    argument_digests = JSONTextField(_("digests of the arguments"), default=dict, editable=False)
    """Arguments whose values must be the same."""
    free_arguments = JSONTextField(_("arguments of any value"), default=list, editable=False)
    """Names; a call with an argument that is in neither is another call."""
    arguments = models.TextField(_("arguments"))
    """Those arguments, as the log may have them: canonical JSON."""
    created = models.DateTimeField(_("created"), default=timezone.now)
    expires = models.DateTimeField(_("expires"))
    given_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, verbose_name=_("given by"), related_name="temporary_approvals_given"
    )
    revoked = models.DateTimeField(_("revoked"), null=True, blank=True)
    seal = models.CharField(_("seal"), max_length=64, editable=False)

    class Meta:
        verbose_name = _("temporary approval")
        verbose_name_plural = _("temporary approvals")
        ordering: ClassVar = ["-created", "-id"]
        default_permissions = ("view",)
        indexes: ClassVar = [
            models.Index(fields=("user", "tool", "expires"), name="temporary_approval_use"),
            models.Index(fields=("group", "expires"), name="temporary_approval_group"),
        ]

    def __str__(self) -> str:
        return f"{self.user}: {self.tool}"


class KnownValue(models.Model):
    """A value of an argument with which a person had an approved call: a rule for the first time asks no more."""

    rule = models.ForeignKey(ApprovalRule, models.CASCADE, related_name="+")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    tool = models.ForeignKey(Tool, models.CASCADE, related_name="+")
    digest = models.CharField(max_length=64)
    """Keyed digest of all of that and of the value, which nobody else can make."""
    created = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name = _("known value")
        verbose_name_plural = _("known values")
        default_permissions = ()
        constraints: ClassVar = [models.UniqueConstraint(fields=("digest",), name="one_known_value")]

    def __str__(self) -> str:
        return f"{self.user}: {self.tool}"
