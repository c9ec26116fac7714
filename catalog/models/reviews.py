"""The last decision of a reviewer about each item, with what it takes to undo it."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from catalog.models.base import CatalogueItem
from catalog.models.items import Prompt, Resource
from catalog.models.tools import Tool


class ReviewDecision(models.Model):
    """One decision: written by catalog.quarantine only. A later decision about the same item replaces it."""

    class Decision(models.TextChoices):
        APPROVED = "approved", _("approved")
        REJECTED = "rejected", _("rejected")

    ITEM_FIELDS: ClassVar = ("tool", "resource", "prompt")

    tool = models.OneToOneField(
        Tool, models.CASCADE, null=True, blank=True, related_name="review_decision", verbose_name=_("tool")
    )
    resource = models.OneToOneField(
        Resource, models.CASCADE, null=True, blank=True, related_name="review_decision", verbose_name=_("resource")
    )
    prompt = models.OneToOneField(
        Prompt, models.CASCADE, null=True, blank=True, related_name="review_decision", verbose_name=_("prompt")
    )
    decision = models.CharField(_("decision"), max_length=16, choices=Decision.choices)
    made_by = models.CharField(_("made by"), max_length=150)
    made_at = models.DateTimeField(_("made at"), auto_now=True, db_index=True)
    batch = models.UUIDField(_("batch"), null=True, blank=True, db_index=True)
    """The same for decisions that were made with one click; None for a decision about one item."""
    before = models.TextField(_("before"), editable=False)
    """JSON of the item's columns before the decision, see `catalog.quarantine`."""
    after = models.CharField(_("after"), max_length=64, editable=False)
    """Digest of the same columns after it: an item that changed since keeps its state."""

    class Meta:
        verbose_name = _("review decision")
        verbose_name_plural = _("review decisions")
        default_permissions = ()
        constraints: ClassVar = [
            models.CheckConstraint(
                name="one_reviewed_item",
                condition=Q(tool__isnull=False, resource__isnull=True, prompt__isnull=True)
                | Q(tool__isnull=True, resource__isnull=False, prompt__isnull=True)
                | Q(tool__isnull=True, resource__isnull=True, prompt__isnull=False),
            )
        ]

    def __str__(self) -> str:
        return f"{self.item}: {self.get_decision_display()}"

    @property
    def item(self) -> CatalogueItem:
        found: CatalogueItem = next(row for row in (self.tool, self.resource, self.prompt) if row is not None)
        return found
