"""What a deletion takes along, for the page that asks whether one is sure: counted, and the first few by name.

Django's own answer loads every row and names each, which is minutes for somebody with thousands of grants. This one
costs a few queries for each kind of thing, however many there are.
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
"""Of each kind that are named."""
_DEEP = 4
_STAYS = (DO_NOTHING, SET_NULL, SET_DEFAULT)


class BoundedDeletion(admin.ModelAdmin):  # type: ignore[type-arg]
    """A ModelAdmin whose question before a deletion takes a bounded time."""

    def get_deleted_objects(self, objs: Iterable[Any], request: HttpRequest) -> tuple[Any, Any, Any, Any]:
        """(nested list of texts, {kind: number}, kinds that this person may not delete, what stands against it)"""
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
        # The question is asked in the language of the page, about the row as the page calls it.
        return super().render_delete_form(request, {**context, "object": _Named(context["object"])})


class _Named:
    """A row that calls itself as the page calls it."""

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
        # Django's own tables between two kinds have an English name and no other.
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
        """The rows that go because those with these keys (a list, or a query of them) go."""
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
