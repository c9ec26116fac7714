"""The access page of a toolset: its tools, with search, adding and taking out, and who may use them.

Both changes go through the confirmation of `catalog.admin.toolset_members`, which says who gets or loses access.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from catalog.admin.editor.runner_forms import kind_name
from catalog.models import Grant, Tool, Toolset
from catalog.policy import messages, snapshot
from catalog.upstreams.discovery import named_upstream
from toolhub.invisible import show
from toolhub.pages.access import grant_list
from toolhub.pages.lists import adjacent_pages, filter_rows
from toolhub.pages.staff import page, staff_page
from toolhub.ranking import rank_by_name

TOOLS_PER_PAGE = 50
MAX_RESULTS = 30
"""Maximum tools that one search offers for adding."""
COLUMNS = ("name", "title", "runner", "settings", "destructive", "read_only", "enabled", "quarantined_since")
VIEW_PERMISSIONS = ("catalog.view_toolset", "catalog.view_tool")


@staff_page(*VIEW_PERMISSIONS)
@never_cache
@require_safe
def toolset_access(request: HttpRequest, pk: int) -> HttpResponse:
    toolset = get_object_or_404(Toolset, pk=pk)
    data = {name: request.GET.get(name, "").strip()[:100] for name in ("q", "add", "p", "gp", "ended")}

    def address(**changes: Any) -> str:
        return "?" + urlencode({name: value for name, value in {**data, **changes}.items() if value})

    found = filter_rows(toolset.tools.only(*COLUMNS), ("name", "title"), data["q"])
    pages = Paginator(rank_by_name(found, "name", data["q"]), TOOLS_PER_PAGE).get_page(data["p"])
    older, newer = adjacent_pages(pages, lambda number: address(p=number))
    may_view_grants = request.user.has_perm("catalog.view_grant")
    context: dict[str, Any] = {
        "toolset": toolset,
        "data": data,
        "count": pages.paginator.count,
        "rows": [
            (
                tool,
                show(tool.name),
                reverse("admin:catalog_tool_change", args=[tool.pk]),
                kind_name(tool.runner),
                show(named_upstream(tool)),
                messages.list_marks(tool),
            )
            for tool in pages
        ],
        "found": _find_addable(toolset, data["add"]),
        "older": older,
        "newer": newer,
        "may_change_tools": request.user.has_perm("catalog.change_tool"),
        "may_view_grants": may_view_grants,
    }
    if may_view_grants:
        grants = Grant.objects.filter(toolset=toolset)
        context |= grant_list.build_context(request, snapshot.latest(), grants, address, f"toolset:{pk}")
        context["give_query"] = urlencode({"what": f"toolset:{pk}"})
    return page(request, "admin/pages/access_toolset.html", _("Tools and access: %s") % show(toolset.name), **context)


@staff_page(*VIEW_PERMISSIONS, "catalog.change_tool")
@require_safe
def pick_tools(request: HttpRequest, pk: int) -> JsonResponse:
    """Return {"results": [{"id", "name"}]} of tools that are not in the toolset, for the search box."""
    toolset = get_object_or_404(Toolset, pk=pk)
    found = _find_addable(toolset, request.GET.get("q", "").strip()[:100])
    return JsonResponse({"results": [{"id": key, "name": name} for key, name in found]})


def _find_addable(toolset: Toolset, query: str) -> list[tuple[int, str]]:
    rows: QuerySet[Tool] = Tool.objects.exclude(toolsets=toolset).only(*COLUMNS)
    found = rank_by_name(filter_rows(rows, ("name", "title"), query), "name", query)[:MAX_RESULTS]
    return [(tool.pk, messages.name_with_marks(tool)) for tool in found]
