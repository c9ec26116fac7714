"""The test of an upstream server on its page: its steps as lines of JSON while they happen."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from django.http import HttpRequest, StreamingHttpResponse
from django.utils.translation import get_language, gettext, override
from django.utils.translation import gettext_lazy as _

from audit import display
from catalog.models import Upstream
from catalog.runners.upstream_mcp.steps import Step
from catalog.upstreams.connection_test import ConnectionTest, End, StepEvent
from catalog.upstreams.listing import KINDS, Listing
from toolhub.invisible import show

STEPS: dict[Step, Any] = {
    "resolve": _("Find the address"),
    "connect": _("Connect"),
    "tls": _("Check the certificate"),
    "initialize": _("Initialize"),
    "tool": _("List tools"),
    "resource": _("List resources"),
    "prompt": _("List prompts"),
}


def describe_listing(upstream: Upstream, found: Listing) -> str:
    """Return what the server has, for the page."""
    return gettext(
        "Connected to %(name)s: protocol version %(revision)s, %(tools)d tools, %(resources)d "
        "resources, %(prompts)d prompts. %(server)s"
    ) % {
        "name": upstream.name,
        "revision": found.revision,
        **{f"{kind}s": len(found.items[kind]) for kind in KINDS},
        "server": show(found.server),
    }


def stream_test(request: HttpRequest, upstream: Upstream) -> StreamingHttpResponse:
    """Return the steps of a test as lines of JSON while it runs; a reader that leaves cancels it."""
    test = ConnectionTest(upstream, request.user.pk)
    language = get_language()

    async def lines() -> AsyncIterator[bytes]:
        async with aclosing(test.events()) as events:
            async for event in events:
                with override(language):
                    line = _describe_step(event) if isinstance(event, StepEvent) else _describe_end(upstream, event)
                yield json.dumps(line).encode() + b"\n"

    response = StreamingHttpResponse(lines(), content_type="application/x-ndjson")
    response["X-Accel-Buffering"] = "no"
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _describe_step(event: StepEvent) -> dict[str, Any]:
    name = str(STEPS[event.step])
    if event.microseconds is None:
        return {"step": event.step, "name": name}
    number = "" if event.number is None else f"{event.number:,}"
    return {
        "step": event.step,
        "name": name,
        "took": display.format_duration(event.microseconds),
        "number": number,
    }


def _describe_end(upstream: Upstream, end: End) -> dict[str, Any]:
    if end.found is not None:
        return {"end": "good", "text": describe_listing(upstream, end.found), "problems": dict(end.problems)}
    if end.problem:
        return {"end": "bad", "text": end.problem}
    if end.crashed:
        return {"end": "bad", "text": gettext("The test failed. The server log has the details.")}
    return {"end": "bad", "text": gettext("The test was cancelled.")}
