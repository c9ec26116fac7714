"""Access (Grant) and limits (Limit)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from simple_history.models import HistoricalRecords

from catalog.conditions import measures, windows
from catalog.conditions.mistakes import WindowError
from catalog.models import grant_conditions
from catalog.models import validators as check
from catalog.models.fields import JSONTextField, check_kinds
from catalog.models.items import Prompt, Resource
from catalog.models.rule_trials import CatalogueRule, trial_constraints
from catalog.models.tools import Tool, Toolset


def exactly_one(*fields: str) -> Q:
    """Return the condition that exactly one of these nullable columns is set."""
    condition = Q()
    for chosen in fields:
        condition |= Q(**{f"{field}__isnull": field != chosen for field in fields})
    return condition


def windows_are_closed(stored: Any, at: datetime) -> bool:
    """Return whether a grant has time windows, as it stores them, and all of them are closed at this time."""
    try:
        found = windows.parse(stored)
    except WindowError:
        return False  # the policy has its own answer to what it cannot read
    return bool(found) and not windows.is_open(found, at.timestamp())


class Grant(CatalogueRule):
    class Effect(models.TextChoices):
        ALLOW = "allow", _("allow")
        DENY = "deny", _("deny")

    effect = models.CharField(
        _("effect"),
        max_length=5,
        choices=Effect.choices,
        default=Effect.ALLOW,
        help_text=_("Deny always overrides allow."),
    )
    tool = models.ForeignKey(Tool, models.CASCADE, verbose_name=_("tool"), null=True, blank=True, related_name="grants")
    toolset = models.ForeignKey(
        Toolset, models.CASCADE, verbose_name=_("toolset"), null=True, blank=True, related_name="grants"
    )
    resource = models.ForeignKey(
        Resource, models.CASCADE, verbose_name=_("resource"), null=True, blank=True, related_name="grants"
    )
    prompt = models.ForeignKey(
        Prompt, models.CASCADE, verbose_name=_("prompt"), null=True, blank=True, related_name="grants"
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        verbose_name=_("user"),
        null=True,
        blank=True,
        related_name="catalog_grants",
    )
    group = models.ForeignKey(
        "auth.Group", models.CASCADE, verbose_name=_("group"), null=True, blank=True, related_name="catalog_grants"
    )
    everyone = models.BooleanField(_("everyone"), default=False, help_text=_("Every active user, now and later."))
    starts = models.DateTimeField(_("starts"), null=True, blank=True, help_text=_("Start (empty: now)"))
    ends = models.DateTimeField(_("ends"), null=True, blank=True, help_text=_("End (empty: no expiry)"))
    environments = JSONTextField(
        _("environments"),
        default=list,
        blank=True,
        validators=[check.environments],
        help_text=_(
            "Applies only if TOOLHUB_ENVIRONMENT is one of these names, such as production, staging. Empty: "
            "all environments."
        ),
    )
    conditions = JSONTextField(
        _("conditions"),
        default=list,
        blank=True,
        validators=[check.conditions],
        help_text=_(
            'What the arguments of a call must be, as a list such as [{"path": "/region", "op": "equals", "value": '
            '"emea"}]. All of them hold. An allow permits only such calls, and clients see the narrowed definition. A '
            "deny denies only such calls."
        ),
    )
    windows = JSONTextField(
        _("time windows"),
        default=list,
        blank=True,
        validators=[check.windows],
        help_text=_(
            "Weekdays and hours at which the grant applies, as a list such as "
            '[{"days": ["mon", "tue"], "from": "09:00", "to": "17:30", "zone": "Europe/Berlin"}]. Empty: always.'
        ),
    )
    flags = JSONTextField(
        _("flags"),
        default=list,
        blank=True,
        validators=[check.flags],
        help_text=_("Applies only to users for whom all these flags are on. Empty: to all."),
    )
    skips_approval = models.BooleanField(
        _("runs without approval"),
        default=False,
        help_text=_(
            "Calls that this grant allows need no approval, whatever approval rules say. Only people who may change "
            "approval rules can change this."
        ),
    )
    note = models.CharField(
        _("note"),
        max_length=500,
        blank=True,
        help_text=_("Reason for this grant, for example the ticket and the person who asked for it."),
    )

    history = HistoricalRecords()

    TARGETS = ("tool", "toolset", "resource", "prompt")

    class Meta:
        verbose_name = _("grant")
        verbose_name_plural = _("grants")
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=exactly_one("tool", "toolset", "resource", "prompt"),
                name="grant_has_one_target",
                violation_error_message=_("Choose exactly one of tool, toolset, resource and prompt."),
            ),
            models.CheckConstraint(
                condition=Q(user__isnull=False, group__isnull=True, everyone=False)
                | Q(user__isnull=True, group__isnull=False, everyone=False)
                | Q(user__isnull=True, group__isnull=True, everyone=True),
                name="grant_has_one_subject",
                violation_error_message=_("Choose exactly one of user, group and everyone."),
            ),
            models.CheckConstraint(
                condition=Q(starts__isnull=True) | Q(ends__isnull=True) | Q(ends__gt=models.F("starts")),
                name="grant_ends_after_it_starts",
                violation_error_message=_("The end must be after the start."),
            ),
            models.CheckConstraint(
                condition=Q(skips_approval=False) | Q(effect="allow", resource__isnull=True, prompt__isnull=True),
                name="grant_without_approval_is_for_tools",
                violation_error_message=_("Only a grant that allows a tool or a toolset can run without approval."),
            ),
            *trial_constraints("grant"),
        ]

    def __str__(self) -> str:
        return f"Grant {self.name_in_log}: {self.effect} {self.target} to {self.subject}"

    def state_at(self, at: datetime, environment: str) -> str:
        """Return the state at this time.

        It is "trial" (not applied at all), "in force", "later", "over", "elsewhere" (only in other environments), or
        "closed" (outside its time windows).
        """
        if self.trial:
            return "trial"
        if self.ends is not None and self.ends <= at:
            return "over"
        if self.starts is not None and self.starts > at:
            return "later"
        if self.environments and environment not in self.environments:
            return "elsewhere"
        return "closed" if windows_are_closed(self.windows, at) else "in force"

    @property
    def is_limited(self) -> bool:
        """Whether it holds only for some arguments or, by flags, for some people."""
        return bool(self.conditions or self.flags)

    @property
    def target(self) -> str:
        for kind in self.TARGETS:
            if getattr(self, f"{kind}_id") is not None:
                return f"{kind} {getattr(self, kind)}"
        return "nothing"

    @property
    def subject(self) -> str:
        if self.user_id is not None:
            return f"user {self.user}"
        return f"group {self.group}" if self.group_id is not None else "everyone" if self.everyone else "nobody"

    def clean(self) -> None:
        super().clean()
        check_kinds(self)
        check.grant(self)
        grant_conditions.check_grant(self)


LIMITED_METHODS = (
    "completion/complete",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "tasks/get",
    "tools/list",
)
"""The methods that a limit can name: those that clients poll, or that read something."""


class Limit(CatalogueRule):
    class Measure(models.TextChoices):
        CALLS = measures.CALLS, _("calls")
        COST = measures.COST, _("cost units")
        RUNNING = measures.RUNNING, _("calls at a time")
        REPEATS = measures.REPEATS, _("the same call again")
        ERRORS = measures.ERRORS, _("the same error again")

    class Scope(models.TextChoices):
        USER = "user", _("one user")
        EACH_USER = "each_user", _("each user")
        EACH_MEMBER = "each_member", _("each member of a group")
        GROUP_TOGETHER = "group_together", _("the members of a group together")
        TOGETHER = "everyone_together", _("everyone together")

    tool = models.ForeignKey(Tool, models.CASCADE, verbose_name=_("tool"), null=True, blank=True, related_name="limits")
    toolset = models.ForeignKey(
        Toolset,
        models.CASCADE,
        verbose_name=_("toolset"),
        null=True,
        blank=True,
        related_name="limits",
        help_text=_("All tools in the toolset share this limit."),
    )
    all_tools = models.BooleanField(_("all tools"), default=False, help_text=_("All tools share this limit."))
    method = models.CharField(
        _("method"),
        max_length=40,
        blank=True,
        default="",
        choices=[(name, name) for name in LIMITED_METHODS],
        help_text=_("Requests of this MCP method, whatever they name. The tools themselves have limits of their own."),
    )
    scope = models.CharField(
        _("scope"),
        max_length=20,
        choices=Scope.choices,
        default=Scope.EACH_USER,
        help_text=_("Users whose calls count toward the same limit."),
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        verbose_name=_("user"),
        null=True,
        blank=True,
        related_name="catalog_limits",
    )
    group = models.ForeignKey(
        "auth.Group", models.CASCADE, verbose_name=_("group"), null=True, blank=True, related_name="catalog_limits"
    )
    measure = models.CharField(
        _("measure"),
        max_length=10,
        choices=Measure.choices,
        default=Measure.CALLS,
        help_text=_(
            "What is counted. Tools say how many cost units a call takes. The same call has the same arguments; tools "
            "for polling are left out of repetitions."
        ),
    )
    rate = models.CharField(
        _("amount"),
        max_length=20,
        help_text=_(
            "30/m means 30 calls a minute. Units are s, m, h and d. 100/2h means 100 calls in 2 hours. A quota such as "
            "1000/hour, 1000/day, 1000/week or 1000/month begins anew with the calendar and outlasts restarts. Calls "
            "at a time: 3."
        ),
    )
    zone = models.CharField(
        _("time zone"),
        max_length=64,
        blank=True,
        default="",
        validators=[check.zone],
        help_text=_("Where the days and months of a quota begin, such as Europe/Berlin. Empty: UTC."),
    )
    advice = models.CharField(
        _("advice"),
        max_length=300,
        blank=True,
        default="",
        help_text=_(
            "What the model reads when the limit is reached, after the time to wait: what to do instead, for example "
            "“Search the archive with search_cached.”"
        ),
    )
    note = models.CharField(_("note"), max_length=500, blank=True)

    history = HistoricalRecords()

    class Meta:
        verbose_name = _("limit")
        verbose_name_plural = _("limits")
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(tool__isnull=False, toolset__isnull=True, all_tools=False, method="")
                | Q(tool__isnull=True, toolset__isnull=False, all_tools=False, method="")
                | Q(tool__isnull=True, toolset__isnull=True, all_tools=True, method="")
                | Q(tool__isnull=True, toolset__isnull=True, all_tools=False, method__in=LIMITED_METHODS),
                name="limit_has_one_target",
                violation_error_message=_("Choose exactly one of tool, toolset, all tools and method."),
            ),
            models.CheckConstraint(
                condition=Q(scope="user", user__isnull=False, group__isnull=True)
                | Q(scope__in=["each_member", "group_together"], user__isnull=True, group__isnull=False)
                | Q(scope__in=["each_user", "everyone_together"], user__isnull=True, group__isnull=True),
                name="limit_scope_fits",
                violation_error_message=_(
                    "Choose a user for “one user”, and a group for the members of one. Otherwise leave both empty."
                ),
            ),
            *trial_constraints("limit"),
        ]

    def __str__(self) -> str:
        target = f"tool {self.tool}" if self.tool_id else f"toolset {self.toolset}" if self.toolset_id else "all tools"
        target = f"method {self.method}" if self.method else target
        return f"Limit {self.name_in_log}: {self.amount} on {target} for {self.subject}"

    @property
    def amount(self) -> str:
        return measures.describe_amount(self.measure, self.rate)

    @property
    def subject(self) -> str:
        match self.scope:
            case self.Scope.USER:
                return f"user {self.user}"
            case self.Scope.EACH_MEMBER:
                return f"each member of {self.group}"
            case self.Scope.GROUP_TOGETHER:
                return f"the members of {self.group} together"
            case self.Scope.EACH_USER:
                return "each user"
        return "everyone together"

    def clean(self) -> None:
        super().clean()
        if not self.rate:
            raise ValidationError({"rate": _("Enter a rate, for example 30/m.")})
        check.limit(self)
        if self.trial and self.method:
            raise ValidationError(
                _(
                    "A limit of a method cannot be in trial: the audit log has calls, not these requests. "
                    "Choose a tool, a toolset or all tools."
                )
            )


class CatalogueRevision(models.Model):
    """One row whose number the database raises in the transaction of every change (see catalog.policy.revision)."""

    number = models.BigIntegerField(_("number"), default=0)

    class Meta:
        verbose_name = _("catalogue revision")
        verbose_name_plural = _("catalogue revisions")
        constraints = [models.CheckConstraint(condition=Q(id=1), name="one_catalogue_revision")]

    def __str__(self) -> str:
        return str(self.number)
