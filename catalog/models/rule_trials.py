"""Columns of rules that can be tried first: in trial, a rule is decided and logged beside the real answer, not applied.

The default manager of such a model has only the rows in force, and so have related managers, form fields and everything
else that takes a manager without naming one. Code that must see all rows names `everything`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from django.apps import apps
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from catalog.querysets import CatalogueQuerySet

MAX_TRIALS: Final = 50
"""Number of rows of all kinds that may be in trial at a time: each of them is decided beside every call."""


_Manager = models.Manager.from_queryset(CatalogueQuerySet)


class InForceManager(_Manager[Any]):
    """The rows that decide: those in trial do not exist for it."""

    def get_queryset(self) -> models.QuerySet[Any]:
        return super().get_queryset().filter(trial=False)


class CatalogueRule(models.Model):
    """A rule in force, or in trial: alone, or in the place of a rule in force."""

    trial = models.BooleanField(
        _("in trial"),
        default=False,
        help_text=_("Log what the rule would change, and apply nothing. You can put it in force later."),
    )
    trial_since = models.DateTimeField(_("in trial since"), null=True, blank=True, editable=False)
    replaces = models.ForeignKey(
        "self",
        models.CASCADE,
        verbose_name=_("tried in the place of"),
        null=True,
        blank=True,
        related_name="+",
        help_text=_("The rule in force whose change is tried. Empty: a further rule is tried."),
    )

    replaces_id: int | None
    objects = InForceManager()
    everything = CatalogueQuerySet.as_manager()

    TRIAL_FIELDS: ClassVar = ("trial", "trial_since", "replaces")
    TEXTS: ClassVar = ("name", "note")
    """Columns for people, which decide nothing."""

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> None:
        self.date_trial()
        if "trial" in (kwargs.get("update_fields") or ()):
            kwargs["update_fields"] = {*kwargs["update_fields"], "trial_since"}
        super().save(*args, **kwargs)

    def date_trial(self) -> None:
        """Keep the start of the trial for a row in trial, and for no other.

        A trial starts again when what it decides changes: what was logged before is about another rule.
        """
        if not self.trial:
            self.trial_since = None
        elif self.trial_since is None or self._decides_otherwise():
            self.trial_since = timezone.now()

    def _decides_otherwise(self) -> bool:
        """Return whether the row decides otherwise than the stored one, which is in trial."""
        without = ("id", "trial", "trial_since", *self.TEXTS)
        names = [column.attname for column in self._meta.concrete_fields if column.name not in without]
        stored = type(self).everything.filter(pk=self.pk, trial=True).values(*names).first() if self.pk else None
        return stored is not None and any(stored[name] != getattr(self, name) for name in names)

    @property
    def name_in_log(self) -> str:
        """What English names of the row say before its number: "Grant 7 in trial"."""
        return f"{self.pk or '(new)'}{' in trial' if self.trial else ''}"

    def clean(self) -> None:
        super().clean()
        self.date_trial()
        if self.trial:
            self._check_trial()
        elif self.replaces_id is not None:
            raise ValidationError(_("Only a rule in trial can be tried in the place of another one."))

    def _check_trial(self) -> None:
        """Raise ValidationError unless the row may be in trial like this."""
        rows = type(self).everything
        stored = rows.filter(pk=self.pk).values_list("trial", flat=True).first() if self.pk is not None else None
        if stored is False:
            raise ValidationError(
                _(
                    "This rule is in force: in trial, it would stop to apply. Use “Try a change first” on its page, "
                    "or add a rule in trial."
                )
            )
        if self.replaces_id is not None:
            replaced = rows.filter(pk=self.replaces_id).values_list("trial", flat=True).first()
            if replaced is None:
                raise ValidationError(_("The rule whose change you try was deleted. Add a rule in trial."))
            if replaced:
                raise ValidationError(_("The rule whose change you try is in trial itself. Change that rule."))
        if stored is None and count_trials() >= MAX_TRIALS:
            raise ValidationError(
                _("%(most)s rules are in trial, which is the maximum. End a trial, or put its rule in force, first."),
                params={"most": MAX_TRIALS},
            )


def rule_models() -> list[type[CatalogueRule]]:
    """Return the models whose rows can be in trial."""
    return [model for model in apps.get_app_config("catalog").get_models() if issubclass(model, CatalogueRule)]


def count_trials() -> int:
    """Return how many rows of all kinds are in trial."""
    return sum(model.everything.filter(trial=True).count() for model in rule_models())


def trial_constraints(name: str) -> list[models.BaseConstraint]:
    """Return the constraints of the columns; `name` begins their names."""
    return [
        models.CheckConstraint(
            condition=Q(trial=True, trial_since__isnull=False) | Q(trial=False, trial_since__isnull=True),
            name=f"{name}_trial_has_a_start",
            violation_error_message=_("A rule in trial has a start, and a rule in force has none."),
        ),
        models.CheckConstraint(
            condition=Q(trial=True) | Q(replaces__isnull=True),
            name=f"{name}_in_force_replaces_nothing",
            violation_error_message=_("Only a rule in trial can be tried in the place of another one."),
        ),
    ]
