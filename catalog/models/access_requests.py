"""What people ask administrators: access to a toolset or to one of its tools, and a look at a call that failed."""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from audit import outcomes
from catalog.models import validators as check
from catalog.models.fields import JSONTextField
from catalog.models.rules import Grant
from catalog.models.tools import Tool, Toolset

MAX_TEXT_CHARACTERS = 500
"""Maximum size of a reason, a comment or an answer: a reason fits into the note of a grant."""


class AccessRequest(models.Model):
    """One request of a person. It is changed by catalog.access_requests only, which logs every step."""

    class State(models.TextChoices):
        OPEN = "open", _("open")
        APPROVED = "approved", _("approved")
        DECLINED = "declined", _("declined")
        WITHDRAWN = "withdrawn", _("withdrawn")
        GONE = "gone", _("no longer available")

    class Kind(models.TextChoices):
        TOOLSET = "toolset", _("toolset")
        TOOL = "tool", _("tool")

    ANSWERED: ClassVar = (State.APPROVED, State.DECLINED, State.GONE)
    """States that the person did not choose and is told about."""

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, verbose_name=_("user"), related_name="access_requests"
    )
    kind = models.CharField(_("kind"), max_length=8, choices=Kind.choices)
    toolset = models.ForeignKey(
        Toolset, models.SET_NULL, verbose_name=_("toolset"), null=True, blank=True, related_name="access_requests"
    )
    """The toolset that is asked for, or the one in which the person found the tool."""
    tool = models.ForeignKey(
        Tool, models.SET_NULL, verbose_name=_("tool"), null=True, blank=True, related_name="access_requests"
    )
    """With the kind "tool": the one that is asked for."""
    name = models.CharField(_("name"), max_length=200)
    """The name of the toolset or tool at the time of the request: the person is told no later one."""
    reason = models.CharField(_("reason"), max_length=MAX_TEXT_CHARACTERS)
    conditions = JSONTextField(_("conditions"), default=list, blank=True, validators=[check.conditions])
    """With the kind "tool": the calls that are asked for, as the conditions of a grant. Empty: all calls."""
    state = models.CharField(_("state"), max_length=10, choices=State.choices, default=State.OPEN)
    created = models.DateTimeField(_("created"), default=timezone.now)
    decided_by = models.CharField(_("decided by"), max_length=150, blank=True, default="")
    decided_at = models.DateTimeField(_("decided at"), null=True, blank=True)
    answer = models.CharField(_("answer"), max_length=MAX_TEXT_CHARACTERS, blank=True, default="")
    grant = models.ForeignKey(
        Grant, models.SET_NULL, verbose_name=_("grant"), null=True, blank=True, related_name="access_requests"
    )
    """What an approval made."""
    granted = models.CharField(_("digest of the grant"), max_length=64, blank=True, default="", editable=False)
    """Digest of that grant as it was made: one that changed since is not revoked with the decision."""
    seen = models.DateTimeField(_("seen"), null=True, blank=True)
    """When the person saw the answer."""

    class Meta:
        verbose_name = _("access request")
        verbose_name_plural = _("access requests")
        ordering = ["created", "id"]
        default_permissions = ("view",)
        indexes = [
            models.Index(fields=("state", "created", "id"), name="access_request_queue"),
            models.Index(fields=("person", "-id"), name="access_request_person"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=("person", "toolset"),
                condition=Q(state="open", kind="toolset"),
                name="one_open_request_for_a_toolset",
            ),
            models.UniqueConstraint(
                fields=("person", "tool"), condition=Q(state="open", kind="tool"), name="one_open_request_for_a_tool"
            ),
            models.CheckConstraint(
                condition=~Q(state="open")
                | Q(kind="toolset", toolset__isnull=False, tool__isnull=True)
                | Q(kind="tool", toolset__isnull=False, tool__isnull=False),
                name="open_request_has_a_target",
            ),
            models.CheckConstraint(
                condition=Q(kind="tool") | Q(conditions=[]), name="only_requests_for_a_tool_have_conditions"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.person}: {self.name}"

    @property
    def target(self) -> Toolset | Tool | None:
        """What a grant would be for; None when it was deleted."""
        return self.tool if self.kind == self.Kind.TOOL else self.toolset

    @property
    def is_open(self) -> bool:
        return bool(self.state == self.State.OPEN)


class CallReport(models.Model):
    """A call that its owner reports to the administrators, with what the owner may know of its end.

    Who reads the audit log finds the call by its id; everybody else reads nothing here that the owner did not.
    """

    class State(models.TextChoices):
        OPEN = "open", _("open")
        CLOSED = "closed", _("closed")

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, verbose_name=_("user"), related_name="call_reports"
    )
    call_id = models.UUIDField(_("call"), db_index=True)
    """No relation: the audit log forgets calls at its own time."""
    name = models.CharField(_("name"), max_length=500)
    outcome = models.CharField(_("status"), max_length=20, choices=outcomes.CHOICES)
    """As the owner reads it: "Unknown tool" for a denied call."""
    detail = models.TextField(_("detail"), blank=True, default="")
    detail_reason = models.TextField(_("detail code"), blank=True, default="")
    comment = models.CharField(_("comment"), max_length=MAX_TEXT_CHARACTERS, blank=True, default="")
    state = models.CharField(_("state"), max_length=10, choices=State.choices, default=State.OPEN)
    created = models.DateTimeField(_("created"), default=timezone.now)
    closed_by = models.CharField(_("closed by"), max_length=150, blank=True, default="")
    closed_at = models.DateTimeField(_("closed at"), null=True, blank=True)
    answer = models.CharField(_("answer"), max_length=MAX_TEXT_CHARACTERS, blank=True, default="")
    seen = models.DateTimeField(_("seen"), null=True, blank=True)

    class Meta:
        verbose_name = _("reported call")
        verbose_name_plural = _("reported calls")
        ordering = ["created", "id"]
        default_permissions = ("view", "change")
        indexes = [
            models.Index(fields=("state", "created", "id"), name="call_report_queue"),
            models.Index(fields=("person", "-id"), name="call_report_person"),
        ]
        constraints = [
            models.UniqueConstraint(fields=("call_id",), condition=Q(state="open"), name="one_open_report_of_a_call")
        ]

    def __str__(self) -> str:
        return f"{self.person}: {self.name}"

    @property
    def is_open(self) -> bool:
        return bool(self.state == self.State.OPEN)


def forget_target(sender: type[Any], instance: Any, using: str, **_options: Any) -> None:
    """Close the open requests for a toolset or tool that is deleted: handler of pre_delete."""
    column = "tool" if isinstance(instance, Tool) else "toolset"
    waiting = AccessRequest.objects.using(using).filter(**{column: instance}, state=AccessRequest.State.OPEN)
    gone = {"state": AccessRequest.State.GONE, "decided_at": timezone.now()}
    # First the requests, as an approval locks them. Then the row itself: a new request waits, and finds it deleted.
    waiting.update(**gone)
    type(instance)._default_manager.using(using).select_for_update().filter(pk=instance.pk).first()
    waiting.update(**gone)
