"""What every row of the catalogue shares: a version for the snapshot, bounds for names, history."""

from __future__ import annotations

import re

from django.core.exceptions import ValidationError
from django.db import models
from django.utils.translation import gettext_lazy as _

from catalog.models.fields import check_kinds
from catalog.querysets import CatalogueQuerySet

NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")


def check_name(value: str) -> None:
    if not NAME.fullmatch(value):
        raise ValidationError(
            _("A name is 1 to 128 characters out of letters A-Z and a-z, digits, underscore, hyphen and dot."),
            code="invalid_name",
        )


def check_not_blank(value: str) -> None:
    if not value.strip():
        raise ValidationError(_("Describe it in a sentence: the model reads this to decide."), code="not_described")


class Offer(models.Model):
    """Something a person may be granted: a tool, a resource or a prompt."""

    title = models.CharField(max_length=200, blank=True, help_text=_("Shown to people instead of the name."))
    enabled = models.BooleanField(default=True, help_text=_("Off: nobody sees it, whatever the grants say."))
    position = models.PositiveSmallIntegerField(
        default=100, help_text=_("Lists are ordered by position, then by name.")
    )
    version = models.BigIntegerField(default=0, editable=False)
    """Written by the database (see catalog.policy.revision): the catalogue revision that changed this row last."""

    objects = CatalogueQuerySet.as_manager()

    class Meta:
        abstract = True

    def clean(self) -> None:
        super().clean()
        check_kinds(self)
