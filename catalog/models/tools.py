"""Tools and toolsets."""

from __future__ import annotations

from typing import Any, Final

from django.core.exceptions import PermissionDenied, ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Lower
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop
from simple_history.models import HistoricalRecords

from catalog.models import app_pages, secret_flows
from catalog.models import validators as check
from catalog.models.base import CatalogueItem, check_described, check_name, check_unlike
from catalog.models.fields import JSONTextField
from catalog.querysets import CatalogueQuerySet
from catalog.runners import registry
from catalog.runners.destinations import Flow
from catalog.schemas import validator


def empty_schema() -> dict[str, Any]:
    return {"type": "object", "properties": {}, "additionalProperties": False}


class Toolset(models.Model):
    """A named set of tools, resources and prompts, to grant and to limit together."""

    name = models.CharField(_("name"), max_length=100, unique=True)
    description = models.TextField(_("description"), blank=True)
    requestable = models.BooleanField(
        _("people can request access"),
        default=False,
        help_text=_(
            "Everyone who signs in sees its name, the text below, and the names and descriptions of its tools. "
            "Definitions, settings and secrets stay hidden."
        ),
    )
    request_text = models.CharField(
        _("text for people"),
        max_length=1_000,
        blank=True,
        default="",
        help_text=_("Who should request this toolset, and what to write as the reason. People see it."),
    )

    objects = CatalogueQuerySet.as_manager()
    history = HistoricalRecords()

    class Meta:
        verbose_name = _("toolset")
        verbose_name_plural = _("toolsets")
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


MAY_DESTROY: Final = ~Q(destructive=False) & ~Q(read_only=True)
"""Tools that may delete or overwrite data: as in MCP, also those that write and do not say whether they do."""


