"""Common parts of catalogue rows: a version for the snapshot, limits for names, history."""

from __future__ import annotations

import re

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models.functions import Lower
from django.utils.translation import gettext_lazy as _

from catalog.models import validators as check
from catalog.models.fields import JSONTextField, check_kinds
from catalog.querysets import ItemQuerySet

NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
RESERVED_NAMES = frozenset({"__proto__", "prototype", "constructor", "toString", "valueOf", "hasOwnProperty"})
"""Members of every JavaScript object: a client that keeps tools in one by name would break."""


def check_name(value: str) -> None:
    if not NAME.fullmatch(value):
        raise ValidationError(
            _("A name has 1 to 128 characters: letters A-Z and a-z, digits, underscore, hyphen and dot."),
            code="invalid_name",
        )
    if not re.search(r"[A-Za-z0-9]", value) or value in RESERVED_NAMES:
        raise ValidationError(
            _("Programs give this name a meaning of its own. Use a name with a letter or digit, such as read_file."),
            code="reserved_name",
        )


def check_unlike(row: models.Model, name: str) -> None:
    """Raise ValidationError when another row of this table has the same name in other letters."""
    rows = type(row)._base_manager.all()  # rules in trial too
    others = rows.alias(lower=Lower("name")).filter(lower=name.lower()).exclude(name=name).exclude(pk=row.pk)
    other = others.values_list("name", flat=True).first()
    # Two names of before this rule may stay.
    if other is not None and not rows.filter(pk=row.pk, name=name).exists():
        message = _('The name "%(other)s" already exists. Two names cannot differ only in upper and lower case.')
        raise ValidationError({"name": ValidationError(message, code="same_name", params={"other": other})})


MAX_DESCRIPTION_CHARACTERS = 10_000
"""Maximum size of the description of a tool, prompt or resource: about 2,500 tokens of every conversation."""


def check_described(value: str) -> None:
    if not value.strip():
        raise ValidationError(
            _("This must not be blank. Models and people use this text to choose."), code="not_described"
        )
    check_size(value)


def check_size(value: str) -> None:
    if len(value) > MAX_DESCRIPTION_CHARACTERS:
        large = _("The description has %(size)s characters. The maximum is %(most)s: every client reads all of it.")
        raise ValidationError(
            large, code="too_long", params={"size": f"{len(value):,}", "most": f"{MAX_DESCRIPTION_CHARACTERS:,}"}
        )


def check_named(value: str) -> None:
    if not value.strip():
        raise ValidationError(_("The name must not be blank. Clients show it to people."), code="not_named")


class CatalogueItem(models.Model):
    """An item that can be granted: a tool, a resource or a prompt."""

    title = models.CharField(
        _("title"), max_length=200, blank=True, help_text=_("Shown to people instead of the name.")
    )
    enabled = models.BooleanField(_("enabled"), default=True)
    position = models.PositiveSmallIntegerField(
        _("position"), default=100, help_text=_("Lists are ordered by position, then by name.")
    )
    icons = JSONTextField(
        _("icons"),
        default=list,
        blank=True,
        validators=[check.icons],
        help_text=_('A list such as [{"src": "https://...", "mimeType": "image/png", "sizes": ["48x48"]}].'),
    )
    version = models.BigIntegerField(_("version"), default=0, editable=False)
    """Written by the database (see catalog.policy.revision): the catalogue revision that changed this row last."""

    # The source of the item, and its approved definition: written by catalog.quarantine only, never by a form.
    origin = models.CharField(_("origin"), max_length=64, blank=True, default="", editable=False, db_index=True)
    """For example upstream:3 or openapi:7; empty for items that were made here."""
    pinned = models.CharField(_("pinned"), max_length=64, blank=True, default="", editable=False)
    """The hash of the source's definition as approved."""
    approved = models.TextField(_("approved"), blank=True, default="", editable=False)
    """That definition as JSON."""
    proposed = models.TextField(_("proposed"), blank=True, default="", editable=False)
    """JSON of the changed definition that waits for review, or was rejected; "null": its source no longer has it."""
    rejected = models.CharField(_("rejected"), max_length=64, blank=True, default="", editable=False)
    """The hash of a rejected proposal: it is not proposed again. Empty while a change waits for review."""
    quarantined_since = models.DateTimeField(
        _("quarantined since"), null=True, blank=True, editable=False, db_index=True
    )

    REVIEW_FIELDS = ("pinned", "approved", "proposed", "rejected", "quarantined_since")
    NOT_IN_HISTORY = ("version", "origin", *REVIEW_FIELDS)
    """Columns that a restored version leaves alone: restoring an older version must not lift a quarantine."""

    objects = ItemQuerySet.as_manager()

    class Meta:
        abstract = True

    def clean(self) -> None:
        super().clean()
        check_kinds(self)
