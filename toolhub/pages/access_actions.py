"""From the lists of tools, toolsets, users and groups to the page that changes many grants, with what is ticked."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext_lazy

from catalog import granting
from catalog.models import Tool, Toolset
from toolhub.pages.access_bulk import NEEDED


@admin.action(description=gettext_lazy("Change grants for the selected ones"), permissions=["grants"])
def change_grants(modeladmin: Any, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseRedirect:
    kind = str(modeladmin.model._meta.model_name)
    numbers = queryset.order_by().values_list("pk", flat=True)[: granting.MOST]
    return HttpResponseRedirect(f"{reverse('pages:bulk')}?{urlencode([(kind, number) for number in numbers])}")


def _may(request: HttpRequest) -> bool:
    return request.user.has_perms(NEEDED)


def connect() -> None:
    """Once every admin module is loaded."""
    for model in (Tool, Toolset, get_user_model(), Group):
        page: Any = admin.site._registry[model]
        page.has_grants_permission = _may
        page.actions = [*(page.actions or ()), change_grants]
