"""Views of the audit log's admin pages besides lists: export, compare, copy, verify now."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from asgiref.sync import sync_to_async
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBadRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from audit.actions import actor, log
from audit.admin.base import row_url
from audit.export import copy as copies
from audit.export import files, rows
from audit.format import timestamps, uuid7
from audit.integrity import verifier
from audit.models import Action, Call
from audit.queries import comparison
from audit.queries.search import CallSearch
from audit.results import kept
from toolhub import invisible

Copy = Callable[[Call], str]
COPIES: dict[str, tuple[str, str, Copy]] = {
    "json": ("application/json", "json", copies.as_json),
    "curl": ("text/plain; charset=utf-8", "sh", copies.as_curl),
}
"""Formats in which a call can be copied: content type, file extension, function that makes the text."""

PARTS_LOGGED = timedelta(hours=1)
"""Time for which one entry in admin activity covers the pictures, sounds and files of one call that a person sees."""


def encode_query(values: Mapping[str, str], **more: str) -> str:
    return urlencode({**values, **more})


@require_safe
def export_calls(request: HttpRequest, model_admin: Any) -> HttpResponseBase:
    """Return the filtered list as a download."""
    if not model_admin.has_view_permission(request):
        raise PermissionDenied
    kind = request.GET.get("format", "jsonl")
    if kind not in rows.FORMATS:
        return HttpResponseBadRequest(f"format must be one of {', '.join(rows.FORMATS)}", content_type="text/plain")
    search = CallSearch.from_parameters(request.GET)
    rows.log_export(search, kind, "download")
    name = f"calls-{timezone.now():%Y%m%d-%H%M%S}.{kind}"
    return download(request, rows.chunks(search, kind), rows.FORMATS[kind], name)


def download(request: HttpRequest, body: Iterator[bytes], content_type: str, name: str) -> StreamingHttpResponse:
    """Return the chunks as a file with this name, which browsers neither show nor keep."""
    # Under ASGI a plain iterator would be read to its end before the first byte is sent.
    content = _iterate_in_thread(body) if isinstance(request, ASGIRequest) else body
    response = StreamingHttpResponse(content, content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["X-Content-Type-Options"] = "nosniff"
    response["Cache-Control"] = "no-store"
    return response


async def _iterate_in_thread(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    following = sync_to_async(lambda: next(chunks, None))
    while (chunk := await following()) is not None:
        yield chunk


@require_safe
def copy(request: HttpRequest, pk: UUID, what: str, model_admin: Any) -> HttpResponse:
    """Return a call, or one body of it, always as a file and never as a page, whatever it contains."""
    call = _require_call(request, pk, model_admin)
    try:
        response = _make_copy(call, what)
    except (LookupError, ValueError) as error:
        raise Http404 from error
    log.record("copied", "call", str(call.pk), None, {"what": what})
    return response


def _make_copy(call: Call, what: str) -> HttpResponse:
    if what == kept.ARGUMENTS:
        return files.body(kept.read_arguments(call), what, f"call-{call.pk}")
    if what not in COPIES:
        return files.body(kept.read_result(call), what, f"call-{call.pk}")
    content_type, ending, make = COPIES[what]
    content = make(call).encode("utf-8", "backslashreplace")
    return files.attachment(content, content_type, f"call-{call.pk}-{what}.{ending}")


@require_safe
def part(request: HttpRequest, pk: UUID, number: int, model_admin: Any) -> HttpResponse:
    """Serve a picture, sound or file of a result; only verified bytes get the media type of a picture or sound."""
    call = _require_call(request, pk, model_admin)
    try:
        return files.part(request, call, number, lambda: _log_parts(call))
    except LookupError:
        raise Http404 from None


def _log_parts(call: Call) -> None:
    """Log that somebody sees the parts of a result: once, not for each picture of the page."""
    since = uuid7.first_id_of(timestamps.to_ms(timezone.now() - PARTS_LOGGED))
    same = Action.objects.filter(kind="call", target=str(call.pk), id__gte=since)
    if not same.filter(verb="copied", actor=actor.current().name[:200], after__contains='"parts"').exists():
        log.record("copied", "call", str(call.pk), None, {"what": "parts"})


def _require_call(request: HttpRequest, pk: UUID, model_admin: Any) -> Call:
    if not model_admin.has_view_permission(request):
        raise PermissionDenied
    call = Call.objects.filter(pk=pk).first()
    if call is None:
        raise Http404
    return call


@require_safe
def compare(request: HttpRequest, model_admin: Any) -> HttpResponse:
    """Show the difference of two calls: `?call=..&call=..`, or `?call=..&with=previous`.

    Any other query redirects to the list or the call with a message.
    """
    if not model_admin.has_view_permission(request):
        raise PermissionDenied
    keys = request.GET.getlist("call")[:10]
    if request.GET.get("with") == "previous":
        here = _find_call(keys[0]) if keys else None
        before = comparison.find_previous(here) if here is not None else None
        if here is not None and before is None:
            messages.info(request, _("No earlier call with this name by this user was found."))
            return redirect(row_url(here))
        pair = (before, here) if here is not None and before is not None else None
    else:
        pair = comparison.find_pair(keys)
    if pair is None:
        messages.info(request, _("Select two calls in the list, then choose Compare selected."))
        return redirect("admin:audit_call_changelist")
    for call in pair:
        log.record("viewed", "call", str(call.pk))
    found = comparison.compare_calls(*pair)
    context = {
        **admin.site.each_context(request),
        "opts": model_admin.opts,
        "title": _("Difference between two calls"),
        "found": found,
        "name": invisible.show(found.second.name[:200]),
        "sides": [(call, row_url(call)) for call in pair],
        "parts": [
            ("arguments", _("Arguments"), found.arguments),
            ("result", _("Result"), found.result),
            ("definition", _("Definition"), found.definition),
        ],
    }
    return TemplateResponse(request, "admin/audit/call/compare.html", context)


def _find_call(key: str) -> Call | None:
    try:
        return Call.objects.filter(pk=UUID(key)).first()
    except ValueError:
        return None


@require_POST
def verify_now(request: HttpRequest, model_admin: Any) -> HttpResponse:
    """Start a verification of the whole audit log in the background; the list shows its result."""
    if not model_admin.has_view_permission(request):
        raise PermissionDenied
    if verifier.start():
        log.record("checked", "record", "the whole audit log")
        messages.success(request, _("Verification started. Reload this page to see the result."))
    else:
        messages.info(request, _("A verification is already running. Reload this page to see the result."))
    return redirect("admin:audit_verification_changelist")