class Tool(CatalogueItem):
    class Recording(models.TextChoices):
        WHOLE = "whole", _("whole: arguments and results unchanged")
        REDACTED = "redacted", _("redacted: likely secrets are masked")
        DIGESTS = "digests", _("digests: only their SHA-256")

    class TaskSupport(models.TextChoices):
        FORBIDDEN = "forbidden", _("forbidden")
        OPTIONAL = "optional", _("optional")
        REQUIRED = "required", _("required")

    name = models.CharField(
        _("name"),
        max_length=128,
        unique=True,
        validators=[check_name],
        help_text=_("The name that clients call. Use letters, digits, underscore, hyphen and dot."),
    )
    enabled = models.BooleanField(
        _("enabled"), default=True, help_text=_("When off, the tool is hidden from everyone.")
    )
    description = models.TextField(
        _("description"),
        validators=[check_described],
        help_text=_("The model reads this. Say what the tool does, when to use it, and its side effects."),
    )
    input_schema = JSONTextField(
        _("input schema"),
        default=empty_schema,
        validators=[validator.check],
        help_text=_('JSON Schema of the arguments: 2020-12, or draft-07 if "$schema" names it.'),
    )
    output_schema = JSONTextField(
        _("output schema"),
        null=True,
        blank=True,
        validators=[validator.check_result],
        help_text=_(
            "JSON Schema of the structured result, if the tool has one. Clients of protocol versions before 2026-07-28 "
            'get it only if it has "type": "object" at its root.'
        ),
    )
    annotation_title = models.CharField(_("annotation title"), max_length=200, blank=True)
    read_only = models.BooleanField(
        _("read only"), null=True, blank=True, help_text=_("Changes nothing (readOnlyHint).")
    )
    destructive = models.BooleanField(
        _("destructive"), null=True, blank=True, help_text=_("May delete or overwrite data (destructiveHint).")
    )
    idempotent = models.BooleanField(
        _("idempotent"),
        null=True,
        blank=True,
        help_text=_("Calling it twice has the same effect as calling it once (idempotentHint)."),
    )
    open_world = models.BooleanField(
        _("open world"), null=True, blank=True, help_text=_("Interacts with external systems (openWorldHint).")
    )
    app = JSONTextField(
        _("app"),
        null=True,
        blank=True,
        validators=[app_pages.check_tool],
        help_text=_(
            'The page that clients with MCP Apps show for a call: {"resourceUri": "ui://weather/map"}. It is a '
            "resource of this catalogue, and is granted like one."
        ),
    )
    toolsets = models.ManyToManyField(Toolset, verbose_name=_("toolsets"), blank=True, related_name="tools")
    runner = models.CharField(
        _("tool type"), max_length=40, default="python_function", help_text=_("How the tool is executed.")
    )
    settings = JSONTextField(_("settings"), default=dict, blank=True, help_text=_("Settings of the chosen tool type."))
    fill_defaults = models.BooleanField(
        _("fill defaults"), default=True, help_text=_("Missing arguments get the default value from the schema.")
    )
    timeout = models.FloatField(
        _("timeout"),
        default=30.0,
        validators=[MinValueValidator(0.1), MaxValueValidator(86_400)],
        help_text=_("Time limit for a call, in seconds."),
    )
    max_argument_bytes = models.PositiveIntegerField(
        _("max argument bytes"), default=262_144, validators=[MinValueValidator(2), MaxValueValidator(67_108_864)]
    )
    max_result_bytes = models.PositiveIntegerField(
        _("max result bytes"), default=1_048_576, validators=[MinValueValidator(64), MaxValueValidator(67_108_864)]
    )
    record_bodies = models.CharField(
        _("logged content"),
        max_length=10,
        choices=Recording.choices,
        default=Recording.REDACTED,
        help_text=_("How the audit log stores arguments and results."),
    )
    task_support = models.CharField(
        _("task support"),
        max_length=10,
        choices=TaskSupport.choices,
        default=TaskSupport.FORBIDDEN,
        help_text=_("Whether a call can or must run as a task. A task continues after the client disconnects."),
    )
    polling = models.BooleanField(
        _("polling"),
        default=False,
        help_text=_(
            "Clients call it again and again on purpose, for example to read a status. Limits of the same call or "
            "error leave it out."
        ),
    )
    cost = models.PositiveIntegerField(
        _("cost"),
        default=1,
        validators=[MaxValueValidator(1_000_000)],
        help_text=_("Cost units of a call, for limits that measure cost units."),
    )
    cost_argument = models.CharField(
        _("cost argument"),
        max_length=200,
        blank=True,
        default="",
        validators=[check.cost_argument],
        help_text=_(
            "An argument by which the cost is multiplied, such as /rows: a number, or a list by its length. Without "
            "the argument, and below 1, it is 1."
        ),
    )
    cost_per_kilobyte = models.PositiveIntegerField(
        _("cost per kilobyte"),
        default=0,
        validators=[MaxValueValidator(1_000_000)],
        help_text=_(
            "Cost units for every 1,000 bytes of the result that have begun. They are charged when it is known."
        ),
    )
    requires_capabilities = JSONTextField(
        _("requires capabilities"),
        default=list,
        blank=True,
        validators=[check.capabilities],
        help_text=_('Client capabilities that the tool requires, such as ["sampling"] or ["elicitation"].'),
    )

    history = HistoricalRecords(m2m_fields=[toolsets], excluded_fields=list(CatalogueItem.NOT_IN_HISTORY))

    class Meta:
        verbose_name = _("tool")
        verbose_name_plural = _("tools")
        ordering = ["position", "name"]
        permissions = [
            ("review_tool", gettext_noop("Can review changed definitions of tools")),
            ("use_command_runner", gettext_noop("Can save tools that run programs on the server")),
            ("try_tool", gettext_noop("Can try tools from the admin")),
            ("try_tool_as_other", gettext_noop("Can try tools from the admin as another user")),
        ]
        indexes = [models.Index(Lower("name"), name="tool_by_lower_name")]
        constraints = [
            models.CheckConstraint(condition=~models.Q(description=""), name="tool_is_described"),
            models.CheckConstraint(condition=models.Q(timeout__gt=0), name="tool_ends"),
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        super().clean()
        check_unlike(self, self.name)
        problem = check.runner_settings(self.runner, self.settings)
        if problem:
            raise ValidationError(problem)
        if not check.may_use(self.runner):
            raise ValidationError({"runner": check.permission_refusal(self.runner)})
        if self.enabled and (reason := check.not_ready(self.runner, self.settings)):
            raise ValidationError({"settings": _("%s Until you fix this, you can only save it switched off.") % reason})
        secret_flows.check_tool(self)
        if not self.origin:  # others' definitions are served as they are, and wrong defaults are not filled in
            self._check_defaults()
        if self.read_only and self.destructive:
            raise ValidationError({"destructive": _("A read-only tool cannot be destructive. Change one of the two.")})

    def _check_defaults(self) -> None:
        for field in ("input_schema", "output_schema"):
            if isinstance(schema := getattr(self, field), dict):
                try:
                    validator.check_defaults(schema)
                except ValidationError as error:
                    raise ValidationError({field: error}) from None

    def save(self, *args: Any, **options: Any) -> None:
        """Save the tool.

        Raises PermissionDenied when the signed-in user may not save a tool with this runner, or may not decide where
        its secrets go.
        """
        if not check.may_use(self.runner):
            raise PermissionDenied(check.permission_refusal(self.runner))
        secret_flows.require_permission(self)
        super().save(*args, **options)

    def secret_flows(self) -> frozenset[Flow]:
        """Return where this tool sends secrets; those of an upstream tool belong to its upstream server."""
        return registry.flows(self.runner, self.settings)
