"""Responses with logged data: always a file or a part of a page, never a page, whatever the data contains."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.utils.cache import get_conditional_response

from audit.models import Call
from audit.results import kept, sections

POLICY = "default-src 'none'; sandbox"


def attachment(data: bytes, content_type: str, name: str) -> HttpResponse:
    """Return a download that no browser interprets and no cache keeps."""
    response = HttpResponse(data, content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = POLICY
    response["Cache-Control"] = "no-store"
    return response


def body(found: kept.Kept, what: str, name: str) -> HttpResponse:
    """Return the file that `kept.downloads` names: JSON where it is all of it, and plain text where it is cut.

    Raises LookupError when this body has no such file.
    """
    if what not in {one.what for one in kept.downloads(found)}:
        raise LookupError(what)
    content_type, ending = "text/plain; charset=utf-8", "txt"
    if found.is_complete and found.text[:1] in {"{", "["}:
        content_type, ending = "application/json", "json"
    return attachment(found.text.encode("utf-8", "backslashreplace"), content_type, f"{name}-{what}.{ending}")


def part(request: HttpRequest, call: Call, number: int, on_read: Callable[[], None] = lambda: None) -> HttpResponse:
    """Return a picture or sound of a result for the page, by its detected media type; anything else as a file.

    The browser of this person keeps it and asks whether it is still right, which unpacks nothing. `on_read` is called
    before the bytes are sent. Raises LookupError when the call has no such part.
    """
    tag = f'"{call.result_sha256[:32]}-{number}"' if call.result_sha256 and not call.body_state else None
    if tag is not None and (answer := get_conditional_response(request, etag=tag)) is not None:
        answer["Cache-Control"] = "private, no-cache"
        return answer
    data, kind = sections.part_of(call, number)
    on_read()
    response = media(data, kind, f"call-{call.pk}-part-{number}")
    if kind and tag is not None:
        response["ETag"], response["Cache-Control"] = tag, "private, no-cache"
    return response


def media(data: bytes, kind: str, name: str) -> HttpResponse:
    """Return a picture or sound for the page, by its detected media type `kind`; anything else (empty) as a file."""
    response = attachment(data, kind or "application/octet-stream", name)
    response["Cross-Origin-Resource-Policy"] = "same-origin"
    if kind:
        del response["Content-Disposition"]
    return response
