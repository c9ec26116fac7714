"""Grants and limits on the pages of their targets (tools, toolsets, resources, prompts) and subjects (users, groups).

On the page of a tool, grants are open and in the access section.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from unfold.admin import StackedInline

from catalog.admin.forms import GrantForm, GroupLimitForm, LimitForm, UserLimitForm
from catalog.models import Grant, Limit

GRANT_DETAILS = ("starts", "ends", "environments", "conditions", "windows", "flags", "note")


class GrantInline(StackedInline):  # type: ignore[misc]
    """The grants on the page of a tool, a toolset, a resource or a prompt: their subjects."""

    model = Grant
    form = GrantForm
    template = "admin/catalog/inline.html"
    template_before = "admin/catalog/inline_errors.html"
    extra = 0
    tab = True
    show_change_link = True
    collapsible = True
    per_page = 2  # each is 25 kB of controls, which take the server 30 ms
    fields: tuple[Any, ...] = (("effect", "everyone"), ("user", "group"), *GRANT_DETAILS)
    autocomplete_fields: tuple[str, ...] = ("user", "group")

    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).select_related("user", "group", "tool", "toolset", "resource", "prompt")


class SubjectGrantInline(GrantInline):
    """The grants on the page of a user or a group: their targets."""

    fields = ("effect", ("toolset", "tool"), ("resource", "prompt"), *GRANT_DETAILS)
    autocomplete_fields = ("toolset", "tool", "resource", "prompt")


class LimitInline(StackedInline):  # type: ignore[misc]
    model = Limit
    form = LimitForm
    template = "admin/catalog/inline.html"
    template_before = "admin/catalog/inline_errors.html"
    extra = 0
    tab = True
    show_change_link = True
    collapsible = True
    per_page = 2
    fields: tuple[Any, ...] = (("measure", "rate"), "zone", "scope", ("user", "group"), "advice", "note")
    autocomplete_fields: tuple[str, ...] = ("user", "group")

    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).select_related("user", "group", "tool", "toolset")


class UserLimitInline(LimitInline):
    form = UserLimitForm
    fields = (("measure", "rate"), "zone", ("tool", "toolset"), ("all_tools", "method"), "advice", "note")
    autocomplete_fields = ("tool", "toolset")


class GroupLimitInline(LimitInline):
    form = GroupLimitForm
    fields = (("measure", "rate"), "zone", "scope", ("tool", "toolset"), ("all_tools", "method"), "advice", "note")
    autocomplete_fields = ("tool", "toolset")


class ToolGrantInline(GrantInline):
    """The grants of a tool. A new tool starts with one empty grant, which is ignored when nothing is filled in."""

    tab = False
    collapsible = False
    verbose_name_plural = _("Grants: access to this tool")

    def get_extra(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> int:
        return 1 if obj is None else 0

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return (
            (None, {"fields": ("group", "user", "everyone", "effect")}),
            (
                _("Time, environment, conditions and note"),
                {"classes": ("collapse",), "fields": GRANT_DETAILS},
            ),
        )


class ToolLimitInline(LimitInline):
    tab = False
    collapsible = False
    verbose_name_plural = _("Limits: calls to this tool")
    fields = ("measure", "rate", "zone", "scope", "user", "group", "advice", "note")


USER_INLINES = (SubjectGrantInline, UserLimitInline)
GROUP_INLINES = (SubjectGrantInline, GroupLimitInline)
"""The inlines of the catalogue on the pages of users and groups; `toolhub.composition` installs them there."""
