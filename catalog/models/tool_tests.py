"""Saved test cases of tools: arguments, and what the call must end with."""

from __future__ import annotations

import json
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.utils.translation import gettext_lazy as _

from audit import outcomes
from audit.actions.model_signals import WatchedQuerySet
from audit.redaction.redactor import redactor
from audit.redaction.rules import canonical
from catalog.models.fields import JSONTextField, check_kinds
from catalog.models.tools import Tool
from catalog.schemas import validator

MAX_EXPECTED_CHARACTERS = 100_000


class ToolTest(models.Model):
    """One test case. The columns of the last run are written by runs; administrators do not save them."""

    class Status(models.TextChoices):
        OK = outcomes.OK, _("Success")
        TOOL_ERROR = outcomes.TOOL_ERROR, _("Tool error")
        INVALID_ARGUMENTS = outcomes.INVALID_ARGUMENTS, _("Invalid arguments")
        REFUSED = outcomes.REFUSED, _("Denied")
        TIMEOUT = outcomes.TIMEOUT, _("Timed out")

    class Match(models.TextChoices):
        STATUS = "status", _("the status only")
        TEXT = "text", _("a text that the result contains")
        JSON = "json", _("values that the result contains, as JSON")
        SCHEMA = "schema", _("a JSON Schema that the result matches")

    class Result(models.TextChoices):
        NEVER = "", _("not run yet")
        RUNNING = "running", _("running")
        PASSED = "passed", _("passed")
        FAILED = "failed", _("failed")

    RESULT_FIELDS = ("result", "problem", "last_call", "last_run")

    tool = models.ForeignKey(Tool, models.CASCADE, verbose_name=_("tool"), related_name="tests")
    name = models.CharField(
        _("name"), max_length=100, help_text=_("What the test shows, such as: an unknown order is an error.")
    )
    arguments = JSONTextField(_("arguments"), default=dict, blank=True, help_text=_("A JSON object."))
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        verbose_name=_("runs as"),
        null=True,
        blank=True,
        related_name="+",
        help_text=_("Empty: as the person who saved it, and by that person only. The test is deleted with the user."),
    )
    editor = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,
        verbose_name=_("saved by"),
        null=True,
        editable=False,
        related_name="+",
    )
    """Who chose what it sends: nobody else's account runs that without a permission for it."""
    status = models.CharField(_("expected status"), max_length=20, choices=Status.choices, default=Status.OK)
    match = models.CharField(_("also check"), max_length=10, choices=Match.choices, default=Match.STATUS)
    expected = models.TextField(
        _("expected result"),
        blank=True,
        help_text=_("The text, the values or the schema. Members of the result that are not named here may differ."),
    )
    result = models.CharField(
        _("last result"), max_length=10, choices=Result.choices, default=Result.NEVER, blank=True, editable=False
    )
    problem = models.TextField(_("problem"), blank=True, default="", editable=False)
    """Why the last run failed: a code and its parameters, as `audit.types.Reason` writes them."""
    last_call = models.UUIDField(_("last call"), null=True, editable=False)
    last_run = models.DateTimeField(_("last run"), null=True, editable=False)

    objects = WatchedQuerySet.as_manager()

    class Meta:
        verbose_name = _("test case")
        verbose_name_plural = _("test cases")
        ordering = ["tool__name", "name"]
        constraints = [
            models.UniqueConstraint(
                fields=["tool", "name"],
                name="test_case_is_named_once",
                violation_error_message=_("This tool has a test case of this name. Choose another name."),
            )
        ]

    def __str__(self) -> str:
        return f"{self.tool}: {self.name}"

    def clean(self) -> None:
        """Check that the test can be stored and judged.

        Raises ValidationError for secrets, which would be stored in clear, and for an expectation that cannot be read.
        """
        super().clean()
        check_kinds(self)
        if isinstance(self.arguments, dict) and self.tool_id is not None:
            schema = self.tool.input_schema if isinstance(self.tool.input_schema, dict) else None
            if redactor(schema).text(self.arguments) != canonical(self.arguments):
                raise ValidationError(
                    {
                        "arguments": _(
                            "An argument is a secret or was removed by the audit log. Test cases are stored in clear: "
                            "use a value that may be seen, or keep the secret in the settings of the tool."
                        )
                    }
                )
        self._check_expected()

    def _check_expected(self) -> None:
        if len(self.expected) > MAX_EXPECTED_CHARACTERS:
            raise ValidationError({"expected": _("At most %(most)d characters.") % {"most": MAX_EXPECTED_CHARACTERS}})
        if self.match == self.Match.STATUS:
            self.expected = ""
            return
        if not self.expected.strip():
            raise ValidationError({"expected": _("Enter what the result must contain, or check the status only.")})
        if self.match == self.Match.TEXT:
            return
        if self.status != self.Status.OK:
            raise ValidationError(
                {"match": _("Only a successful result has values. Check a text, or the status only.")}
            )
        try:
            value = json.loads(self.expected)
        except (ValueError, RecursionError) as error:
            raise ValidationError({"expected": _("This is not valid JSON: %s.") % error}) from None
        if self.match == self.Match.SCHEMA:
            try:
                validator.check_result(value)
            except ValidationError as error:
                raise ValidationError({"expected": error.messages}) from None

    @property
    def expectation(self) -> dict[str, Any]:
        """What a run is judged by, as plain data."""
        value = json.loads(self.expected) if self.match in (self.Match.JSON, self.Match.SCHEMA) else self.expected
        return {"status": self.status, "match": self.match, "expected": value}
