"""Approval rules: which calls ask a person before they run, and whom."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import datetime
from typing import ClassVar, Final

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from simple_history.models import HistoricalRecords

from catalog.models import grant_conditions
from catalog.models import validators as check
from catalog.models.base import check_unlike
from catalog.models.fields import JSONTextField, check_kinds, reject
from catalog.models.rule_trials import CatalogueRule, trial_constraints
from catalog.models.rules import Grant, windows_are_closed
from catalog.models.tools import Tool, Toolset
from toolhub.invisible import show

MAX_MINUTES: Final = 24 * 60
_ODD: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def check_rule_name(value: str) -> None:
    """Raise ValidationError unless this is one line: clients and people read it in the middle of sentences."""
    if _ODD.search(value) or value != value.strip():
        reject(_("The name must be one line, without blanks around it."))
    if show(value) != value:
        reject(_("The name has a character that readers overlook or that misleads them: %(shown)s"), shown=show(value))


class ApprovalRule(CatalogueRule):
    """One rule. Every rule that applies to a call asks: rules never replace each other."""

    class Asks(models.TextChoices):
        APPROVERS = "approvers", _("the members of a group")
        PERSON = "person", _("the person who calls")

    name = models.CharField(
        _("name"),
        max_length=100,
        unique=True,
        validators=[check_rule_name],
        help_text=_("People read it where they approve: for example “Deletions need a second person”."),
    )
    grant = models.ForeignKey(
        Grant,
        models.CASCADE,
        verbose_name=_("grant"),
        null=True,
        blank=True,
        related_name="approval_rules",
        help_text=_("Calls that only this grant allows. Who may make them by another grant is not asked."),
    )
    tool = models.ForeignKey(
        Tool, models.CASCADE, verbose_name=_("tool"), null=True, blank=True, related_name="approval_rules"
    )
    toolset = models.ForeignKey(
        Toolset, models.CASCADE, verbose_name=_("toolset"), null=True, blank=True, related_name="approval_rules"
    )
    all_tools = models.BooleanField(_("all tools"), default=False)
    destructive_only = models.BooleanField(
        _("destructive tools only"),
        default=False,
        help_text=_("Only tools that may delete or overwrite data, or do not say that they do not."),
    )
    conditions = JSONTextField(
        _("conditions"),
        default=list,
        blank=True,
        validators=[check.conditions],
        help_text=_(
            'Ask only for calls whose arguments satisfy all of these, as a list such as [{"path": "/amount", "op": '
            '"range", "exclusiveMinimum": 1000}]. Of the items of a list, one is enough.'
        ),
    )
    windows = JSONTextField(
        _("time windows"),
        default=list,
        blank=True,
        validators=[check.windows],
        help_text=_(
            "Ask only at these weekdays and hours, as a list such as "
            '[{"days": ["mon", "tue"], "from": "09:00", "to": "17:30", "zone": "Europe/Berlin"}]. Empty: always.'
        ),
    )
    outside_windows = models.BooleanField(
        _("outside these time windows"), default=False, help_text=_("Ask at all other times: outside office hours.")
    )
    first_time = models.CharField(
        _("first time with this argument"),
        max_length=500,
        blank=True,
        help_text=_(
            "Ask only for values of this argument with which the person has no approved call of the tool yet: "
            "/customer or /address/country. Empty: every time."
        ),
    )
    asks = models.CharField(_("asks"), max_length=10, choices=Asks.choices, default=Asks.APPROVERS)
    group = models.ForeignKey(
        "auth.Group",
        models.SET_NULL,
        verbose_name=_("approvers"),
        null=True,
        blank=True,
        related_name="approval_rules",
        help_text=_("One member decides. If the group is deleted, nobody can approve, and the calls do not run."),
    )
    four_eyes = models.BooleanField(
        _("four eyes"), default=True, help_text=_("An approver cannot approve their own calls.")
    )
    accepts_client = models.BooleanField(
        _("accept the client's answer"),
        default=False,
        help_text=_(
            "The person can confirm in the AI client. That proves no human: the client could answer by itself. Tools "
            "that may destroy data always ask in the browser."
        ),
    )
    minutes = models.PositiveSmallIntegerField(
        _("minutes"),
        default=60,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_MINUTES)],
        help_text=_("How long a call waits for an answer, and how long an approval can be used. At most 1440."),
    )
    enabled = models.BooleanField(_("switched on"), default=True)
    note = models.CharField(_("note"), max_length=500, blank=True)

    history = HistoricalRecords()

    TARGETS: ClassVar = ("grant", "tool", "toolset")

    class Meta:
        verbose_name = _("approval rule")
        verbose_name_plural = _("approval rules")
        ordering: ClassVar = ["name"]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(grant__isnull=False, tool__isnull=True, toolset__isnull=True, all_tools=False)
                | Q(grant__isnull=True, tool__isnull=False, toolset__isnull=True, all_tools=False)
                | Q(grant__isnull=True, tool__isnull=True, toolset__isnull=False, all_tools=False)
                | Q(grant__isnull=True, tool__isnull=True, toolset__isnull=True, all_tools=True),
                name="approval_rule_has_one_target",
                violation_error_message=_("Choose exactly one of grant, tool, toolset and all tools."),
            ),
            models.CheckConstraint(
                condition=Q(minutes__gte=1, minutes__lte=MAX_MINUTES),
                name="approval_rule_minutes",
                violation_error_message=_("The minutes must be between 1 and 1440."),
            ),
            *trial_constraints("approval_rule"),
        ]

    def __str__(self) -> str:
        return self.name

    def state_at(self, at: datetime) -> str:
        """Return "trial" (not applied at all), "off", "closed" (it does not ask at this time), or "in force"."""
        if self.trial:
            return "trial"
        if not self.enabled:
            return "off"
        closed = bool(self.windows) and windows_are_closed(self.windows, at) != self.outside_windows
        return "closed" if closed else "in force"

    @property
    def target(self) -> str:
        for kind in self.TARGETS:
            if getattr(self, f"{kind}_id") is not None:
                return f"{kind} {getattr(self, kind)}"
        return "all tools"

    def validate_unique(self, exclude: Collection[str] | None = None) -> None:
        super().validate_unique(exclude)
        # Django asks the default manager, which has no rules in trial.
        others = ApprovalRule.everything.filter(name=self.name, trial=True).exclude(pk=self.pk)
        if "name" not in (exclude or ()) and others.exists():
            raise ValidationError({"name": self.unique_error_message(ApprovalRule, ("name",))})

    def clean(self) -> None:
        super().clean()
        check_kinds(self)
        check_unlike(self, self.name)
        check.approval_rule(self)
        if self.grant is not None and self.grant.trial:
            raise ValidationError(_("The grant is in trial, so it allows no call yet. Choose a grant in force."))
        grant_conditions.check_approval_rule(self)


def find_approving_groups(group_ids: frozenset[int]) -> frozenset[int]:
    """Return those of the groups whose members approve calls, by rules that are switched off or in trial too."""
    rules = ApprovalRule.everything.filter(group__in=group_ids).order_by().values_list("group", flat=True)
    return frozenset(key for key in rules if key is not None)


def approves_more(user_id: int, other_id: int) -> bool:
    """Return whether the first user is a member of a group that approves calls, and the second is not."""
    rules = ApprovalRule.everything.filter(group__user=user_id).exclude(group__user=other_id)
    return bool(rules.exists())
