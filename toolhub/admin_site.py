"""The admin site: the theme's site, with autocomplete suggestions in the words of each admin page."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.apps import AdminConfig
from django.contrib.admin.views.autocomplete import AutocompleteJsonView
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from unfold.sites import UnfoldAdminSite


class Site(UnfoldAdminSite):  # type: ignore[misc]
    def autocomplete_view(self, request: HttpRequest) -> HttpResponseBase:
        return _Suggestions.as_view(admin_site=self)(request)


class _Suggestions(AutocompleteJsonView):
    """An autocomplete view that labels rows with the words of their ModelAdmin, where it defines some."""

    def serialize_result(self, obj: Any, to_field_name: str) -> dict[str, str]:
        found: dict[str, str] = super().serialize_result(obj, to_field_name)
        in_words = getattr(self.model_admin, "in_words", None)
        return {**found, "text": in_words(obj)} if in_words else found


class Config(AdminConfig):
    """Django's admin application, configured with the site of this module."""

    default_site = "toolhub.admin_site.Site"
