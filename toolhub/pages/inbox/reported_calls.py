"""`/admin/requests/calls/`: the calls that people reported, and the answers to them.

Whoever may not read the audit log sees what the person who reported the call sees of its end, and no link to it.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from audit import hooks as audit_hooks
from audit import outcomes
from audit.models import Call
from catalog.access_requests import decisions, inbox
from catalog.access_requests.decisions import Stale
from catalog.models import CallReport
from catalog.models.access_requests import MAX_TEXT_CHARACTERS
from toolhub import invisible
from toolhub.pages.inbox import request_queue
from toolhub.pages.lists import adjacent_pages
from toolhub.pages.staff import page, staff_page

VIEW, CLOSE = "catalog.view_callreport", "catalog.change_callreport"
PER_PAGE = 25
STATES = (CallReport.State.OPEN, CallReport.State.CLOSED)
STATUS_LABELS = dict(outcomes.CHOICES)


class AnswerForm(forms.Form):
    answer = forms.CharField(label=gettext_lazy("Answer"), required=False, max_length=MAX_TEXT_CHARACTERS)


@staff_page(VIEW)
@never_cache
@require_safe
def reports(request: HttpRequest) -> HttpResponse:
    """Show the reported calls of a state (`state`): the open ones, the oldest first, or the closed ones."""
    closed = request.GET.get("state") == "closed"
    rows = CallReport.objects.filter(state="closed").order_by("-id") if closed else inbox.open_reports()
    shown = Paginator(rows.select_related("person"), PER_PAGE).get_page(request.GET.get("page"))
    prefix = "state=closed&" if closed else ""
    before, after = adjacent_pages(shown, lambda number: f"?{prefix}page={number}")
    context = {
        "tabs": request_queue.build_tabs(request, "pages:reports"),
        "closed": closed,
        "rows": [_present_report(row) for row in shown],
        "shown": shown,
        "page_before": before,
        "page_after": after,
    }
    return page(request, "admin/pages/reported_calls.html", _("Reported calls"), **context)


def _present_report(row: CallReport) -> dict[str, Any]:
    return {
        "row": row,
        "person": invisible.show(row.person.get_username()),
        "name": invisible.show(row.name),
        "status": STATUS_LABELS.get(row.outcome, row.outcome),
        "detail": invisible.show(audit_hooks.sentence(row.detail_reason, row.detail)),
        "comment": invisible.show(row.comment),
        "answer": invisible.show(row.answer),
        "by": invisible.show(row.closed_by),
    }


@staff_page(VIEW)
@never_cache
@require_safe
def report(request: HttpRequest, pk: int) -> HttpResponse:
    """Show one reported call, with the form to answer it for those who may."""
    found = _find(pk)
    place = inbox.find_place(inbox.open_reports(), found)
    readable = request.user.has_perm("audit.view_call") and Call.objects.filter(pk=found.call_id).exists()
    context = {
        **_present_report(found),
        "place": place,
        "previous": _address(place.before),
        "next": _address(place.after),
        "may_close": found.is_open and request.user.has_perm(CLOSE),
        "call": reverse("admin:audit_call_change", args=[found.call_id]) if readable else "",
        "max_length": MAX_TEXT_CHARACTERS,
    }
    title = _("Reported call of %(name)s") % {"name": invisible.show(found.name[:100])}
    return page(request, "admin/pages/reported_call.html", title, **context)


@staff_page(VIEW, CLOSE)
@require_POST
def close(request: HttpRequest, pk: int) -> HttpResponse:
    """Close one reported call with an answer."""
    found, form = _find(pk), AnswerForm(request.POST)
    if not form.is_valid():
        messages.error(request, " ".join(map(str, form.errors["answer"])))
        return redirect("pages:report", pk=found.pk)
    _close(request, found, form.cleaned_data["answer"])
    later = inbox.find_place(inbox.open_reports(), found).after
    return redirect(_address(later) or reverse("pages:reports"))


def _find(pk: int) -> CallReport:
    return get_object_or_404(CallReport.objects.select_related("person"), pk=pk)


def _close(request: HttpRequest, found: CallReport, answer: str) -> None:
    try:
        decisions.close(found.pk, request.user.get_username(), answer)
    except Stale:
        messages.error(request, _("Somebody closed this report meanwhile."))
    else:
        messages.success(request, _("The report was closed. The person sees your answer on the page of the call."))


def _address(key: int | None) -> str:
    return reverse("pages:report", args=[key]) if key is not None else ""
