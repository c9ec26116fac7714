"""Related rows of a deletion, for its confirmation page: their number, and the first few by name.

Django's own implementation loads and names every row, which takes minutes for a user with thousands of grants. This
one needs a few queries for each model, whatever the number of rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.db import models
from django.db.models.deletion import CASCADE, DO_NOTHING, SET_DEFAULT, SET_NULL, get_candidate_relations_to_delete
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from audit import hooks

SHOWN = 20
"""Maximum rows of each model that are named."""
_DEEP = 4
_STAYS = (DO_NOTHING, SET_NULL, SET_DEFAULT)


class BoundedDeletion(admin.ModelAdmin):  # type: ignore[type-arg]
    """A ModelAdmin whose confirmation page of a deletion takes a bounded time."""

    def get_deleted_objects(self, objs: Iterable[Any], request: HttpRequest) -> tuple[Any, Any, Any, Any]:
        """Return the related rows of a deletion, as Django expects them.

        The tuple holds a nested list of texts, {model name: number}, the model names that this user may not delete,
        and the rows that prevent the deletion.
        """
        rows = list(objs)
        if not rows:
            return [], {}, set(), []
        question = _Question(self.admin_site, request)
        question.count(type(rows[0]), len(rows), rows[0])
        named: list[Any] = [question.name(row) for row in rows[:SHOWN]]
        if len(rows) > SHOWN:
            named.append(_more(len(rows) - SHOWN))
        along = question.along(type(rows[0]), [row.pk for row in rows], _DEEP)
        return ([*named, along] if along else named), question.numbers, question.refused, question.against

    def render_delete_form(self, request: HttpRequest, context: dict[str, Any]) -> Any:
        # The page names the row in the language of the page.
        return super().render_delete_form(request, {**context, "object": _Named(context["object"])})


class _Named:
    """A proxy of a row whose text is its name in the language of the page."""

    def __init__(self, row: Any) -> None:
        self._row = row

    def __getattr__(self, name: str) -> Any:
        return getattr(self._row, name)

    def __str__(self) -> str:
        return hooks.catalogue().name_row(self._row)


class _Question:
    def __init__(self, site: Any, request: HttpRequest) -> None:
        self.site, self.request = site, request
        self.numbers: dict[str, int] = {}
        self.refused: set[str] = set()
        self.against: list[Any] = []

    def count(self, model: type[models.Model], number: int, example: Any) -> None:
        meta = model._meta
        # Django's automatic many-to-many tables have only an English name.
        nameless = meta.auto_created and not isinstance(meta.verbose_name_plural, Promise)
        kind = _("relations between them") if nameless else str(meta.verbose_name_plural)
        self.numbers[kind] = self.numbers.get(kind, 0) + number
        admin = self.site._registry.get(model)
        if admin is not None and not admin.has_delete_permission(self.request, example):
            self.refused.add(str(meta.verbose_name))

    def name(self, row: Any) -> Any:
        meta = row._meta
        kind, name = capfirst(str(meta.verbose_name)), hooks.catalogue().name_row(row)
        if type(row) in self.site._registry:
            try:
                href = reverse(f"{self.site.name}:{meta.app_label}_{meta.model_name}_change", args=(quote(row.pk),))
            except NoReverseMatch:
                pass
            else:
                return format_html('{}: <a href="{}">{}</a>', kind, href, name)
        return f"{kind}: {name}"

    def along(self, model: type[models.Model], keys: Any, deep: int) -> list[Any]:
        """Return the names of rows that the deletion of these keys (a list, or a query of them) deletes as well.

        The result is a nested list of at most `deep` further levels.
        """
        found: list[Any] = []
        relations: Iterable[Any] = get_candidate_relations_to_delete(model._meta)
        for relation in relations:
            other, column, rule = relation.related_model, relation.field, relation.on_delete
            if rule in _STAYS:
                continue
            rows = other._base_manager.filter(**{f"{column.name}__in": keys}).order_by("pk")
            number = rows.count()
            if not number:
                continue
            links = [one.name for one in other._meta.concrete_fields if one.many_to_one]
            first = list(rows.select_related(*links)[:SHOWN]) if not other._meta.auto_created else list(rows[:1])
            if rule is not CASCADE:
                self.against += [self.name(row) for row in first]
                continue
            self.count(other, number, first[0])
            if not other._meta.auto_created:
                found += [self.name(row) for row in first]
                if number > SHOWN:
                    found.append(_more(number - SHOWN))
                below = self.along(other, rows.order_by().values("pk"), deep - 1) if deep else []
                if below:
                    found.append(below)
        return found


def _more(number: int) -> str:
    return _("and %(more)s more") % {"more": number}
