"""The replay on the form of a rule: the calls of the log that would have another answer if the form were saved."""

from __future__ import annotations

import contextvars
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from typing import Any, Final

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponseBase, HttpResponseNotAllowed, StreamingHttpResponse
from django.template.loader import render_to_string
from django.urls import URLPattern, path, reverse
from django.utils.translation import get_language, gettext, ngettext, override

from audit import outcomes
from audit.admin_filters import is_key
from catalog.admin.history import HistoryAdmin
from catalog.models import Limit
from catalog.policy import answer_texts, snapshot
from catalog.replay import background, walk
from catalog.replay.edited_rules import find_change
from catalog.replay.report import ChangedCall, Progress, Report, Row, Viewer
from catalog.threads import Busy, ShareBusy
from toolhub.invisible import show

DAYS: Final = (1, 7, 30, 90)
DEFAULT_DAYS: Final = 7
MAX_PROBLEMS: Final = 20
FIRST_CALLS: Final = 3
"""Calls of a row that are shown at once; the others unfold."""
STATUS_LABELS: Final = dict(outcomes.CHOICES)
log = logging.getLogger(__name__)


class ReplayAdmin(HistoryAdmin):
    """Pages with a form of a rule that can be replayed before it is saved."""

    change_form_outer_after_template = "admin/catalog/replay.html"

    def get_urls(self) -> list[URLPattern]:
        name = f"catalog_{self.opts.model_name}_replay"
        return [path("replay/", self.admin_site.admin_view(self.replay), name=name), *super().get_urls()]

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, obj: Any = None, **kwargs: Any) -> Any:
        if self._may_save(request, obj) and not context.get("is_popup"):
            address = reverse(f"admin:catalog_{self.opts.model_name}_replay")
            context["replay"] = {
                "address": address if obj is None else f"{address}?row={obj.pk}",
                "form": f"{self.opts.model_name}_form",
                "days": [(days, days == DEFAULT_DAYS) for days in DAYS],
            }
        return super().render_change_form(request, context, *args, obj=obj, **kwargs)

    def replay(self, request: HttpRequest) -> HttpResponseBase:
        """Return the progress and the report of a replay as lines of JSON: {"done", "total", "text"}, then {"end"}.

        The form is sent as for saving, of a stored rule with its number as `row`; nothing is saved. `days` is one of
        DAYS.
        """
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        key = request.GET.get("row", "")
        if not (self.has_change_permission(request) if key else self.has_add_permission(request)):
            raise PermissionDenied
        row = self.get_queryset(request).filter(pk=int(key)).first() if is_key(key) else None
        if key and row is None:
            raise Http404
        form = self.get_form(request, row, change=row is not None)(request.POST, request.FILES, instance=row)
        days = request.POST.get("days", "")
        if days not in map(str, DAYS):
            return _answer(_fail(gettext("Choose a period: 1, 7, 30 or 90 days.")))
        if not form.is_valid():
            return _answer(_fail(gettext("Fix the form, then replay it again."), _list_problems(form)))
        if isinstance(form.instance, Limit) and form.instance.method:
            return _answer(_fail(gettext("The audit log has no requests of this method, so nothing can be replayed.")))
        return _answer(_stream(request, form.instance, int(days)))

    def _may_save(self, request: HttpRequest, row: Any) -> bool:
        return bool(self.has_add_permission(request) if row is None else self.has_change_permission(request, row))


def _list_problems(form: Any) -> list[str]:
    """Return the errors of a form as lines, each with the label of its field."""
    found = []
    for name, errors in form.errors.items():
        label = form.fields[name].label if name in form.fields else ""
        found += [f"{label}: {error}" if label else str(error) for error in errors]
    return found[:MAX_PROBLEMS]


def _answer(lines: AsyncIterator[bytes]) -> StreamingHttpResponse:
    response = StreamingHttpResponse(lines, content_type="application/x-ndjson")
    response["Cache-Control"] = "no-store"
    response["X-Accel-Buffering"] = "no"
    response["X-Content-Type-Options"] = "nosniff"
    return response


