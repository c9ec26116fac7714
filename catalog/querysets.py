"""Bulk changes: changes that send no signal are logged all the same, and refresh the snapshot."""

from __future__ import annotations

from typing import Any

from django.db.models import CharField, Count, OuterRef, QuerySet, Subquery, Value
from django.db.models.functions import Cast, Coalesce, Concat

from audit.actions.model_signals import WatchedQuerySet
from catalog.signals import announce


class CatalogueQuerySet(WatchedQuerySet):
    """A queryset that reports bulk changes to the running process at once.

    The database itself raises the revision (see catalog.policy.revision).
    """

    def update(self, **kwargs: Any) -> int:
        rows = super().update(**kwargs)
        announce(self.db)
        return rows

    update.alters_data = True  # type: ignore[attr-defined]

    def bulk_create(self, *args: Any, **kwargs: Any) -> list[Any]:
        made = super().bulk_create(*args, **kwargs)
        announce(self.db)
        return made

    bulk_create.alters_data = True  # type: ignore[attr-defined]


class ItemQuerySet(CatalogueQuerySet):
    """Tools, resources or prompts, with their states of review."""

    def needing_review(self) -> ItemQuerySet:
        """Return the quarantined items with a change that nobody has decided about."""
        return self.filter(quarantined_since__isnull=False, rejected="").exclude(proposed="")

    def rejected_in_review(self) -> ItemQuerySet:
        """Return the items that stay quarantined because a reviewer rejected their change."""
        return self.filter(quarantined_since__isnull=False).exclude(rejected="")


def count_by_origin(tools: QuerySet[Any], scheme: str) -> Coalesce:
    """Return an annotation for sources of tools: the number of `tools` with the origin `scheme` and the row's key."""
    origin = Concat(Value(scheme), Cast(OuterRef("pk"), CharField()))
    numbers = tools.filter(origin=origin).order_by().values("origin").annotate(number=Count("pk"))
    return Coalesce(Subquery(numbers.values("number")), 0)
