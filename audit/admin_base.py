"""Base class of every page of the admin: it checks addresses before a page believes them, and shows admin activity.

Django hands `?user=abc` on to the widget of the field, and a number of thirty digits on to the database: both answer
500.
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
    # The theme has no types, and overrides nothing of Django's in a way that its callers see.
    Themed = admin.ModelAdmin[Any]
else:
    from unfold.admin import ModelAdmin as Themed

LARGEST = 2**31 - 1
"""What the smallest integer column of PostgreSQL holds; accounts and groups are numbered in such."""


class ModelAdmin(Themed):
    """The theme's ModelAdmin, with addresses checked and the history of a row in the audit log."""

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """What the address gives to a new row, without what its fields cannot hold."""
        given: dict[str, Any] = super().get_changeform_initial_data(request)
        return {name: value for name, value in given.items() if self._holds(name, value)}

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        filtered = tuple(one for one in self.list_filter if isinstance(one, str))
        for name, values in request.GET.lists():
            of_a_field = any(name == one or name.startswith(f"{one}__") for one in filtered)
            for value in values:
                if "\0" in value or (of_a_field and any(map(_is_beyond, value.split(",")))):
                    raise IncorrectLookupParameters(f"no row has such a value: {name}")
        return super().get_changelist_instance(request)

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Where a model keeps no versions, the audit log has what was done to a row; Django's log knows forms only."""
        row = self.get_object(request, object_id)
        if row is not None and self.has_view_or_change_permission(request, row):
            address = self._activity_address(request, row)
            if address:
                return redirect(address)
        return super().history_view(request, object_id, extra_context)

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **options: Any) -> Any:
        if type(self).history_view is ModelAdmin.history_view:
            row = options.get("obj")
            context["show_history"] = bool(row is not None and self._activity_address(request, row))
        return super().render_change_form(request, context, *args, **options)

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

    def _activity_address(self, request: HttpRequest, row: Any) -> str:
        """The address of the changes of this row, for whoever may read them."""
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
