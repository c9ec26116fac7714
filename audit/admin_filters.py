"""Filter of a list by a related row, such as a toolset or a group, of which there may be hundreds.

A few are links, as in every other filter. Many are one list to choose from: a link for each would take longer and
weigh more than the rows that the page is about.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from unfold.widgets import SELECT_CLASSES

MAX_LINKS = 20
"""Maximum number of rows that are links."""
NONE = "none"
"""The choice of the rows without any related row."""
MAX_KEY_DIGITS = 18


def is_key(text: str) -> bool:
    """Return whether a value of an address can be the primary key of a row."""
    return text.isdecimal() and text.isascii() and len(text) < MAX_KEY_DIGITS


class RelatedFilter(admin.SimpleListFilter):
    """The filter that `related_filter` makes: the field of the list's model, and the address that Django gives it."""

    field_name = ""
    select_classes = " ".join(SELECT_CLASSES)

    def __init__(self, request: HttpRequest, params: dict[str, Any], model: Any, model_admin: Any) -> None:
        field = model._meta.get_field(self.field_name)
        self.title = field.verbose_name
        self._has_none = field.null or field.many_to_many
        super().__init__(request, params, model, model_admin)
        # The theme's own template has links.
        self.template = "admin/filter.html" if len(self.lookup_choices) <= MAX_LINKS else "admin/select_filter.html"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        related = model_admin.model._meta.get_field(self.field_name).remote_field.model
        found = [(str(row.pk), str(row)) for row in related._default_manager.all()]
        found.sort(key=lambda choice: choice[1])
        return [*found, (NONE, _("none"))] if found and self._has_none else found

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        if not chosen:
            return queryset
        if chosen == NONE:
            return queryset.filter(**{self.field_name: None})
        if not is_key(chosen):
            return queryset.none()
        # By keys and not by a join, of which Django would compare every column of every row to find those twice.
        matching = queryset.model._base_manager.filter(**{self.field_name: int(chosen)}).order_by()
        return queryset.filter(pk__in=matching.values("pk"))

    def choices(self, changelist: Any) -> Iterator[Any]:
        counts = self._count(changelist) if changelist.add_facets else None
        chosen = self.value()
        self.other_parameters = [
            (name, value)
            for name, values in changelist.filter_params.items()
            if name != self.parameter_name
            for value in values
        ]
        yield {
            "selected": chosen is None,
            "value": "",
            "query_string": changelist.get_query_string(remove=[self.parameter_name]),
            "display": _("All"),
        }
        for value, text in self.lookup_choices:
            yield {
                "selected": chosen == value,
                "value": value,
                "query_string": changelist.get_query_string({self.parameter_name: value}),
                "display": text if counts is None else f"{text} ({counts.get(value, 0)})",
            }

    def _count(self, changelist: Any) -> dict[str, int]:
        """Return how many rows of the list each choice has, without this filter: by one query for all."""
        rows = changelist.get_queryset(self.request, exclude_parameters=self.expected_parameters())
        counts = rows.order_by().values_list(self.field_name).annotate(rows_=Count("pk", distinct=True))
        return {NONE if key is None else str(key): number for key, number in counts}


def related_filter(field_name: str) -> type[RelatedFilter]:
    """Return the filter of a list by this field, a foreign key or a many-to-many field."""
    attributes = {"field_name": field_name, "title": field_name, "parameter_name": f"{field_name}__id__exact"}
    return type("RelatedFilterOfField", (RelatedFilter,), attributes)
