"""Imports: what each one made, the next steps (a toolset, access), and its undo."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from catalog import import_batches
from catalog.import_batches import CALLED, CHANGED, GRANTED, LIMITED, TESTED, ItemState
from catalog.models import ImportBatch, ImportedItem, Tool, Toolset
from catalog.policy import large_changes
from catalog.policy import messages as policy_messages
from toolhub.invisible import show
from toolhub.pages.access.giving import GIVE_PERMISSIONS
from toolhub.pages.lists import adjacent_pages
from toolhub.pages.staff import page, staff_page

IMPORTS_PER_PAGE = 25
MAX_LISTED = 100
"""Maximum number of items that the page of an import lists."""
MAX_TOOLSETS = 20
REASONS: dict[str, Promise] = {
    CHANGED: gettext_lazy("changed since the import"),
    GRANTED: gettext_lazy("has a grant of its own"),
    LIMITED: gettext_lazy("has a rate limit of its own"),
    TESTED: gettext_lazy("has test cases"),
    CALLED: gettext_lazy("was called"),
}


@staff_page("catalog.view_tool")
@never_cache
@require_safe
def imports(request: HttpRequest) -> HttpResponse:
    pages = Paginator(ImportBatch.objects.order_by("-pk"), IMPORTS_PER_PAGE).get_page(request.GET.get("p"))
    older, newer = adjacent_pages(pages, lambda number: "?" + urlencode({"p": number}))
    context = {
        "rows": [(batch, show(batch.source), show(batch.made_by)) for batch in pages],
        "older": older,
        "newer": newer,
    }
    return page(request, "admin/pages/imports.html", _("Imports"), **context)


@staff_page("catalog.view_tool")
@never_cache
@require_safe
def import_batch(request: HttpRequest, pk: int) -> HttpResponse:
    batch = get_object_or_404(ImportBatch, pk=pk)
    states = import_batches.find_states(batch, _find_kinds(request, "view"))
    removable = sum(not state.reasons for state in states)
    in_toolsets = Toolset.objects.filter(tools__imported__batch=batch).distinct().order_by("name")[:MAX_TOOLSETS]
    context = {
        "batch": batch,
        "source": show(batch.source),
        "by": show(batch.made_by),
        "count": len(states),
        "rows": [_describe(state) for state in states[:MAX_LISTED]],
        "more": max(0, len(states) - MAX_LISTED),
        "removable": removable,
        "staying": len(states) - removable,
        "lists": _find_lists(request, states, pk),
        "toolsets": [(toolset.pk, show(toolset.name)) for toolset in in_toolsets],
        "may_give": request.user.has_perms(GIVE_PERMISSIONS),
        "may_undo": batch.undone_at is None and removable and _may_delete(request, states),
    }
    title = _("Import of %(source)s") % {"source": show(batch.source)}
    return page(request, "admin/pages/import_batch.html", title, **context)


@staff_page("catalog.view_tool", "catalog.delete_tool")
@require_POST
def undo_import(request: HttpRequest, pk: int) -> HttpResponse:
    """Remove what the import made and nobody has used or changed since."""
    batch = get_object_or_404(ImportBatch, pk=pk)
    if not _may_delete(request, import_batches.find_states(batch)):
        raise PermissionDenied
    try:
        undone = import_batches.undo(batch)
    except import_batches.AlreadyUndone:
        messages.info(request, _("This import was undone before."))
    except large_changes.Stale:
        messages.error(request, _("The catalogue is being changed at the same time. Try again."))
    else:
        removed, kept = len(undone.removed), len(undone.kept)
        text = ngettext("%(number)s item removed.", "%(number)s items removed.", removed) % {"number": f"{removed:,}"}
        if kept:
            stays = ngettext("%(number)s item stays.", "%(number)s items stay.", kept) % {"number": f"{kept:,}"}
            text = f"{text} {stays}"
        messages.success(request, text)
    return redirect("pages:import", pk)


def _find_kinds(request: HttpRequest, verb: str) -> list[str]:
    return [kind for kind in ImportedItem.ITEM_FIELDS if request.user.has_perm(f"catalog.{verb}_{kind}")]


def _may_delete(request: HttpRequest, states: list[ItemState]) -> bool:
    return {state.kind for state in states} <= set(_find_kinds(request, "delete"))


def _describe(state: ItemState) -> tuple[str, str, str, list[str], list[str]]:
    """Return the name, the address, the kind, what to know of a tool, and why the item stays."""
    item, kind = state.item, state.kind
    marks = policy_messages.list_marks(item) if isinstance(item, Tool) else []
    address = reverse(f"admin:catalog_{kind}_change", args=[item.pk])
    return show(str(item)), address, str(item._meta.verbose_name), marks, [str(REASONS[one]) for one in state.reasons]


def _find_lists(request: HttpRequest, states: list[ItemState], pk: int) -> list[dict[str, Any]]:
    """Return the list of each kind with this import as its filter, and one of its items for the bulk action."""
    first: dict[str, ItemState] = {}
    counts: dict[str, int] = {}
    for state in states:
        first.setdefault(state.kind, state)
        counts[state.kind] = counts.get(state.kind, 0) + 1
    return [
        {
            "address": f"{reverse(f'admin:catalog_{kind}_changelist')}?batch={pk}",
            "name": state.item._meta.verbose_name_plural,
            "count": counts[kind],
            "key": state.item.pk,
            "may_change": request.user.has_perm(f"catalog.change_{kind}"),
        }
        for kind, state in first.items()
    ]