async def _fail(text: str, problems: list[str] | None = None) -> AsyncIterator[bytes]:
    yield _encode({"end": "bad", "text": text, "problems": problems or []})


def _encode(line: dict[str, Any]) -> bytes:
    return json.dumps(line).encode() + b"\n"


def _stream(request: HttpRequest, row: Any, days: int) -> AsyncIterator[bytes]:
    """Yield the lines of a replay that runs in a thread; a reader that leaves cancels it."""
    catalogue, language = snapshot.latest(), get_language()
    change = find_change(row, catalogue)
    user_id = request.user.pk
    viewer = Viewer(user_id, request.user.has_perm("audit.view_call"))
    context = contextvars.copy_context()

    def steps(is_cancelled: Callable[[], bool]) -> Iterator[bytes]:
        found = walk.replay(catalogue, catalogue, change, days, viewer, pause=walk.Rest(), is_cancelled=is_cancelled)
        with override(language):
            for step in found:
                yield _encode(_describe_progress(step) if isinstance(step, Progress) else describe_report(step, viewer))

    async def lines() -> AsyncIterator[bytes]:
        try:
            async with aclosing(background.run(steps, user_id, context)) as found:
                async for line in found:
                    yield line
        except Busy as busy:
            with override(language):
                text = (
                    gettext("Your last replay still runs. Try again when it has ended.")
                    if isinstance(busy, ShareBusy)
                    else gettext("Other people run replays now. Try again in a minute.")
                )
            yield _encode({"end": "bad", "text": text, "problems": []})
        except Exception:  # the page says so, and the log has the reason
            log.exception("a replay failed")
            with override(language):
                text = gettext("The replay failed. The server log has the details.")
            yield _encode({"end": "bad", "text": text, "problems": []})

    return lines()


def _describe_progress(step: Progress) -> dict[str, Any]:
    text = gettext("%(done)s of %(total)s calls") % {"done": f"{step.done:,}", "total": f"{step.total:,}"}
    return {"done": step.done, "total": step.total, "text": text}


def describe_report(report: Report, viewer: Viewer) -> dict[str, Any]:
    """Return the last line of a replay: a sentence for its end, and the report as HTML."""
    number = report.changed_calls
    text = ngettext(
        "%(number)s of %(looked_at)s calls of the last %(days)s days would have another answer.",
        "%(number)s of %(looked_at)s calls of the last %(days)s days would have another answer.",
        number,
    )
    if report.days == 1:
        text = ngettext(
            "%(number)s of %(looked_at)s calls of the last day would have another answer.",
            "%(number)s of %(looked_at)s calls of the last day would have another answer.",
            number,
        )
    values = {"number": f"{number:,}", "looked_at": f"{report.looked_at:,}", "days": report.days}
    context = {
        "report": report,
        "changes": answer_texts.describe_changes((one.before, one.after, one.calls) for one in report.changed),
        "rows": [_describe_row(row, viewer) for row in report.rows],
    }
    html = render_to_string("admin/catalog/replay_report.html", context)
    return {"end": "good", "text": text % values, "html": html}


def _describe_row(row: Row, viewer: Viewer) -> dict[str, Any]:
    calls = [_describe_call(call, viewer) for call in row.named]
    return {
        "person": show(row.username),
        "item": answer_texts.name_item(row.kind, show(row.name)),
        "calls": row.calls,
        "changes": answer_texts.describe_changes((one.before, one.after, one.calls) for one in row.changes),
        "first": calls[:FIRST_CALLS],
        "others": calls[FIRST_CALLS:],
        "more": row.more,
    }


def _describe_call(call: ChangedCall, viewer: Viewer) -> dict[str, Any]:
    page = "admin:audit_call_change" if viewer.may_read_all else "access:call"
    return {
        "at": call.at,
        "address": reverse(page, args=[call.id]),
        "change": answer_texts.describe_change(call.before, call.after),
        "status": str(STATUS_LABELS.get(call.status, call.status)),
    }
