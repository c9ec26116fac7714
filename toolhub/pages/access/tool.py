"""The access page of a tool: its grants as a list, and every user, in pages, with the rule that decides for them.

The module also suggests user names to the fields of the access pages.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from operator import itemgetter
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.paginator import Paginator
from django.db.models import Q
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from catalog.models import Grant, Tool
from catalog.policy import messages, rules, snapshot
from catalog.policy.definitions import Rule, Snapshot
from catalog.policy.obstacles import Explainer
from catalog.policy.rules import Requester
from toolhub.pages.access import grant_list, remedies
from toolhub.pages.access.remedies import Advisor, Asked, ItemFacts
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
    found: list[tuple[str, int, bool, Rule]] = []
    seeing = 0
    for user_id, member in catalogue.members.items():
        visible, rule = False, rules.DISABLED
        if item is not None:
            decision = rules.decide(catalogue, Requester(user_id), item, now, settings.ENVIRONMENT)
            visible, rule = decision.visible, decision.rule
        seeing += visible
        if (not which or visible == (which == "yes")) and all(word in member.username.lower() for word in words):
            found.append((member.username, user_id, visible, rule))
    pages = Paginator(sorted(found, key=itemgetter(0)), ROWS_PER_PAGE).get_page(request.GET.get("page"))

    hidden = [(user_id, name) for name, user_id, visible, _rule in pages if not visible]
    advised = _advise(Advisor(request, now, settings.ENVIRONMENT), catalogue, pk, hidden) if hidden else {}

    def address(**changes: Any) -> str:
        kept = {name: request.GET.get(name, "")[:20] for name in ("gp", "ended")}
        parts = {"q": query, "sees": which or "all", **kept, **changes}
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
                remedies.grant_link(rule),
                advised.get(user_id),
            )
            for name, user_id, visible, rule in pages
        ],
        "limits": [messages.translate(rule.rule) for rule in catalogue.limits_by_tool.get(pk, ())[:ROWS_PER_PAGE]],
        "choices": [
            (address(sees=value), (value if value != "all" else "") == which, words)
            for value, words in (("yes", _("users with access")), ("no", _("users without access")), ("all", _("all")))
        ],
        "older": older,
        "newer": newer,
        "marks": messages.list_marks(tool),
        "give_query": urlencode({"what": f"tool:{pk}"}),
        **grant_list.build_context(
            request,
            catalogue,
            # A subquery for the toolsets: a join would repeat a grant.
            Grant.objects.filter(Q(tool=tool) | Q(toolset__in=tool.toolsets.values("pk"))),
            address,
            f"tool:{pk}",
        ),
    }
    return page(request, "admin/pages/access_tool.html", _("Access to %(tool)s") % {"tool": tool.name}, **context)


def _advise(
    advisor: Advisor, catalogue: Snapshot, pk: int, users: Sequence[tuple[int, str]]
) -> dict[int, remedies.Advice]:
    """Return for each of the users (primary key and name) why the tool is hidden from them."""
    item = catalogue.items.get(("tool", pk))
    facts = ItemFacts.of_definition(item) if item is not None else remedies.load_facts("tool", [pk]).get(pk)
    if facts is None:
        return {}
    explainer = Explainer(catalogue, advisor.now, advisor.environment)
    asked = [Asked(key, name, facts, explainer.explain(Requester(key), facts.target)) for key, name in users]
    return {one.asked.user_id: one for one in advisor.advise(asked)}


MAX_SUGGESTIONS = 20


@staff_page("auth.view_user")
@require_safe
def suggest_users(request: HttpRequest) -> JsonResponse:
    """Return {"results": [{"value": user name, "label": full name}]} of active users, by name."""
    query = request.GET.get("q", "").strip()[:150]
    found = get_user_model().objects.filter(is_active=True)
    rows = filter_rows(found, ("username", "first_name", "last_name"), query).order_by("username")[:MAX_SUGGESTIONS]
    return JsonResponse({"results": [{"value": row.get_username(), "label": row.get_full_name()} for row in rows]})
