"""`/calls/`: what the signed-in person's clients attempted. Somebody else's call is as absent as one that never was."""

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
from audit.models import Call
from audit.queries import search
from toolhub import invisible
from toolhub.access import hooks

TONES = {
    outcomes.OK: "good",
    outcomes.RUNNING: "",
    outcomes.INPUT_REQUIRED: "",
    outcomes.CANCELLED: "",
    outcomes.LIMITED: "warn",
    outcomes.UNKNOWN: "warn",
}
"""How an outcome looks; what is not here went wrong."""
WORDS = dict(outcomes.CHOICES)
# To its owner "not granted" reads as "no such tool": the difference would tell which tools exist.
SHOWN_AS = {outcomes.REFUSED: outcomes.UNKNOWN_TOOL}
SAID = {
    "cancelled": _("The call was cancelled."),
    "ended": _("The call had already ended."),
    "asked": _("Cancellation requested"),
}
"""What became of a wish to cancel, in words."""
CANCEL_SECONDS = settings.RECORD_SECONDS
"""How long a page waits for the end of a call: as long as the record may take to hold it."""
FILTERS = ("q", "tool", "outcome", "client", "since", "until")
CHOICES = [(value, label) for value, label in outcomes.CHOICES if value not in SHOWN_AS]


def _shown(call: Call) -> dict[str, Any]:
    """A call as its owner reads it. What came from clients and tools is text, with what cannot be seen spelled out."""
    outcome = SHOWN_AS.get(call.outcome, call.outcome)
    hidden = outcome == outcomes.UNKNOWN_TOOL
    return {
        "row": call,
        "name": invisible.show(call.name[:500]),
        "client": invisible.show(f"{call.client_name} {call.client_version}".strip()),
        "credential": invisible.show(call.credential),
        "transport": invisible.show(call.transport),
        "revision": invisible.show(call.revision),
        "address": invisible.show(str(call.address or "")),
        "word": WORDS.get(outcome, outcome),
        "tone": TONES.get(outcome, "bad"),
        "took": display.duration(call.duration_us),
        "detail": "" if hidden else invisible.show(audit_hooks.sentence(call.detail_reason, call.detail)),
    }


@login_required
@never_cache
@require_safe
def calls(request: HttpRequest) -> HttpResponse:
    """The list. A call's id in the search box leads to that call; `X-Part: calls` asks for the list alone."""
    user = cast(User, request.user)
    filters = {name: request.GET.get(name, "").strip()[:200] for name in FILTERS}
    if (call_id := _as_id(filters["q"])) and search.one_for_user(user.pk, call_id) is not None:
        return redirect("access:call", pk=call_id)
    asked = {**filters, "since": _moment(filters["since"]), "until": _moment(filters["until"], end=True)}
    cursor = request.GET.get("cursor", "")
    try:
        page = search.page_for_user(user.pk, asked, cursor)
    except ValueError:
        raise Http404 from None
    kept = {name: value for name, value in filters.items() if value}
    context = {
        "section": "calls",
        "filters": filters,
        "filtered": bool(kept),
        "newest": not cursor,
        "choices": CHOICES,
        "calls": [_shown(call) for call in page.rows],
        "looked_through": page.looked_through,
        "older": urlencode({**kept, "cursor": page.older}) if page.older else "",
        "newer": urlencode({**kept, "cursor": page.newer}) if page.newer else "",
    }
    part = request.headers.get("X-Part") == "calls"
    return render(request, "access/calls_list.html" if part else "access/calls.html", context)


def _as_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _moment(text: str, *, end: bool = False) -> str:
    """What was entered on the reader's clock, as the record understands it; what is no time filters nothing.

    With `end` a bare date counts to its last moment.
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
    found = search.one_for_user(cast(User, request.user).pk, pk)
    if found is None:
        raise Http404
    context = {
        "section": "calls",
        "call": _shown(found),
        "arguments": display.shown(found.arguments),
        "result": display.shown(found.result),
    }
    return render(request, "access/call.html", context)


@login_required
@never_cache
@require_POST
def cancel(request: HttpRequest, pk: UUID) -> HttpResponse:
    """End a running call: one's own, or with the permission for it anybody's. On record with who did it.

    Answers with JSON, {"state": "cancelled" | "ended" | "asked"}, where that is what is accepted: it had ended before,
    or it has not ended yet although it was told to.
    """
    user = cast(User, request.user)
    found = Call.objects.only("id", "user_id", "username", "name", "outcome").filter(pk=pk).first()
    if found is None or not (found.user_id == user.pk or (user.is_staff and user.has_perm("audit.cancel_call"))):
        raise Http404
    state = "ended" if found.outcome != outcomes.RUNNING else _end(found, user)
    if request.accepts("text/html"):
        level = messages.SUCCESS if state == "cancelled" else messages.WARNING
        messages.add_message(request, level, SAID[state])
        back = request.POST.get("next", "")
        if not url_has_allowed_host_and_scheme(back, {request.get_host()}, require_https=request.is_secure()):
            back = reverse("access:call", args=[pk]) if found.user_id == user.pk else reverse("access:calls")
        return redirect(back)
    return JsonResponse({"state": state, "text": str(SAID[state])})


def _end(call: Call, user: User) -> str:
    """Tell the workers, and wait a moment for what the record says then."""
    name = user.get_username()
    reason = f"cancelled by {name} in the browser"
    log.record("cancelled", "call", f"{call.name} ({call.pk})", None, {"user": call.username})
    again = 0.0
    give_up = time.monotonic() + CANCEL_SECONDS
    while (now := time.monotonic()) < give_up:
        if now >= again:
            # More than once: news between workers can get lost, and is harmless when it comes twice.
            hooks.neighbours().cancel_call(call.pk, reason)
            again = now + 1.0
        time.sleep(0.05)
        outcome = Call.objects.filter(pk=call.pk).values_list("outcome", flat=True).first()
        if outcome != outcomes.RUNNING:
            return "cancelled" if outcome == outcomes.CANCELLED else "ended"
    return "asked"
