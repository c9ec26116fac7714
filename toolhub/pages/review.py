"""The inbox "Needs review": every quarantined item of the catalogue, and decisions about several of them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from catalog import quarantine
from catalog.admin.quarantine import describe_refusal, review_url
from catalog.models import ReviewDecision
from catalog.models.base import CatalogueItem
from catalog.reviews import queue, risks
from catalog.reviews.review_texts import LABELS, describe_risk
from catalog.reviews.risks import Risk
from toolhub import invisible
from toolhub.pages.lists import adjacent_pages
from toolhub.pages.staff import page, staff_page

PER_PAGE = 25
MAX_SEARCH_SECONDS = 1.5
"""Maximum time for warnings on one page of the list: a hostile definition takes up to half a second."""
MAX_NAMED = 5
"""Maximum items of one click that are named one by one."""
RECENT = timedelta(days=7)
MAX_RECENT = 10
STATES = (queue.WAITING, queue.REJECTED)


@staff_page(quarantine.PERMISSION)
@require_http_methods(["GET", "HEAD", "POST"])
def review(request: HttpRequest) -> HttpResponse:
    """Show the items of a state (`state`) and source (`source`); a POST decides about the selected ones, or undoes."""
    if request.method == "POST":
        _decide(request)
        return redirect(_address(request.GET.get("state", ""), request.GET.get("source", "")))
    state = request.GET.get("state", "")
    state = state if state in STATES else queue.WAITING
    all_entries = {name: queue.list_entries(name) for name in STATES}
    origins = queue.list_origins(*all_entries.values())
    source = request.GET.get("source", "")
    source = source if source in origins else ""
    entries = [entry for entry in all_entries[state] if not source or entry.origin == source]
    shown = Paginator(entries, PER_PAGE).get_page(request.GET.get("page"))
    before, after = adjacent_pages(shown, lambda number: _address(state, source, number))
    context = {
        "state": state,
        "counts": [(name, _label(name), len(all_entries[name]), _address(name, source)) for name in STATES],
        "source": source,
        "sources": [(origin, invisible.show(name)) for origin, name in origins.items()],
        "rows": list(_present_rows(queue.read_items(shown.object_list), origins)),
        "shown": shown,
        "page_before": before,
        "page_after": after,
        "recent": _recent_decisions(),
    }
    return page(request, "admin/pages/review.html", _("Needs review"), **context)


def _label(state: str) -> str:
    return _("Needs review") if state == queue.WAITING else _("Rejected")


def _address(state: str, source: str, number: int = 1) -> str:
    values = {"state": state if state == queue.REJECTED else "", "source": source, "page": number if number > 1 else ""}
    query = urlencode({name: value for name, value in values.items() if value})
    return reverse("pages:review") + (f"?{query}" if query else "")


def _present_rows(items: Iterable[CatalogueItem], origins: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of the list; once MAX_SEARCH_SECONDS are over, without a search for dangers."""
    deadline = time.monotonic() + MAX_SEARCH_SECONDS
    for item in items:
        yield _present_row(item, origins, risks.find_risks(item) if time.monotonic() < deadline else None)


def _present_row(item: CatalogueItem, origins: dict[str, str], found: list[Risk] | None) -> dict[str, Any]:
    members = quarantine.differing_members(quarantine.approved(item), quarantine.proposal(item) or {})
    return {
        "item": item,
        "value": f"{item._meta.model_name}:{item.pk}:{quarantine.fingerprint(item)}",
        "name": invisible.show(str(item)),
        "kind": item._meta.verbose_name,
        "link": review_url(str(item._meta.model_name), item.pk),
        "source": invisible.show(origins.get(item.origin, item.origin)),
        "gone": item.proposed == "null",
        "members": ", ".join(str(LABELS[member]) for member in members),
        "dangerous": found is None or risks.is_dangerous(found),
        "warning": _("It was not searched for dangers yet. Open it.") if found is None else _name_worst(found),
        "more": len(found or ()) - 1,
    }


def _name_worst(found: list[Risk]) -> str:
    return describe_risk(found[0]) if found else ""


def _recent_decisions() -> list[dict[str, Any]]:
    """Return what was decided lately, one line for each click, the newest first."""
    clicks: dict[Any, list[ReviewDecision]] = {}
    for decision in queue.list_decisions(timezone.now() - RECENT, MAX_RECENT * PER_PAGE):
        clicks.setdefault(decision.batch or decision.pk, []).append(decision)
    lines = list(clicks.items())[:MAX_RECENT]
    names = queue.name_items(decision for _key, made in lines for decision in made[:MAX_NAMED])
    return [
        {
            "decision": made[0],
            "names": [invisible.show(names[one.pk]) for one in made[:MAX_NAMED] if one.pk in names],
            "number": len(made),
            "undo": f"batch:{key}" if made[0].batch else f"one:{key}",
        }
        for key, made in lines
    ]


def _decide(request: HttpRequest) -> None:
    by = request.user.get_username()
    if undo := request.POST.get("undo"):
        outcome = queue.undo_all(_select_decisions(undo), by)
        done = ngettext(
            "%(number)s decision undone, waits for review again: %(names)s.",
            "%(number)s decisions undone, wait for review again: %(names)s.",
            len(outcome.decided),
        )
    else:
        decision = request.POST.get("decision", "")
        chosen = list(_select_items(request.POST.getlist("item")))
        if decision not in (queue.APPROVE, queue.REJECT) or not chosen:
            messages.warning(request, _("Select at least one item."))
            return
        outcome = queue.decide_all(chosen, decision, by)
        if decision == queue.APPROVE:
            done = ngettext(
                "%(number)s change approved: %(names)s.",
                "%(number)s changes approved: %(names)s.",
                len(outcome.decided),
            )
        else:
            done = ngettext(
                "%(number)s change rejected, stays quarantined: %(names)s.",
                "%(number)s changes rejected, stay quarantined: %(names)s.",
                len(outcome.decided),
            )
    if outcome.decided:
        names = ", ".join(invisible.show(str(item)) for item in outcome.decided[:MAX_NAMED])
        names += "…" if len(outcome.decided) > MAX_NAMED else ""
        messages.success(request, done % {"names": names, "number": f"{len(outcome.decided):,}"})
    elif not outcome.refused:
        messages.warning(request, _("Nothing was changed: the items were decided about meanwhile."))
    for item, error in outcome.refused[:MAX_NAMED]:
        messages.error(request, f"{invisible.show(str(item))}: {describe_refusal(error)}")
    if (more := len(outcome.refused) - MAX_NAMED) > 0:
        text = ngettext("%(number)s more was not changed.", "%(number)s more were not changed.", more)
        messages.error(request, text % {"number": f"{more:,}"})


def _select_items(values: Iterable[str]) -> Iterable[tuple[CatalogueItem, str]]:
    """Yield the items of a form with the fingerprints in it; what no longer exists is left out."""
    for value in list(dict.fromkeys(values))[:PER_PAGE]:
        kind, _colon, rest = value.partition(":")
        key, _colon, reviewed = rest.partition(":")
        model = queue.MODELS.get(kind)
        if model is None or not reviewed or not key.isdecimal() or len(key) > 15:
            continue
        item = model.objects.filter(pk=int(key)).first()
        if item is not None:
            yield item, reviewed


def _select_decisions(value: str) -> list[ReviewDecision]:
    kind, _colon, key = value.partition(":")
    if kind == "one" and key.isdecimal() and len(key) < 16:
        return queue.select_decisions(pk=int(key))
    try:
        return queue.select_decisions(batch=UUID(key)) if kind == "batch" else []
    except ValueError:
        return []
