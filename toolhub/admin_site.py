"""The admin's site: what an address says of fields and filters is checked before any page of any model believes it.

Django hands `?user=abc` on to the widget of the field, and a number of thirty digits on to the database: both answer
500. Here the class of every model gets `Asked` in front of it, those of Django and of libraries included.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin import sites
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db import models
from django.http import HttpRequest
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


class Config(DefaultAppConfig):  # type: ignore[misc]
    """The theme, with the site of this module."""

    default = False

    def ready(self) -> None:
        admin.site = sites.site = Site()
