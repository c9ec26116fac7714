"""The admin's home page: an overview of the hub, and the next steps of a new installation.

The viewer's permissions decide the queries: a card whose list the viewer may not open is not computed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from audit import display, local_time, outcomes
from audit.admin.base import calls_url
from audit.integrity import verifier
from audit.queries import statistics
from audit.queries.statistics import Report, Slot
from catalog import quarantine
from catalog.access_requests import inbox
from catalog.calls import stored_results
from catalog.models import Prompt, Resource, Tool
from toolhub import invisible
from toolhub.pages import examples, home_charts, next_steps
from toolhub.pages.inbox import reported_calls, request_queue
from toolhub.server import presence

PERIODS = {
    "24h": gettext_lazy("24 hours"),
    "7d": gettext_lazy("7 days"),
    "30d": gettext_lazy("30 days"),
}


NEARLY_FULL = 0.9
"""Part of the space for stored results above which the overview shows it as a warning."""


@dataclass(slots=True)
class Number:
    """One number and the list behind it."""

    label: str
    value: str
    href: str
    note: str = ""
    tone: str = ""


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Return the context of templates/admin/index.html (UNFOLD["DASHBOARD_CALLBACK"])."""
    period = request.GET.get("period", "")
    period = period if period in PERIODS else "24h"
    may = request.user.has_perm
    context["title"] = _("Overview")
    context["checklist"] = next_steps.find(request)
    context["examples"] = examples.find_ungranted() if may("catalog.view_tool") and may("catalog.add_grant") else []
    context["demo"] = examples.DEMO
    context["numbers"] = list(_other_numbers(request))
    if may("audit.view_call"):
        report = statistics.report(period)
        context |= {
            "periods": [(key, words, key == period) for key, words in PERIODS.items()],
            "report": report,
            "counting": report.counted_until <= report.start,
            "numbers": [*_call_numbers(report, may("catalog.view_tool")), *context["numbers"]],
            "outcomes": _outcomes(report),
            "chart": home_charts.bars(report, period),
            "chart_options": home_charts.options(stacked=True),
            "durations": home_charts.line(report, period),
            "duration_options": home_charts.options(stacked=False),
            "rows": [_table_row(slot, period) for slot in reversed(report.slots)],
            "series": [str(label) for label, _members, _colour in home_charts.SERIES],
            "busiest": [_tools(report), _users(report)],
        }
    if may("audit.view_verification"):
        context["chain"] = verifier.state()
    return context


def calls_link(start: datetime, end: datetime | None = None, **filters: str) -> str:
    """Return the address of the list of calls that began in that period."""
    values = {**filters, "since": local_time.format_for_url(start)}
    if end is not None:
        values["until"] = local_time.format_for_url(end)
    return calls_url(**values)


def _call_numbers(report: Report, may_see_tools: bool) -> Iterable[Number]:
    found = report.outcomes
    yield Number(_("Calls"), f"{report.calls:,}", calls_link(report.start))
    slow = display.format_duration(None if report.p95 is None else int(report.p95))
    health = reverse("pages:health") if may_see_tools else calls_link(report.start)
    yield Number(_("p95 latency"), slow or "–", health)
    for label, outcome in ((_("Rate limited"), outcomes.LIMITED), (_("Denied"), outcomes.REFUSED)):
        number = found[outcome]
        yield Number(label, f"{number:,}", calls_link(report.start, outcome=outcome), tone="warning" if number else "")


def _other_numbers(request: HttpRequest) -> Iterable[Number]:
    may = request.user.has_perm
    kinds = [model for model in (Tool, Resource, Prompt) if may(f"catalog.view_{model._meta.model_name}")]
    if kinds:
        numbers = {model: model.objects.needing_review().count() for model in kinds}
        waiting = sum(numbers.values())
        first = next((model for model in kinds if numbers[model]), kinds[0])
        listed = f"{reverse(f'admin:catalog_{first._meta.model_name}_changelist')}?quarantine=yes"
        yield Number(
            _("Quarantined"),
            f"{waiting:,}",
            reverse("pages:review") if may(quarantine.PERMISSION) else listed,
            _("needs review") if waiting else "",
            "warning" if waiting else "",
        )
    for permission, label, address, rows in (
        (request_queue.VIEW, _("Access requests"), "pages:requests", inbox.open_requests()),
        (reported_calls.VIEW, _("Reported calls"), "pages:reports", inbox.open_reports()),
    ):
        if may(permission) and (number := rows.count()):
            yield Number(label, f"{number:,}", reverse(address), _("waiting for an answer"), "warning")
    if may("catalog.view_storedresult"):
        used, limit = stored_results.count_used_bytes(), settings.STORED_RESULTS_BYTES
        yield Number(
            _("Stored results"),
            _("%(number)s MB") % {"number": f"{used / 1_000_000:,.0f}"},
            reverse("admin:catalog_storedresult_changelist"),
            _("of %(number)s MB") % {"number": f"{limit / 1_000_000:,.0f}"},
            "warning" if used > NEARLY_FULL * limit else "",
        )
    if may("access.view_connections"):
        found = presence.processes()
        number = len(presence.connected(found)) + sum(process.left_out for process in found)
        where = ngettext("on %(number)s process", "on %(number)s processes", len(found)) % {"number": len(found)}
        yield Number(_("Connected clients"), f"{number:,}", reverse("pages:sessions"), where if found else "")


def _outcomes(report: Report) -> list[tuple[str, str, str]]:
    """Return (outcome, count, list address) of those that occurred, the most frequent first."""
    words = dict(outcomes.CHOICES)
    return [
        (str(words.get(outcome, outcome)), f"{number:,}", calls_link(report.start, outcome=outcome))
        for outcome, number in report.outcomes.most_common()
    ]


def _table_row(slot: Slot, period: str) -> dict[str, Any]:
    """Return the chart's numbers as a table row, for screen readers."""
    return {
        "label": local_time.format_time(slot.start, "minutes"),
        "href": calls_link(slot.start, slot.end),
        "numbers": home_charts.group_outcomes(slot.outcomes),
        "p95": display.format_duration(None if slot.p95 is None else int(slot.p95)) or "–",
    }


def _tools(report: Report) -> dict[str, Any]:
    rows = [
        (invisible.show(name[:80]), f"{number:,}", calls_link(report.start, tool=name), f"{bad:,}" if bad else "",
         calls_link(report.start, tool=name, outcome="not_ok"))
        for name, number, bad in report.tools
    ]  # fmt: skip
    return {"title": _("Most called tools"), "column": _("tool"), "rows": rows, "empty": _("No tool was called.")}


def _users(report: Report) -> dict[str, Any]:
    names = get_user_model()._default_manager.in_bulk([key for key, _calls, _bad in report.users])
    rows = []
    for key, number, bad in report.users:
        user = names.get(key)
        name = user.get_username() if user is not None else ""
        # A deleted account no longer has a name to filter by.
        rows.append(
            (
                invisible.show(name) or _("deleted account %(key)s") % {"key": key},
                f"{number:,}",
                calls_link(report.start, user=name) if name else "",
                f"{bad:,}" if bad else "",
                calls_link(report.start, user=name, outcome="not_ok") if name else "",
            )
        )
    return {"title": _("Busiest users"), "column": _("user"), "rows": rows, "empty": _("No user made a call.")}
