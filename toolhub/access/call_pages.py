"""`/calls/`: the calls of the signed-in user's clients.

A call of another user gets the same answer as a call that does not exist.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from audit import display, outcomes
from audit import hooks as audit_hooks
from audit.actions import log
from audit.export import files
from audit.models import Call
from audit.queries import search
from audit.results import kept, sections
from toolhub import invisible
from toolhub.access import hooks

TONES = {
    outcomes.OK: "good",
    outcomes.RUNNING: "",
    outcomes.INPUT_REQUIRED: "",
    outcomes.WAITING: "",
    outcomes.APPROVAL_EXPIRED: "warn",
    outcomes.CANCELLED: "",
    outcomes.LIMITED: "warn",
    outcomes.UNKNOWN: "warn",
}
"""The tone of each outcome; outcomes that are missing here are failures."""
STATUS_LABELS = dict(outcomes.CHOICES)
CANCEL_MESSAGES = {
    "cancelled": _("The call was cancelled."),
    "ended": _("The call had already ended."),
    "asked": _("Cancellation requested"),
}
"""The texts for the result of a cancellation request."""
CANCEL_SECONDS = settings.RECORD_SECONDS
"""How long a page waits for the end of a call, in seconds: as long as the audit log may take to store it."""
FILTERS = ("q", "tool", "outcome", "client", "since", "until")
OUTCOME_CHOICES = [(value, label) for value, label in outcomes.CHOICES if value not in outcomes.OWNER_OUTCOMES]


def _present_call(call: Call) -> dict[str, Any]:
    """Return a call as its owner reads it.

    Values from clients and tools are plain text, with invisible characters made visible.
    """
    outcome = outcomes.OWNER_OUTCOMES.get(call.outcome, call.outcome)
    hidden = outcome == outcomes.UNKNOWN_TOOL
    return {
        "row": call,
        "name": invisible.show(call.name[:500]),
        "client": invisible.show(f"{call.client_name} {call.client_version}".strip()),
        "credential": invisible.show(call.credential),
        "transport": invisible.show(call.transport),
        "revision": invisible.show(call.revision),
        "address": invisible.show(str(call.address or "")),
        "word": STATUS_LABELS.get(outcome, outcome),
        "tone": TONES.get(outcome, "bad"),
        "took": display.format_duration(call.duration_us),
        "detail": "" if hidden else invisible.show(audit_hooks.sentence(call.detail_reason, call.detail)),
    }


@login_required
@never_cache
@require_safe
def calls(request: HttpRequest) -> HttpResponse:
    """Show the list of calls.

    A call's id in the search box redirects to that call; the header `X-Part: calls` requests the list alone.
    """
    user = cast(User, request.user)
    filters = {name: request.GET.get(name, "").strip()[:200] for name in FILTERS}
    if (call_id := _parse_id(filters["q"])) and search.one_for_user(user.pk, call_id) is not None:
        return redirect("access:call", pk=call_id)
    criteria = {**filters, "since": _parse_time(filters["since"]), "until": _parse_time(filters["until"], end=True)}
    cursor = request.GET.get("cursor", "")
    try:
        page = search.page_for_user(user.pk, criteria, cursor)
    except ValueError:
        raise Http404 from None
    active = {name: value for name, value in filters.items() if value}
    context = {
        "section": "calls",
        "filters": filters,
        "filtered": bool(active),
        "newest": not cursor,
        "choices": OUTCOME_CHOICES,
        "calls": [_present_call(call) for call in page.rows],
        "looked_through": page.stopped_at,
        "older": urlencode({**active, "cursor": page.older}) if page.older else "",
        "newer": urlencode({**active, "cursor": page.newer}) if page.newer else "",
    }
    part = request.headers.get("X-Part") == "calls"
    return render(request, "access/calls_list.html" if part else "access/calls.html", context)


def _parse_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _parse_time(text: str, *, end: bool = False) -> str:
    """Convert an entered local time to the format of the audit log's filters; return "" for an invalid time.

    With `end`, a bare date includes the whole day.
    """
    try:
        entered = datetime.fromisoformat(text)
        if end and len(text) == len("2026-01-02"):
            entered += timedelta(days=1)
        return (entered if entered.tzinfo else timezone.make_aware(entered)).astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        return ""


@login_required
@never_cache
@require_safe
def call(request: HttpRequest, pk: UUID) -> HttpResponse:
    found = _require_own(request, pk)
    context = {
        "section": "calls",
        "call": _present_call(found),
        "sections": sections.of_call(
            found,
            _find_definition(found),
            download=lambda what: reverse("access:call-file", args=[found.pk, what]),
            part=lambda number: reverse("access:call-part", args=[found.pk, number]),
        ),
    }
    return render(request, "access/call.html", context)


def _find_definition(call: Call) -> str:
    """Return the definition that the tool had at the time; empty where there is nothing to label by it."""
    if call.target_id is None or not call.result:
        return ""
    found = audit_hooks.catalogue().definition_at(call.method, call.target_id, call.definition, call.started_at)
    return found.text if found is not None and found.exact else ""


@login_required
@never_cache
@require_safe
def file(request: HttpRequest, pk: UUID, what: str) -> HttpResponse:
    """Return the arguments or the result of one's own call as a file."""
    found = _require_own(request, pk)
    read = kept.read_arguments if what == kept.ARGUMENTS else kept.read_result
    try:
        return files.body(read(found), what, f"call-{pk}")
    except LookupError:
        raise Http404 from None


