"""The access matrix: the access of each group to each toolset, with a page to view and change every cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import Group
from django.core.paginator import Page, Paginator
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from catalog.models import Grant, Toolset
from catalog.policy import grant_changes
from toolhub.pages.lists import adjacent_pages, filter_rows
from toolhub.pages.staff import page, staff_page

TOOLSETS_PER_PAGE, GROUPS_PER_PAGE = 25, 10
"""Rows and columns of one page."""
VIEW_PERMISSIONS = ("catalog.view_grant", "catalog.view_toolset", "auth.view_group")
CHANGE_PERMISSIONS = ("catalog.add_grant", "catalog.change_grant", "catalog.delete_grant")
_COLUMNS = (
    "effect",
    "toolset",
    "group",
    "everyone",
    "starts",
    "ends",
    "environments",
    "conditions",
    "windows",
    "flags",
    "trial",
)
EVERYONE = 0
"""The column of grants to everyone, beside those of the groups."""


@dataclass(frozen=True, slots=True)
class Cell:
    state: str
    """allow | deny | limited | later | none: the combined effect of this toolset's grants on this group now and here.

    limited: for some arguments or, by flags, for some people.
    """
    count: int
    href: str


@staff_page(*VIEW_PERMISSIONS)
@never_cache
@require_safe
def matrix(request: HttpRequest) -> HttpResponse:
    data = {name: request.GET.get(name, "").strip()[:100] for name in ("toolset", "group", "tp", "gp")}
    found = filter_rows(Toolset.objects.annotate(size=Count("tools")), ("name",), data["toolset"]).order_by("name")
    toolsets = Paginator(found, TOOLSETS_PER_PAGE).get_page(data["tp"])
    named = filter_rows(Group.objects.all(), ("name",), data["group"]).order_by("name")
    groups = Paginator(named, GROUPS_PER_PAGE).get_page(data["gp"])
    back = urlencode({name: value for name, value in data.items() if value})
    cells = _cells(toolsets, groups)
    columns = [(EVERYONE, _("everyone")), *((group.pk, group.name) for group in groups)]
    context = {
        "data": data,
        "toolsets": toolsets,
        "groups": groups,
        "columns": columns,
        "rows": [
            (
                toolset,
                [_cell(cells.get((toolset.pk, number), []), toolset.pk, number, back) for number, _name in columns],
            )
            for toolset in toolsets
        ],
        "toolset_pages": _links(toolsets, data, "tp"),
        "group_pages": _links(groups, data, "gp"),
        "here": settings.ENVIRONMENT,
    }
    return page(request, "admin/pages/matrix.html", _("Toolsets and groups"), **context)


@staff_page(*VIEW_PERMISSIONS)
@never_cache
@require_safe
def cell(request: HttpRequest, toolset: int, group: int) -> HttpResponse:
    """Show one cell: every grant behind it, and the changes to choose from. Group 0 is everyone."""
    row, column = _get_toolset_and_group(toolset, group)
    back = request.GET.get("back", "")[:500]
    may_change = request.user.has_perms(CHANGE_PERMISSIONS)
    now = timezone.now()
    subject = Q(group=column) if column is not None else Q(everyone=True)
    grants = Grant.objects.filter(subject, toolset=row).select_related("toolset", "group", "user").order_by("-pk")[:200]
    stated = [(grant, grant.state_at(now, settings.ENVIRONMENT)) for grant in grants]
    name = column.name if column is not None else _("everyone")
    context = {
        "toolset": row,
        "group": column,
        "number": group,
        "name": name,
        "grants": stated,
        "state": _state([grant for grant, state in stated if state != "over"], now),
        "may_change": may_change,
        "back": back,
    }
    title = _("%(toolset)s for %(group)s") % {"toolset": row.name, "group": name}
    return page(request, "admin/pages/matrix_cell.html", title, **context)


@staff_page(*CHANGE_PERMISSIONS)
@require_POST
def set_cell(request: HttpRequest, toolset: int, group: int) -> HttpResponse:
    """Set allow, deny or neither, starting now; then redirect to the previous position in the table."""
    _apply_change(request, *_get_toolset_and_group(toolset, group))
    back = QueryDict(request.POST.get("back", "")[:500])
    position = {name: back[name] for name in ("toolset", "group", "tp", "gp") if back.get(name)}
    return redirect(f"{reverse('pages:matrix')}?{urlencode(position)}" if position else "pages:matrix")


def _get_toolset_and_group(toolset: int, group: int) -> tuple[Toolset, Group | None]:
    return (
        get_object_or_404(Toolset, pk=toolset),
        get_object_or_404(Group, pk=group) if group != EVERYONE else None,
    )


def _apply_change(request: HttpRequest, toolset: Toolset, group: Group | None) -> None:
    wanted = request.POST.get("set", "")
    if wanted not in {grant_changes.ALLOW, grant_changes.DENY, grant_changes.END}:
        return
    done = grant_changes.set_cell(toolset, group, wanted, settings.ENVIRONMENT)
    messages.success(request, describe_changes(done))


def describe_changes(done: grant_changes.Plan) -> str:
    """Describe the changes of an executed plan."""
    sentences = []
    if done.to_create:
        sentences.append(
            ngettext("%d grant was created.", "%d grants were created.", len(done.to_create)) % len(done.to_create)
        )
    if done.to_end:
        sentences.append(ngettext("%d grant was ended.", "%d grants were ended.", len(done.to_end)) % len(done.to_end))
    return " ".join(sentences) or _("Nothing changed. The grants were already set this way.")


def _cells(toolsets: Page[Toolset], groups: Page[Group]) -> dict[tuple[int, int], list[Grant]]:
    """Return the grants behind the cells of this page, except expired ones."""
    rows, columns = [toolset.pk for toolset in toolsets], [group.pk for group in groups]
    found = Grant.objects.filter(Q(group__in=columns) | Q(everyone=True), toolset__in=rows)
    found = found.filter(Q(ends__isnull=True) | Q(ends__gt=timezone.now()))
    cells: dict[tuple[int, int], list[Grant]] = {}
    for grant in found.only(*_COLUMNS):
        cells.setdefault((grant.toolset_id or 0, grant.group_id or EVERYONE), []).append(grant)
    return cells


def _cell(grants: list[Grant], toolset: int, number: int, back: str) -> Cell:
    href = reverse("pages:cell", args=[toolset, number])
    if back:
        href = f"{href}?{urlencode({'back': back})}"
    return Cell(_state(grants, timezone.now()), len(grants), href)


def _state(grants: list[Grant], now: Any) -> str:
    in_force = [grant for grant in grants if grant.state_at(now, settings.ENVIRONMENT) == "in force"]
    if not in_force:
        return "later" if grants else "none"
    if any(grant.effect == Grant.Effect.DENY and not grant.is_limited for grant in in_force):
        return "deny"
    whole = all(grant.effect == Grant.Effect.ALLOW for grant in in_force) and not all(
        grant.is_limited for grant in in_force
    )
    return "allow" if whole else "limited"


def _links(pages: Page[Any], data: dict[str, str], name: str) -> tuple[str, str]:
    """Return the addresses of the previous and the next page; "" when there is none."""

    def to(number: int) -> str:
        return "?" + urlencode({key: value for key, value in {**data, name: str(number)}.items() if value})

    return adjacent_pages(pages, to)
