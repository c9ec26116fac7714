"""The access page of a tool: every user, in pages, with the rule that the policy applies to their clients.

The module also suggests user names to the fields of the access pages.
"""

from __future__ import annotations

import time
from operator import itemgetter
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from catalog.models import Tool
from catalog.policy import messages, rules, snapshot
from catalog.policy.rules import Requester
from toolhub.pages import view_as_rows
from toolhub.pages.lists import adjacent_pages, filter_rows
from toolhub.pages.staff import page, staff_page

ROWS_PER_PAGE = 50


@staff_page("auth.view_user", "catalog.view_tool", "catalog.view_grant")
@never_cache
@require_safe
def tool_access(request: HttpRequest, pk: int) -> HttpResponse:
    tool = get_object_or_404(Tool, pk=pk)
    query = request.GET.get("q", "").strip()[:150]
    which = request.GET.get("sees", "yes")
    which = which if which in {"yes", "no"} else ""
    catalogue = snapshot.latest()
    item = catalogue.items.get(("tool", pk))
    now, words = time.time(), query.lower().split()
    found, seeing = [], 0
    for user_id, member in catalogue.members.items():
        visible, rule = False, rules.DISABLED
        if item is not None:
            decision = rules.decide(catalogue, Requester(user_id), item, now, settings.ENVIRONMENT)
            visible, rule = decision.visible, decision.rule
        seeing += visible
        if (not which or visible == (which == "yes")) and all(word in member.username.lower() for word in words):
            found.append((member.username, visible, rule))
    pages = Paginator(sorted(found, key=itemgetter(0)), ROWS_PER_PAGE).get_page(request.GET.get("page"))

    def address(**changes: Any) -> str:
        parts = {"q": query, "sees": which or "all", **changes}
        return "?" + urlencode({name: value for name, value in parts.items() if value})

    older, newer = adjacent_pages(pages, lambda number: address(page=number))
    context = {
        "tool": tool,
        "query": query,
        "which": which,
        "here": settings.ENVIRONMENT,
        "seeing": seeing,
        "of": len(catalogue.members),
        "page": pages,
        "rows": [
            (
                name,
                f"{reverse('pages:view-as')}?{urlencode({'user': name, 'q': tool.name})}",
                visible,
                messages.translate(rule),
                view_as_rows.grant_link(rule),
            )
            for name, visible, rule in pages
        ],
        "limits": [messages.translate(rule.rule) for rule in catalogue.limits_by_tool.get(pk, ())[:ROWS_PER_PAGE]],
        "choices": [
            (address(sees=value), (value if value != "all" else "") == which, words)
            for value, words in (("yes", _("users with access")), ("no", _("users without access")), ("all", _("all")))
        ],
        "older": older,
        "newer": newer,
    }
    return page(request, "admin/pages/access_tool.html", _("Access to %(tool)s") % {"tool": tool.name}, **context)


MAX_SUGGESTIONS = 20


@staff_page("auth.view_user")
@require_safe
def suggest_users(request: HttpRequest) -> JsonResponse:
    """Return {"results": [{"value": user name, "label": full name}]} of active users, by name."""
    query = request.GET.get("q", "").strip()[:150]
    found = get_user_model().objects.filter(is_active=True)
    rows = filter_rows(found, ("username", "first_name", "last_name"), query).order_by("username")[:MAX_SUGGESTIONS]
    return JsonResponse({"results": [{"value": row.get_username(), "label": row.get_full_name()} for row in rows]})