@login_required
@require_safe
def part(request: HttpRequest, pk: UUID, number: int) -> HttpResponse:
    """Serve a picture, sound or file in the result of one's own call."""
    try:
        return files.part(request, _require_own(request, pk), number)
    except LookupError:
        raise Http404 from None


def _require_own(request: HttpRequest, pk: UUID) -> Call:
    found = search.one_for_user(cast(User, request.user).pk, pk)
    if found is None:
        raise Http404
    return found


@login_required
@never_cache
@require_POST
def cancel(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Cancel a running call: one's own, or any call with the permission for it. Logged with the acting user.

    Answers with JSON where that is what the client accepts: {"state": "cancelled" | "ended" | "asked"}. "ended": the
    call had ended before; "asked": cancellation was requested, and the call has not ended yet.
    """
    user = cast(User, request.user)
    found = Call.objects.only("id", "user_id", "username", "name", "outcome").filter(pk=pk).first()
    if found is None or not (found.user_id == user.pk or (user.is_staff and user.has_perm("audit.cancel_call"))):
        raise Http404
    state = "ended" if found.outcome != outcomes.RUNNING else _cancel_call(found, user)
    if request.accepts("text/html"):
        level = messages.SUCCESS if state == "cancelled" else messages.WARNING
        messages.add_message(request, level, CANCEL_MESSAGES[state])
        back = request.POST.get("next", "")
        if not url_has_allowed_host_and_scheme(back, {request.get_host()}, require_https=request.is_secure()):
            back = reverse("access:call", args=[pk]) if found.user_id == user.pk else reverse("access:calls")
        return redirect(back)
    return JsonResponse({"state": state, "text": str(CANCEL_MESSAGES[state])})


def _cancel_call(call: Call, user: User) -> str:
    """Ask the workers to cancel the call, and wait up to CANCEL_SECONDS for its logged outcome."""
    log.record("cancelled", "call", f"{call.name} ({call.pk})", None, {"user": call.username})
    again = 0.0
    give_up = time.monotonic() + CANCEL_SECONDS
    while (now := time.monotonic()) < give_up:
        if now >= again:
            # Repeated every second: a message between workers can get lost, and a duplicate has no effect.
            hooks.installed().cancel_call(call.pk, user.get_username())
            again = now + 1.0
        time.sleep(0.05)
        outcome = Call.objects.filter(pk=call.pk).values_list("outcome", flat=True).first()
        if outcome != outcomes.RUNNING:
            return "cancelled" if outcome == outcomes.CANCELLED else "ended"
    return "asked"
