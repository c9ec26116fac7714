"""The admin's site: what an address says of fields and filters is checked before any page of any model believes it.

Django hands `?user=abc` on to the widget of the field, and a number of thirty digits on to the database: both answer
500. Here the class of every model gets `Asked` in front of it, those of Django and of libraries included.

What else holds for every model is here too: a history that is on record is found there, and what a box suggests is in
the words of the page.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.admin import sites
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.autocomplete import AutocompleteJsonView
from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db import models
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from unfold.apps import DefaultAppConfig
from unfold.sites import UnfoldAdminSite

LARGEST = 2**31 - 1
"""What the smallest integer column of PostgreSQL holds; accounts and groups are numbered in such."""


class Asked:
    """In front of a ModelAdmin."""

    opts: Any
    list_filter: Any

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """What the address gives to a new row, without what its fields cannot hold."""
        given: dict[str, Any] = super().get_changeform_initial_data(request)  # type: ignore[misc]
        return {name: value for name, value in given.items() if self._holds(name, value)}

    def _holds(self, name: str, value: Any) -> bool:
        try:
            field = self.opts.get_field(name)
        except FieldDoesNotExist:
            return True  # a field of the form alone: it shows any text
        if not isinstance(field, models.Field) or isinstance(field, models.JSONField):
            return False
        try:
            if field.remote_field is not None:
                return _all_there(field.remote_field.model, value if isinstance(value, list) else [value])
            field.clean(value, None)
        except (ValidationError, ValueError, TypeError, OverflowError):
            return False
        return True

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        filtered = tuple(one for one in self.list_filter if isinstance(one, str))
        for name, values in request.GET.lists():
            of_a_field = any(name == one or name.startswith(f"{one}__") for one in filtered)
            for value in values:
                if "\0" in value or (of_a_field and any(map(_is_beyond, value.split(",")))):
                    raise IncorrectLookupParameters(f"no row has such a value: {name}")
        return super().get_changelist_instance(request)  # type: ignore[misc]

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Where a model keeps no versions, the record has what was done to a row; Django's log knows forms only."""
        row = self.get_object(request, object_id) if self._has_plain_history() else None  # type: ignore[attr-defined]
        may = row is not None and self.has_view_or_change_permission(request, row)  # type: ignore[attr-defined]
        if may and (address := self._on_record(request, row)):
            return redirect(address)
        return super().history_view(request, object_id, extra_context)  # type: ignore[misc, no-any-return]

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **options: Any) -> Any:
        if self._has_plain_history():
            row = options.get("obj")
            context["show_history"] = bool(row is not None and self._on_record(request, row))
        return super().render_change_form(request, context, *args, **options)  # type: ignore[misc]

    def _has_plain_history(self) -> bool:
        method = super().history_view  # type: ignore[misc]
        return method.__func__ is admin.ModelAdmin.history_view

    def _on_record(self, request: HttpRequest, row: Any) -> str:
        """The address of the actions about this row, for whoever may read them."""
        from audit.actions import model_signals  # apps are not loaded yet when this module is

        asked = model_signals.trace(row)
        if asked is None or not request.user.has_perm("audit.view_action"):
            return ""
        return f"{reverse('admin:audit_action_changelist')}?{urlencode(asked)}"


def _all_there(model: Any, values: list[Any]) -> bool:
    keys = {model._meta.pk.to_python(value) for value in values}
    if any(isinstance(key, int) and abs(key) > LARGEST for key in keys):
        return False
    return bool(model._default_manager.filter(pk__in=keys).count() == len(keys))


def _is_beyond(value: str) -> bool:
    try:
        return abs(int(value)) > LARGEST
    except ValueError:
        # More digits than Python reads is a number as well.
        return len(value) > 1000


class Site(UnfoldAdminSite):  # type: ignore[misc]
    def register(self, model_or_iterable: Any, admin_class: Any = None, **options: Any) -> None:
        base = admin_class or admin.ModelAdmin
        asked = type(base.__name__, (Asked, base), {"__module__": base.__module__, "__doc__": base.__doc__})
        super().register(model_or_iterable, asked, **options)

    def autocomplete_view(self, request: HttpRequest) -> HttpResponseBase:
        return _Suggestions.as_view(admin_site=self)(request)


class _Suggestions(AutocompleteJsonView):
    """What a box of rows suggests, in the words of the ModelAdmin where it has some."""

    def serialize_result(self, obj: Any, to_field_name: str) -> dict[str, str]:
        found: dict[str, str] = super().serialize_result(obj, to_field_name)
        in_words = getattr(self.model_admin, "in_words", None)
        return {**found, "text": in_words(obj)} if in_words else found


class Config(DefaultAppConfig):  # type: ignore[misc]
    """The theme, with the site of this module."""

    default = False

    def ready(self) -> None:
        admin.site = sites.site = Site()
