"""Base class of every admin page: validates the parameters of the URL and links to admin activity.

Django passes `?user=abc` on to the widget of the field, and a number of thirty digits on to the database: both cause a
500 response.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db import models
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from audit.actions import model_signals

if TYPE_CHECKING:
    # The theme has no type annotations, and its overrides keep the signatures of Django's methods.
    ThemeModelAdmin = admin.ModelAdmin[Any]
else:
    from unfold.admin import ModelAdmin as ThemeModelAdmin

MAX_INTEGER = 2**31 - 1
"""Largest value of PostgreSQL's integer type, the type of the primary keys of users and groups."""


class ModelAdmin(ThemeModelAdmin):
    """The theme's ModelAdmin with validated URL parameters and the history of a row from the audit log."""

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Return the initial values of a new row from the URL, without values that its fields cannot hold."""
        given: dict[str, Any] = super().get_changeform_initial_data(request)
        return {name: value for name, value in given.items() if self._accepts_initial(name, value)}

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        filtered = tuple(one for one in self.list_filter if isinstance(one, str))
        for name, values in request.GET.lists():
            is_field_filter = any(name == one or name.startswith(f"{one}__") for one in filtered)
            for value in values:
                if "\0" in value or (is_field_filter and any(map(_exceeds_integer, value.split(",")))):
                    raise IncorrectLookupParameters(f"no row has such a value: {name}")
        return super().get_changelist_instance(request)

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        """Refuse filters by columns that no form has, such as digests: a filter reads them letter by letter."""
        name = lookup.partition("__")[0]
        try:
            field = self.opts.get_field(name)
        except FieldDoesNotExist:
            field = None
        shown = {*self.list_display, *(one for one in self.list_filter if isinstance(one, str)), *self.search_fields}
        is_hidden = isinstance(field, models.Field) and not field.editable and not field.primary_key
        if is_hidden and name not in shown and not any(one.startswith(f"{name}__") for one in map(str, shown)):
            return False
        return bool(super().lookup_allowed(lookup, value, request))

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Redirect to the admin activity of the row.

        For models that keep no versions: the audit log has every change of a row, Django's log only those of forms.
        """
        row = self.get_object(request, object_id)
        if row is not None and self.has_view_or_change_permission(request, row):
            url = self._activity_url(request, row)
            if url:
                return redirect(url)
        return super().history_view(request, object_id, extra_context)

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **options: Any) -> Any:
        if type(self).history_view is ModelAdmin.history_view:
            row = options.get("obj")
            context["show_history"] = bool(row is not None and self._activity_url(request, row))
        return super().render_change_form(request, context, *args, **options)

    def _accepts_initial(self, name: str, value: Any) -> bool:
        try:
            field = self.opts.get_field(name)
        except FieldDoesNotExist:
            return True  # a field of the form alone accepts any text
        if not isinstance(field, models.Field) or isinstance(field, models.JSONField):
            return False
        try:
            if field.remote_field is not None:
                return _all_exist(field.remote_field.model, value if isinstance(value, list) else [value])
            field.clean(value, None)
        except (ValidationError, ValueError, TypeError, OverflowError):
            return False
        return True

    def _activity_url(self, request: HttpRequest, row: Any) -> str:
        """Return the URL of the admin activity of this row; empty when the user may not read it."""
        parameters = model_signals.activity_parameters(row)
        if parameters is None or not request.user.has_perm("audit.view_action"):
            return ""
        return f"{reverse('admin:audit_action_changelist')}?{urlencode(parameters)}"


def _all_exist(model: Any, values: list[Any]) -> bool:
    keys = {model._meta.pk.to_python(value) for value in values}
    if any(isinstance(key, int) and abs(key) > MAX_INTEGER for key in keys):
        return False
    return bool(model._default_manager.filter(pk__in=keys).count() == len(keys))


def _exceeds_integer(value: str) -> bool:
    try:
        return abs(int(value)) > MAX_INTEGER
    except ValueError:
        # A number with more digits than Python converts also raises ValueError.
        return len(value) > 1000
