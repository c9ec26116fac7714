"""Who may see and call what (Grant), and how often (Limit)."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from simple_history.models import HistoricalRecords

from catalog.models import validators as check
from catalog.models.fields import JSONTextField, check_kinds
from catalog.models.offers import Prompt, Resource
from catalog.models.tools import Tool, Toolset
from catalog.querysets import CatalogueQuerySet


def exactly_one(*fields: str) -> Q:
    """Of these nullable columns exactly one is set."""
    condition = Q()
    for chosen in fields:
        condition |= Q(**{f"{field}__isnull": field != chosen for field in fields})
    return condition


class Grant(models.Model):
    class Effect(models.TextChoices):
        ALLOW = "allow", _("allow")
        DENY = "deny", _("deny")

    effect = models.CharField(
        max_length=5, choices=Effect.choices, default=Effect.ALLOW, help_text=_("A deny beats every allow.")
    )
    tool = models.ForeignKey(Tool, models.CASCADE, null=True, blank=True, related_name="grants")
    toolset = models.ForeignKey(Toolset, models.CASCADE, null=True, blank=True, related_name="grants")
    resource = models.ForeignKey(Resource, models.CASCADE, null=True, blank=True, related_name="grants")
    prompt = models.ForeignKey(Prompt, models.CASCADE, null=True, blank=True, related_name="grants")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, null=True, blank=True, related_name="catalog_grants"
    )
    group = models.ForeignKey("auth.Group", models.CASCADE, null=True, blank=True, related_name="catalog_grants")
    everyone = models.BooleanField(default=False, help_text=_("Every active user, now and later."))
    starts = models.DateTimeField(null=True, blank=True, help_text=_("From this moment on; empty: at once."))
    ends = models.DateTimeField(null=True, blank=True, help_text=_("Until this moment; empty: until taken away."))
    environments = JSONTextField(
        default=list,
        blank=True,
        validators=[check.environments],
        help_text=_("Only where TOOLHUB_ENVIRONMENT is one of these, such as production, staging; empty: everywhere."),
    )
    note = models.CharField(max_length=500, blank=True, help_text=_("Why: the ticket, who asked for it."))

    objects = CatalogueQuerySet.as_manager()
    history = HistoricalRecords()

    TARGETS = ("tool", "toolset", "resource", "prompt")

    class Meta:
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
                violation_error_message=_("The end must lie after the start."),
            ),
        ]

    def __str__(self) -> str:
        return f"Grant {self.pk or '(new)'}: {self.effect} {self.target} to {self.subject}"

    def standing(self, at: datetime, environment: str) -> str:
        """What it says at this moment there: "in force", "later", "over", or "elsewhere" (in other environments)."""
        if self.ends is not None and self.ends <= at:
            return "over"
        if self.starts is not None and self.starts > at:
            return "later"
        return "elsewhere" if self.environments and environment not in self.environments else "in force"

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


class Limit(models.Model):
    class Scope(models.TextChoices):
        USER = "user", _("one user")
        EACH_USER = "each_user", _("each user")
        EACH_MEMBER = "each_member", _("each member of a group")
        TOGETHER = "everyone_together", _("everyone together")

    tool = models.ForeignKey(Tool, models.CASCADE, null=True, blank=True, related_name="limits")
    toolset = models.ForeignKey(
        Toolset,
        models.CASCADE,
        null=True,
        blank=True,
        related_name="limits",
        help_text=_("All tools of the set draw on one allowance."),
    )
    all_tools = models.BooleanField(default=False, help_text=_("All tools draw on one allowance."))
    scope = models.CharField(
        max_length=20, choices=Scope.choices, default=Scope.EACH_USER, help_text=_("Whose calls are counted together.")
    )
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, null=True, blank=True, related_name="catalog_limits"
    )
    group = models.ForeignKey("auth.Group", models.CASCADE, null=True, blank=True, related_name="catalog_limits")
    rate = models.CharField(
        max_length=20,
        validators=[check.rate],
        help_text=_("Calls per period: 30/m is 30 a minute; s, m, h, d, or a number of periods as in 100/2h."),
    )
    note = models.CharField(max_length=500, blank=True)

    objects = CatalogueQuerySet.as_manager()
    history = HistoricalRecords()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(tool__isnull=False, toolset__isnull=True, all_tools=False)
                | Q(tool__isnull=True, toolset__isnull=False, all_tools=False)
                | Q(tool__isnull=True, toolset__isnull=True, all_tools=True),
                name="limit_has_one_target",
                violation_error_message=_("Choose exactly one of tool, toolset and all tools."),
            ),
            models.CheckConstraint(
                condition=Q(scope="user", user__isnull=False, group__isnull=True)
                | Q(scope="each_member", user__isnull=True, group__isnull=False)
                | Q(scope__in=["each_user", "everyone_together"], user__isnull=True, group__isnull=True),
                name="limit_scope_fits",
                violation_error_message=_("A limit for one user names the user, one for members their group."),
            ),
        ]

    def __str__(self) -> str:
        target = f"tool {self.tool}" if self.tool_id else f"toolset {self.toolset}" if self.toolset_id else "all tools"
        return f"Limit {self.pk or '(new)'}: {self.rate} on {target} for {self.subject}"

    @property
    def subject(self) -> str:
        match self.scope:
            case self.Scope.USER:
                return f"user {self.user}"
            case self.Scope.EACH_MEMBER:
                return f"each member of {self.group}"
            case self.Scope.EACH_USER:
                return "each user"
        return "everyone together"

    def clean(self) -> None:
        super().clean()
        check.limit(self)
        if not self.rate:
            raise ValidationError({"rate": _("Give a rate such as 30/m.")})


class CatalogueRevision(models.Model):
    """One row whose number the database raises in the transaction of every change (see catalog.policy.revision)."""

    number = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="one_catalogue_revision")]

    def __str__(self) -> str:
        return str(self.number)
