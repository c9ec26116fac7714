"""Columns of rules that can be tried first: in trial, a rule is decided and logged beside the real answer, not applied.

The default manager of such a model has only the rows in force, and so have related managers, form fields and everything
else that takes a manager without naming one. Code that must see all rows names `everything`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from catalog.querysets import CatalogueQuerySet

MAX_TRIALS: Final = 50
"""Number of rows of all kinds that may be in trial at a time: each of them is decided beside every call."""


class InForceManager(models.Manager.from_queryset(CatalogueQuerySet)):  # type: ignore[misc]
    """The rows that decide: those in trial do not exist for it."""

    def get_queryset(self) -> CatalogueQuerySet:
        found: CatalogueQuerySet = super().get_queryset().filter(trial=False)
        return found


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

    objects = InForceManager()
    everything = CatalogueQuerySet.as_manager()

    TRIAL_FIELDS: ClassVar = ("trial", "trial_since", "replaces")

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> None:
        self.date_trial()
        super().save(*args, **kwargs)

    def date_trial(self) -> None:
        """Keep the start of the trial for a row in trial, and for no other."""
        if not self.trial:
            self.trial_since = None
        elif self.trial_since is None:
            self.trial_since = timezone.now()

    def clean(self) -> None:
        super().clean()
        self.date_trial()


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
