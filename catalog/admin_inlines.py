"""Grants and limits inside the pages of what they are about and of whom they are for."""

from __future__ import annotations

from typing import Any

from unfold.admin import StackedInline

from catalog.forms import GrantForm, GroupLimitForm, LimitForm, UserLimitForm
from catalog.models import Grant, Limit


class GrantInline(StackedInline):  # type: ignore[misc]
    """On a tool, a toolset, a resource or a prompt: to whom."""

    model = Grant
    form = GrantForm
    template = "admin/catalog/inline.html"
    extra = 0
    tab = True
    show_change_link = True
    collapsible = True
    per_page = 4  # each is 25 kB of controls
    fields: tuple[Any, ...] = (("effect", "everyone"), ("user", "group"), "starts", "ends", "environments", "note")
    autocomplete_fields: tuple[str, ...] = ("user", "group")

    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).select_related("user", "group", "tool", "toolset", "resource", "prompt")


class SubjectGrantInline(GrantInline):
    """On a user or a group: what."""

    fields = ("effect", ("toolset", "tool"), ("resource", "prompt"), "starts", "ends", "environments", "note")
    autocomplete_fields = ("toolset", "tool", "resource", "prompt")


class LimitInline(StackedInline):  # type: ignore[misc]
    model = Limit
    form = LimitForm
    template = "admin/catalog/inline.html"
    extra = 0
    tab = True
    show_change_link = True
    collapsible = True
    per_page = 3
    fields: tuple[Any, ...] = (("rate", "scope"), ("user", "group"), "note")
    autocomplete_fields: tuple[str, ...] = ("user", "group")

    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).select_related("user", "group", "tool", "toolset")


class UserLimitInline(LimitInline):
    form = UserLimitForm
    fields = ("rate", ("tool", "toolset"), "all_tools", "note")
    autocomplete_fields = ("tool", "toolset")


class GroupLimitInline(UserLimitInline):
    form = GroupLimitForm
