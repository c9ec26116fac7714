"""Imports: what each one made, the next steps (a toolset, access), and its undo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.apps import apps
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
from django.views.decorators.http import require_http_methods, require_safe

from catalog import import_batches
from catalog.import_batches import CALLED, CHANGED, GRANTED, LIMITED, MAYBE_CALLED, TESTED, ItemState
from catalog.models import ImportBatch, ImportedItem, Tool, Toolset
from catalog.policy import large_changes
from catalog.policy import messages as policy_messages
from toolhub.invisible import show
from toolhub.pages.access.giving import GIVE_PERMISSIONS
from toolhub.pages.lists import adjacent_pages
from toolhub.pages.staff import page, staff_page

IMPORTS_PER_PAGE = 25
ITEMS_PER_PAGE = 50
MAX_LISTED = 100
"""Maximum number of items that stay, and of those that are removed, that the preview of an undo lists."""
MAX_TOOLSETS = 20
REASONS: dict[str, Promise] = {
    CHANGED: gettext_lazy("changed since the import"),
    GRANTED: gettext_lazy("has a grant of its own"),
    LIMITED: gettext_lazy("has a limit of its own"),
    TESTED: gettext_lazy("has test cases"),
    CALLED: gettext_lazy("was called"),
    MAYBE_CALLED: gettext_lazy("may have been called: there are too many calls since to tell"),
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
    reads_calls = request.user.has_perm("audit.view_call")
    counts = import_batches.count_items(batch, _find_kinds(request, "view"))
    pages = Paginator(range(sum(counts.values())), ITEMS_PER_PAGE).get_page(request.GET.get("p"))
    first = (pages.number - 1) * ITEMS_PER_PAGE
    states = import_batches.find_page(batch, counts, first, ITEMS_PER_PAGE, calls=reads_calls)
    older, newer = adjacent_pages(pages, lambda number: "?" + urlencode({"p": number}))
    in_toolsets = Toolset.objects.filter(tools__imported__batch=batch).distinct().order_by("name")[:MAX_TOOLSETS]
    context = {
        "batch": batch,
        "source": show(batch.source),
        "by": show(batch.made_by),
        "count": pages.paginator.count,
        "rows": [_describe(state) for state in states],
        "first": pages.start_index(),
        "last": pages.end_index(),
        "older": older,
        "newer": newer,
        "lists": _find_lists(request, batch, counts),
        "toolsets": [(toolset.pk, show(toolset.name)) for toolset in in_toolsets],
        "may_give": request.user.has_perms(GIVE_PERMISSIONS),
        "may_undo": batch.undone_at is None and _may_delete(request, batch),
    }
    title = _("Import of %(source)s") % {"source": show(batch.source)}
    return page(request, "admin/pages/import_batch.html", title, **context)


@staff_page("catalog.view_tool", "catalog.delete_tool")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def undo_import(request: HttpRequest, pk: int) -> HttpResponse:
    """Show what an undo removes and what stays, which takes a second for thousands of items; a POST removes it."""
    batch = get_object_or_404(ImportBatch, pk=pk)
    if not _may_delete(request, batch):
        raise PermissionDenied
    if request.method != "POST":
        return _preview_undo(request, batch)
    try:
        undone = import_batches.undo(batch)
    except import_batches.AlreadyUndone:
        messages.info(request, _("This import was undone before."))
    except large_changes.Stale:
        messages.error(request, policy_messages.CHANGED_MEANWHILE)
    else:
        removed, kept = len(undone.removed), len(undone.kept)
        text = ngettext("%(number)s item removed.", "%(number)s items removed.", removed) % {"number": f"{removed:,}"}
        if kept:
            stays = ngettext("%(number)s item stays.", "%(number)s items stay.", kept) % {"number": f"{kept:,}"}
            text = f"{text} {stays}"
        messages.success(request, text)
    return redirect("pages:import", pk)


def _preview_undo(request: HttpRequest, batch: ImportBatch) -> HttpResponse:
    if batch.undone_at is not None:
        messages.info(request, _("This import was undone before."))
        return redirect("pages:import", batch.pk)
    reads_calls = request.user.has_perm("audit.view_call")
    states = import_batches.find_states(batch, _find_kinds(request, "view"), calls=reads_calls)
    parts = []
    for title, chosen in (
        (_("Stays"), [state for state in states if state.reasons]),
        (_("Is removed"), [state for state in states if not state.reasons]),
    ):
        rows = [_describe(state) for state in chosen[:MAX_LISTED]]
        parts.append({"title": title, "count": len(chosen), "rows": rows, "more": len(chosen) - len(rows)})
    context = {
        "batch": batch,
        "source": show(batch.source),
        "reads_calls": reads_calls,
        "staying": parts[0]["count"],
        "removable": parts[1]["count"],
        "parts": [part for part in parts if part["count"]],
    }
    title = _("Undo import of %(source)s") % {"source": show(batch.source)}
    return page(request, "admin/pages/import_undo.html", title, **context)


def _find_kinds(request: HttpRequest, verb: str) -> list[str]:
    return [kind for kind in ImportedItem.ITEM_FIELDS if request.user.has_perm(f"catalog.{verb}_{kind}")]


def _may_delete(request: HttpRequest, batch: ImportBatch) -> bool:
    """Return whether the reader may delete every kind that is left of the import, also those not shown."""
    if not request.user.has_perm("catalog.delete_tool"):
        return False
    others = set(ImportedItem.ITEM_FIELDS) - set(_find_kinds(request, "delete"))
    return not any(batch.items.filter(**{f"{kind}__isnull": False}).exists() for kind in others)


def _describe(state: ItemState) -> tuple[str, str, str, list[str], list[str]]:
    """Return the name, the address, the kind, what to know of a tool, and why the item stays."""
    item, kind = state.item, state.kind
    marks = policy_messages.list_marks(item) if isinstance(item, Tool) else []
    address = reverse(f"admin:catalog_{kind}_change", args=[item.pk])
    return show(str(item)), address, str(item._meta.verbose_name), marks, [str(REASONS[one]) for one in state.reasons]


def _find_lists(request: HttpRequest, batch: ImportBatch, counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the list of each kind with this import as its filter, and one of its items for the bulk action."""
    return [
        {
            "address": f"{reverse(f'admin:catalog_{kind}_changelist')}?batch={batch.pk}",
            "name": meta.verbose_name if number == 1 else meta.verbose_name_plural,
            "count": number,
            "key": batch.items.filter(**{f"{kind}__isnull": False}).values_list(kind, flat=True).first(),
            "may_change": request.user.has_perm(f"catalog.change_{kind}"),
        }
        for kind, number in counts.items()
        for meta in (apps.get_model("catalog", kind)._meta,)
    ]
