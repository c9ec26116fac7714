"""`/admin/requests/`: the open requests for access, decisions about several of them, and those decided lately."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from audit.admin_filters import is_key
from catalog.access_requests import condition_texts, decisions, effects, inbox
from catalog.access_requests.decisions import Stale
from catalog.access_requests.effects import Effect, Examiner
from catalog.access_requests.submissions import Refused
from catalog.models import AccessRequest
from catalog.models.access_requests import MAX_TEXT_CHARACTERS
from catalog.policy import snapshot
from toolhub import invisible
from toolhub.pages.lists import adjacent_pages
from toolhub.pages.staff import page, staff_page

VIEW, APPROVE, REVOKE = "catalog.view_accessrequest", "catalog.add_grant", "catalog.delete_grant"
PER_PAGE = 25
RECENT = timedelta(days=7)
MAX_RECENT = 10
MAX_NAMED = 5
"""Maximum requests of one click that are named one by one."""
PERIODS: dict[str, int] = {"": 0, "7": 7, "30": 30}
"""Days until the end of a grant, by the value of the form; 0: no end."""
WARNINGS: dict[str, Promise] = {
    effects.INACTIVE: gettext_lazy("The account is not active."),
    effects.EMPTY: gettext_lazy("There is nothing in it that can be used now."),
    effects.CLOSED: gettext_lazy("The toolset is closed for requests now."),
    effects.MOVED: gettext_lazy("The tool is no longer in the toolset where it was requested."),
    effects.DENIED: gettext_lazy("A grant denies some of it. Deny always overrides allow."),
}


def describe_warnings(effect: Effect) -> list[str]:
    return [str(WARNINGS[code]) for code in effect.warnings]


def describe_refusal(error: Exception) -> str:
    """Return why a decision was not made, as a sentence."""
    if isinstance(error, ValidationError):
        return " ".join(error.messages)
    if isinstance(error, Stale):
        return _("Somebody answered it, withdrew it or deleted it meanwhile.")
    return str(error)


def end_after(days: int) -> datetime | None:
    return timezone.now() + timedelta(days=days) if days else None


def build_tabs(request: HttpRequest, current: str) -> list[tuple[str, str, int, bool]]:
    """Return (address, title, number, whether it is this page) of the lists that the viewer may open."""
    lists: list[tuple[str, str, str, Any]] = [
        ("pages:requests", _("Access requests"), VIEW, inbox.open_requests()),
        ("pages:reports", _("Reported calls"), "catalog.view_callreport", inbox.open_reports()),
    ]
    return [
        (reverse(name), title, rows.count(), name == current)
        for name, title, permission, rows in lists
        if request.user.has_perm(permission)
    ]


@staff_page(VIEW)
@never_cache
@require_safe
def requests(request: HttpRequest) -> HttpResponse:
    rows = inbox.open_requests().select_related("person", "toolset", "tool")
    shown = Paginator(rows, PER_PAGE).get_page(request.GET.get("page"))
    before, after = adjacent_pages(shown, lambda number: f"?page={number}")
    examiner = make_examiner()
    context = {
        "tabs": build_tabs(request, "pages:requests"),
        "rows": [_present_row(row, examiner.examine(row)) for row in shown],
        "shown": shown,
        "page_before": before,
        "page_after": after,
        "may_approve": request.user.has_perm(APPROVE),
        "max_length": MAX_TEXT_CHARACTERS,
        "recent": [_present_decision(request, row) for row in _list_recent()],
    }
    return page(request, "admin/pages/requests.html", _("Access requests"), **context)


@staff_page(VIEW, APPROVE)
@require_POST
def decide(request: HttpRequest) -> HttpResponse:
    """Decide about the selected requests (`decision`), or take one decision back (`undo`)."""
    if "undo" in request.POST:
        undo(request, request.POST["undo"])
    else:
        _decide(request)
    return redirect("pages:requests")


def make_examiner() -> Examiner:
    return Examiner(snapshot.latest(), time.time(), settings.ENVIRONMENT)


def _list_recent() -> list[AccessRequest]:
    return inbox.list_decided(timezone.now() - RECENT, MAX_RECENT)


def _present_row(row: AccessRequest, effect: Effect) -> dict[str, Any]:
    return {
        "row": row,
        "person": invisible.show(row.person.get_username()),
        "name": invisible.show(str(row.target)),
        "reason": invisible.show(row.reason),
        "conditions": condition_texts.describe(row.conditions),
        "destructive": effect.destructive,
        "warnings": describe_warnings(effect),
        "alone": effect.needs_attention,
    }


def _present_decision(request: HttpRequest, row: AccessRequest) -> dict[str, Any]:
    return {
        "row": row,
        "person": invisible.show(row.person.get_username()),
        "name": invisible.show(row.name),
        "by": invisible.show(row.decided_by),
        "undo": undo_value(row) if may_undo(request, row) else "",
    }


def may_undo(request: HttpRequest, row: AccessRequest) -> bool:
    """Return whether the viewer may take a decision back: it deletes the grant of an approval."""
    permissions = (APPROVE, REVOKE) if row.state == AccessRequest.State.APPROVED else (APPROVE,)
    return bool(request.user.has_perms(permissions))


def undo_value(row: AccessRequest) -> str:
    """Return the value of the button that takes the decision back which its page shows."""
    return f"{row.pk} {decisions.name_decision(row)}"


def undo(request: HttpRequest, value: str) -> None:
    """Take the decision that a button stands for back, and tell the viewer by a message."""
    key, _space, decision = value.partition(" ")
    row = next(iter(select([key])), None)
    if row is None:
        messages.warning(request, describe_refusal(Stale()))
        return
    if not may_undo(request, row):
        raise PermissionDenied
    details = {"name": invisible.show(row.name), "person": invisible.show(row.person.get_username())}
    try:
        decisions.undo(row.pk, decision)
    except (Stale, Refused) as error:
        messages.error(request, describe_refusal(error))
    else:
        messages.success(request, _("The request of %(person)s for %(name)s is open again.") % details)


def _decide(request: HttpRequest) -> None:
    decision, answer = request.POST.get("decision"), request.POST.get("answer", "").replace("\0", "").strip()
    chosen = select(request.POST.getlist("request"))
    if decision not in ("approve", "decline") or not chosen:
        messages.warning(request, _("Select at least one request."))
        return
    by, days, examiner = request.user.get_username(), PERIODS.get(request.POST.get("end", ""), 0), make_examiner()
    done: list[AccessRequest] = []
    refused: list[tuple[AccessRequest, Exception]] = []
    for row in chosen:
        try:
            if decision == "decline":
                decisions.decline(row.pk, by, answer)
            elif row.is_open and examiner.examine(row).needs_attention:
                raise Refused(_("It has warnings. Open it to decide."))
            else:
                decisions.approve(row.pk, by, ends=end_after(days), answer=answer)
        except (Stale, Refused, ValidationError) as error:
            refused.append((row, error))
        else:
            done.append(row)
    if done:
        number = len(done)
        if decision == "approve":
            text = ngettext(
                "%(number)s request approved: %(names)s.", "%(number)s requests approved: %(names)s.", number
            )
        else:
            text = ngettext(
                "%(number)s request declined: %(names)s.", "%(number)s requests declined: %(names)s.", number
            )
        names = ", ".join(_name(row) for row in done[:MAX_NAMED]) + ("…" if len(done) > MAX_NAMED else "")
        messages.success(request, text % {"number": f"{number:,}", "names": names})
    for row, refusal in refused[:MAX_NAMED]:
        messages.error(request, f"{_name(row)}: {describe_refusal(refusal)}")
    if (more := len(refused) - MAX_NAMED) > 0:
        text = ngettext("%(number)s more was not changed.", "%(number)s more were not changed.", more)
        messages.error(request, text % {"number": f"{more:,}"})


def _name(row: AccessRequest) -> str:
    return f"{invisible.show(row.name)} ({invisible.show(row.person.get_username())})"


def select(values: Iterable[str]) -> list[AccessRequest]:
    """Return the requests of a form, in its order, at most a page of them; without those that no longer exist."""
    keys = [int(value) for value in values if is_key(value)][:PER_PAGE]
    found = AccessRequest.objects.select_related("person", "toolset", "tool").in_bulk(keys)
    return [found[key] for key in dict.fromkeys(keys) if key in found]
