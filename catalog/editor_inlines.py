"""Grants and limits on the page of a tool itself, open and in the section that says who may use it."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from catalog.admin_inlines import GrantInline, LimitInline


class ToolGrantInline(GrantInline):
    """A new tool comes with one empty grant, which is left out when nothing is filled in."""

    tab = False
    collapsible = False
    per_page = 2  # the controls of one are 25 kB
    verbose_name_plural = _("Grants: who may see and call it")

    def get_extra(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> int:
        return 1 if obj is None else 0

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return (
            (None, {"fields": ("group", "user", "everyone", "effect")}),
            (
                _("When, where and why"),
                {"classes": ("collapse",), "fields": ("starts", "ends", "environments", "note")},
            ),
        )


class ToolLimitInline(LimitInline):
    tab = False
    collapsible = False
    per_page = 2
    verbose_name_plural = _("Limits: how often")
    fields = ("rate", "scope", "user", "group", "note")
