"""The background jobs of all server processes: schedules, last runs and failures."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from django.views.decorators.http import require_safe

from toolhub import invisible
from toolhub.access.models import ServingProcess
from toolhub.pages.staff import page, staff_page
from toolhub.server import presence

TRANSLATED_NAMES = frozenset(
    {
        gettext_noop("Verify audit log"),
        gettext_noop("Apply retention"),
        gettext_noop("Update rollups"),
        gettext_noop("Update text index"),
        gettext_noop("Compare upstream servers"),
        gettext_noop("Announce approvals"),
        gettext_noop("End expired approvals"),
        gettext_noop("Remove expired tasks"),
        gettext_noop("Remove expired results"),
        gettext_noop("Remove past quotas"),
        gettext_noop("Remove expired connections of apps"),
        gettext_noop("Send mail"),
        gettext_noop("Return free memory"),
        gettext_noop("Remove expired sign-ins"),
        gettext_noop("Remove expired previews"),
        gettext_noop("Check sign-ins with identity providers"),
    }
)
"""The jobs with translated names; any other name is shown as it is."""


@staff_page("access.view_connections")
@require_safe
def jobs(request: HttpRequest) -> HttpResponse:
    """Show a read-only table, failed jobs first. Each process reports its jobs at least every 15 seconds."""
    processes = presence.processes()
    rows = [_present_job(process, row) for process in processes for row in presence.jobs(process)]
    rows.sort(key=lambda row: not row["error"])  # what failed is seen first, also on a telephone
    alone = rows[0] if len({(row["process"], row["host"]) for row in rows}) == 1 else None
    return page(request, "admin/pages/jobs.html", _("Background jobs"), rows=rows, alone=alone)


def _present_job(process: ServingProcess, row: presence.JobRow) -> dict[str, Any]:
    name = str(row["name"])
    return {
        "name": _(name) if name in TRANSLATED_NAMES else invisible.show(name),
        "process": _("process %(pid)s") % {"pid": process.pid},
        "host": process.host,
        "every": _duration(row["every"]),
        "running": row["running"],
        "started": _time(row["started"]),
        "duration": None if row["duration"] is None else _duration(row["duration"]),
        "error": invisible.show(row["error"]),
        "due": _time(row["due"]),
    }


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _duration(seconds: float) -> str:
    if seconds >= 60 and seconds % 60 == 0:
        return _("%(n)s min") % {"n": f"{seconds / 60:,.0f}"}
    precise = seconds < 10 and seconds != int(seconds)
    return _("%(n)s s") % {"n": f"{seconds:,.2f}" if precise else f"{seconds:,.0f}"}
