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

MAX_NAMED_ROWS = 20
"""Maximum rows of each model that are named."""
_MAX_LEVELS = 4
_NON_DELETING_RULES = (DO_NOTHING, SET_NULL, SET_DEFAULT)


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
        preview = _DeletionPreview(self.admin_site, request)
        preview.add_count(type(rows[0]), len(rows), rows[0])
        named: list[Any] = [preview.format_name(row) for row in rows[:MAX_NAMED_ROWS]]
        if len(rows) > MAX_NAMED_ROWS:
            named.append(_format_remainder(len(rows) - MAX_NAMED_ROWS))
        related = preview.list_related(type(rows[0]), [row.pk for row in rows], _MAX_LEVELS)
        return ([*named, related] if related else named), preview.model_count, preview.perms_needed, preview.protected

    def render_delete_form(self, request: HttpRequest, context: dict[str, Any]) -> Any:
        # The page names the row in the language of the page.
        return super().render_delete_form(request, {**context, "object": _NamedRow(context["object"])})


class _NamedRow:
    """A proxy of a row whose text is its name in the language of the page."""

    def __init__(self, row: Any) -> None:
        self._row = row

    def __getattr__(self, name: str) -> Any:
        return getattr(self._row, name)

    def __str__(self) -> str:
        return hooks.catalogue().name_row(self._row)


class _DeletionPreview:
    def __init__(self, site: Any, request: HttpRequest) -> None:
        self.site, self.request = site, request
        self.model_count: dict[str, int] = {}
        self.perms_needed: set[str] = set()
        self.protected: list[Any] = []

    def add_count(self, model: type[models.Model], number: int, example: Any) -> None:
        meta = model._meta
        kind = _("relations between them") if _is_nameless(model) else str(meta.verbose_name_plural)
        self.model_count[kind] = self.model_count.get(kind, 0) + number
        admin = self.site._registry.get(model)
        if getattr(admin, "goes_with_others", False):  # nobody deletes such a row alone
            return
        if admin is not None and not admin.has_delete_permission(self.request, example):
            self.perms_needed.add(str(meta.verbose_name))

    def format_name(self, row: Any) -> Any:
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

    def list_related(self, model: type[models.Model], keys: Any, levels: int) -> list[Any]:
        """Return the names of rows that the deletion of these keys (a list, or a query of them) deletes as well.

        The result is a nested list of at most `levels` further levels.
        """
        found: list[Any] = []
        relations: Iterable[Any] = get_candidate_relations_to_delete(model._meta)
        for relation in relations:
            other, column, rule = relation.related_model, relation.field, relation.on_delete
            if rule in _NON_DELETING_RULES:
                continue
            rows = other._base_manager.filter(**{f"{column.name}__in": keys}).order_by("pk")
            number = rows.count()
            if not number:
                continue
            links = [one.name for one in other._meta.concrete_fields if one.many_to_one]
            first = list(rows.select_related(*links)[:MAX_NAMED_ROWS]) if not _is_nameless(other) else list(rows[:1])
            if rule is not CASCADE:
                self.protected += [self.format_name(row) for row in first]
                continue
            self.add_count(other, number, first[0])
            if not _is_nameless(other):
                found += [self.format_name(row) for row in first]
                if number > MAX_NAMED_ROWS:
                    found.append(_format_remainder(number - MAX_NAMED_ROWS))
                below = self.list_related(other, rows.order_by().values("pk"), levels - 1) if levels else []
                if below:
                    found.append(below)
        return found


def _is_nameless(model: type[models.Model]) -> bool:
    """Return whether a table has only an English name: Django's many-to-many tables, and those of some libraries."""
    names = (model._meta.verbose_name_plural,) if model._meta.auto_created else (model._meta.verbose_name,)
    return not all(isinstance(name, Promise) for name in names)


def _format_remainder(number: int) -> str:
    return _("and %(more)s more") % {"more": number}
