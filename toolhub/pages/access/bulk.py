"""Bulk changes of grants: choose items and users, review the changes, and confirm them.

The choice is a GET whose address holds it, so a search never loses it and it can be sent to a colleague.

The lists of tools, toolsets, users and groups link to this page, with the selected rows as the choice.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from audit import local_time
from catalog.models import Tool, Toolset, validators
from catalog.policy import grant_changes
from catalog.policy import messages as policy_messages
from toolhub.pages.access.matrix import CHANGE_PERMISSIONS, describe_changes
from toolhub.pages.lists import filter_rows
from toolhub.pages.staff import page, staff_page
from toolhub.ranking import rank_by_name

MAX_RESULTS = 30
"""Maximum results of one search."""
MAX_LISTED_ROWS = 100
"""Maximum rows of each kind that the confirmation lists."""
REQUIRED_PERMISSIONS = (
    *CHANGE_PERMISSIONS,
    "catalog.view_tool",
    "catalog.view_toolset",
    "auth.view_user",
    "auth.view_group",
)
EFFECTS = (
    (grant_changes.ALLOW, gettext_lazy("allow")),
    (grant_changes.DENY, gettext_lazy("deny")),
    (grant_changes.END, gettext_lazy("end existing grants")),
)


@dataclass(frozen=True, slots=True)
class Picker:
    """A selector for one kind of object."""

    key: str
    title: str | Promise
    chosen: list[tuple[int, str]]
    query: str
    found: list[tuple[int, str]]


KINDS: tuple[tuple[str, str | Promise, Any, tuple[str, ...]], ...] = (
    ("toolset", gettext_lazy("Toolsets"), Toolset, ("name", "description")),
    ("tool", gettext_lazy("Tools"), Tool, ("name", "title")),
    ("group", gettext_lazy("Groups"), Group, ("name",)),
    ("user", gettext_lazy("Users"), get_user_model(), ("username", "first_name", "last_name")),
)


@staff_page(*REQUIRED_PERMISSIONS)
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def bulk(request: HttpRequest) -> HttpResponse:
    data = request.POST if request.method == "POST" else request.GET
    wish, problems = _parse_change(data)
    looks = request.method == "POST" or "look" in data
    if looks and wish is not None:
        try:
            plan = grant_changes.Plan.build(wish)
        except grant_changes.TooManyPairs:
            problems.append(_("One change can cover at most %d grants. Choose fewer items.") % grant_changes.MAX_PAIRS)
        else:
            return _confirm(request, data, plan)
    context = {
        "pickers": [_picker(kind, data) for kind in KINDS],
        "everyone": data.get("everyone") == "1",
        "data": data,
        "effects": EFFECTS,
        "problems": problems if looks else [],
    }
    return page(request, "admin/pages/bulk.html", _("Change many grants"), **context)


@staff_page(*REQUIRED_PERMISSIONS)
@require_safe
def pick(request: HttpRequest) -> JsonResponse:
    """Return {"results": [{"id", "name"}]} of one kind, for the search boxes."""
    kind = next((kind for kind in KINDS if kind[0] == request.GET.get("kind")), KINDS[0])
    found = _search(kind, request.GET.get("q", ""))
    return JsonResponse({"results": [{"id": pk, "name": name} for pk, name in found]})


def _confirm(request: HttpRequest, data: QueryDict, plan: grant_changes.Plan) -> HttpResponse:
    stale = request.method == "POST" and "sure" in data
    if stale:
        plan, done = grant_changes.carry_out(plan.change, str(data["sure"]))
        if done:
            messages.success(request, describe_changes(plan))
            return redirect("pages:matrix")
    choice = data.copy()
    for name in ("sure", "look", "csrfmiddlewaretoken"):
        choice.pop(name, None)
    context = {
        "plan": plan,
        "wish": plan.change,
        "effect": dict(EFFECTS)[plan.change.effect],
        "stale": stale,
        "kept": [(name, value) for name, values in choice.lists() for value in values],
        "change": f"{reverse('pages:bulk')}?{choice.urlencode()}",
        "make": plan.to_create[:MAX_LISTED_ROWS],
        "end": [policy_messages.name_row(grant) for grant in plan.to_end[:MAX_LISTED_ROWS]],
        "there": [policy_messages.name_row(grant) for grant in plan.existing[:MAX_LISTED_ROWS]],
        "against": [policy_messages.name_row(grant) for grant in plan.overriding[:MAX_LISTED_ROWS]],
        "listed": MAX_LISTED_ROWS,
    }
    return page(request, "admin/pages/bulk_confirm.html", _("Review changes"), **context)


def _parse_change(data: QueryDict) -> tuple[grant_changes.GrantChange | None, list[str]]:
    """Return the requested change and no errors, or None and the errors."""
    problems: list[str] = []
    targets = grant_changes.targets(_parse_ids(data, "tool"), _parse_ids(data, "toolset"))
    everyone = data.get("everyone") == "1"
    subjects = grant_changes.subjects(
        _parse_ids(data, "user"), _parse_ids(data, "group"), everyone=everyone, word=_("everyone")
    )
    if not targets:
        problems.append(_("Choose at least one toolset or tool."))
    if not subjects:
        problems.append(_("Choose at least one group or user."))
    effect = data.get("effect") or grant_changes.ALLOW
    if effect not in dict(EFFECTS):
        problems.append(_("Choose what to do."))
    starts, ends = _parse_time(data, "starts", problems), _parse_time(data, "ends", problems)
    if starts is not None and ends is not None and ends <= starts:
        problems.append(_("The end must be after the start."))
    environments = tuple(data.get("environments", "").replace(",", " ").split())
    try:
        validators.environments(list(environments))
    except ValidationError:
        problems.append(_("Enter environment names such as production, separated by spaces."))
    if problems:
        return None, problems
    note = data.get("note", "").strip()[:500]
    return grant_changes.GrantChange(effect, targets, subjects, starts, ends, environments, note), problems


def _parse_time(data: QueryDict, name: str, problems: list[str]) -> datetime | None:
    text = data.get(name, "").strip()[:40]
    if not text:
        return None
    parsed = local_time.parse_time(text)
    if parsed is None:
        problems.append(_("“%s” is not a valid date and time.") % text)
    return parsed


def _parse_ids(data: QueryDict, name: str) -> list[int]:
    return [
        int(value) for value in data.getlist(name)[: grant_changes.MAX_PAIRS] if value.isdecimal() and len(value) < 18
    ]


def _picker(kind: tuple[str, Any, Any, tuple[str, ...]], data: QueryDict) -> Picker:
    key, title, model, names = kind
    rows = model.objects.filter(pk__in=_parse_ids(data, key)).order_by(names[0])
    chosen = [(row.pk, getattr(row, names[0])) for row in rows]
    query = data.get(f"{key}_q", "").strip()[:100]
    taken = {pk for pk, _name in chosen}
    return Picker(key, title, chosen, query, [pair for pair in _search(kind, query) if pair[0] not in taken])


def _search(kind: tuple[str, Any, Any, tuple[str, ...]], query: str) -> list[tuple[int, str]]:
    _key, _title, model, names = kind
    query = query.strip()[:100]
    found = rank_by_name(filter_rows(model.objects.all(), names, query), names[0], query)
    return list(found.values_list("pk", names[0])[:MAX_RESULTS])


@admin.action(description=gettext_lazy("Change grants for selected items"), permissions=["grants"])
def change_grants(modeladmin: Any, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponseRedirect:
    kind = str(modeladmin.model._meta.model_name)
    numbers = queryset.order_by().values_list("pk", flat=True)[: grant_changes.MAX_PAIRS]
    return HttpResponseRedirect(f"{reverse('pages:bulk')}?{urlencode([(kind, number) for number in numbers])}")


def _may_change_grants(request: HttpRequest) -> bool:
    return request.user.has_perms(REQUIRED_PERMISSIONS)


def connect() -> None:
    """Add the bulk action to the lists; call it after every admin module is loaded."""
    for model in (Tool, Toolset, get_user_model(), Group):
        page: Any = admin.site._registry[model]
        page.has_grants_permission = _may_change_grants
        page.actions = [*(page.actions or ()), change_grants]
