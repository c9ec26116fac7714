"""The access page of a group: its members, with search, adding and removing, its grants, and what they reach."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import Group, User
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from catalog.models import Grant
from catalog.policy import rules, snapshot
from catalog.policy.definitions import Member, Snapshot
from catalog.policy.rules import Requester
from toolhub.access import hooks, privileges
from toolhub.invisible import show
from toolhub.pages.access import grant_list
from toolhub.pages.access.places import parse_key
from toolhub.pages.lists import adjacent_pages, filter_rows
from toolhub.pages.staff import page, staff_page
from toolhub.ranking import rank_by_name

MEMBERS_PER_PAGE = 50
MAX_RESULTS = 30
"""Maximum users that one search offers for adding."""
MAX_CHANGES = 100
"""Maximum members of one change."""
MAX_LISTED_TOOLS = 50
VIEW_PERMISSIONS = ("auth.view_group", "auth.view_user")
NAMES = ("username", "first_name", "last_name")
NOBODY = 0
"""The key of a person who is in no table: primary keys begin at 1."""


@staff_page(*VIEW_PERMISSIONS)
@never_cache
@require_safe
def group_access(request: HttpRequest, pk: int) -> HttpResponse:
    group = get_object_or_404(Group, pk=pk)
    data = {name: request.GET.get(name, "").strip()[:100] for name in ("q", "add", "p", "gp", "ended")}

    def address(**changes: Any) -> str:
        return "?" + urlencode({name: value for name, value in {**data, **changes}.items() if value})

    found = filter_rows(group.user_set.all(), NAMES, data["q"])
    pages = Paginator(rank_by_name(found, "username", data["q"]), MEMBERS_PER_PAGE).get_page(data["p"])
    older, newer = adjacent_pages(pages, lambda number: address(p=number))
    managed = hooks.installed().managed_memberships(frozenset(user.pk for user in pages), frozenset([pk]))
    may_change = _may_change_members(request, group)
    may_view_grants = request.user.has_perm("catalog.view_grant")
    context: dict[str, Any] = {
        "group": group,
        "data": data,
        "count": pages.paginator.count,
        "rows": [
            (
                user,
                show(user.get_username()),
                show(user.get_full_name()),
                managed.get((user.pk, pk), ""),
                f"{reverse('pages:view-as')}?{urlencode({'user': user.get_username()})}",
            )
            for user in pages
        ],
        "found": _find_addable(group, data["add"]) if may_change else [],
        "older": older,
        "newer": newer,
        "may_change": may_change,
        "may_view_grants": may_view_grants,
        "here": settings.ENVIRONMENT,
    }
    if may_view_grants:
        grants = Grant.objects.filter(group=group)
        catalogue = snapshot.latest()
        context |= grant_list.build_context(request, catalogue, grants, address, f"group:{pk}")
        context["give_query"] = urlencode({"who": f"group:{pk}"})
        if request.user.has_perm("catalog.view_tool"):
            context["tools"] = _find_tools(catalogue, pk)
    return page(request, "admin/pages/access_group.html", _("Members and access: %s") % show(group.name), **context)


@staff_page(*VIEW_PERMISSIONS, "auth.change_user")
@require_safe
def pick_members(request: HttpRequest, pk: int) -> JsonResponse:
    """Return {"results": [{"id", "name"}]} of active users who are not in the group, for the search box."""
    found = _find_addable(get_object_or_404(Group, pk=pk), request.GET.get("q", "").strip()[:100])
    return JsonResponse({"results": [{"id": key, "name": name} for key, name in found]})


@staff_page(*VIEW_PERMISSIONS, "auth.change_user")
@require_POST
def change_members(request: HttpRequest, pk: int) -> HttpResponse:
    """Add the chosen users to the group, or remove them, and return to its page."""
    group = get_object_or_404(Group, pk=pk)
    keys = [key for value in request.POST.getlist("user")[:MAX_CHANGES] if (key := parse_key(value)) is not None]
    adding = request.POST.get("do") == "add"
    if not keys or not (adding or request.POST.get("do") == "remove"):
        messages.error(request, _("Choose at least one user."))
    else:
        try:
            with transaction.atomic():
                _change(request, group, keys, adding=adding)
        except PermissionDenied as denied:
            messages.error(request, str(denied) or _("You may not change who is in this group."))
    return redirect("pages:access-group", pk)


def _change(request: HttpRequest, group: Group, keys: Sequence[int], *, adding: bool) -> None:
    """Change the members whom no identity provider manages, one by one, so that each change is logged."""
    managed = hooks.installed().managed_memberships(frozenset(keys), frozenset([group.pk]))
    rows = User.objects.filter(pk__in=keys).order_by("pk")
    rows = rows.filter(is_active=True).exclude(groups=group) if adding else rows.filter(groups=group)
    kept, changed = [], 0
    for user in rows.select_for_update(of=("self",)):
        if (user.pk, group.pk) in managed:
            kept.append(user.get_username())
            continue
        (user.groups.add if adding else user.groups.remove)(group)
        changed += 1
    if adding:
        text = ngettext("%(number)s user added to %(group)s.", "%(number)s users added to %(group)s.", changed)
    else:
        text = ngettext("%(number)s user removed from %(group)s.", "%(number)s users removed from %(group)s.", changed)
    messages.success(request, text % {"number": changed, "group": show(group.name)})
    if kept:
        text = _("An identity provider decides whether these users are in the group: %(names)s.")
        messages.warning(request, text % {"names": show(", ".join(kept))})


def _may_change_members(request: HttpRequest, group: Group) -> bool:
    viewer = cast(User, request.user)
    return viewer.has_perm("auth.change_user") and not privileges.find_reserved_groups(viewer, [group.pk])


def _find_addable(group: Group, query: str) -> list[tuple[int, str]]:
    rows = User.objects.filter(is_active=True).exclude(groups=group)
    found = rank_by_name(filter_rows(rows, NAMES, query), "username", query)[:MAX_RESULTS]
    return [(user.pk, show(f"{user.get_username()} ({user.get_full_name()})".replace(" ()", ""))) for user in found]


def _find_tools(catalogue: Snapshot, pk: int) -> dict[str, Any]:
    """Return the tools that a member sees here and now who is in no other group and has no grant of their own."""
    member = Member("", is_active=True, group_ids=frozenset([pk]))
    alone = replace(catalogue, members={NOBODY: member})
    tools = rules.decide_all(alone, Requester(NOBODY), time.time(), settings.ENVIRONMENT).tools
    listed = [
        (show(name), reverse("pages:access-tool", args=[tool.id]), bool(tool.annotations.get("destructiveHint")))
        for name, (tool, _rule) in list(tools.items())[:MAX_LISTED_TOOLS]
    ]
    return {"count": len(tools), "listed": listed, "more": len(tools) - len(listed)}
