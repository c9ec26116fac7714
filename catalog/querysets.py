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


def count_by_origin(tools: QuerySet[Any], scheme: str) -> Coalesce:
    """Return an annotation for sources of tools: the number of `tools` with the origin `scheme` and the row's key."""
    origin = Concat(Value(scheme), Cast(OuterRef("pk"), CharField()))
    numbers = tools.filter(origin=origin).order_by().values("origin").annotate(number=Count("pk"))
    return Coalesce(Subquery(numbers.values("number")), 0)
