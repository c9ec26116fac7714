"""Tool health: the findings about all tools on one page."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from audit.bodies import whole
from catalog.models import Tool
from catalog.policy import loader
from toolhub.pages.health import finding_texts
from toolhub.pages.health.finding_texts import Section
from toolhub.pages.health.queries import MAX_CALLS, read_newest
from toolhub.pages.staff import page, staff_page

DAY_CHOICES = (1, 7, 30)


@staff_page("audit.view_call", "catalog.view_tool")
@require_safe
def health(request: HttpRequest) -> HttpResponse:
    wanted = request.GET.get("days", "")
    days = int(wanted) if wanted in {str(number) for number in DAY_CHOICES} else 7
    sample = read_newest(days)
    sections = [
        finding_texts.rejected_section(sample),
        finding_texts.invented_section(sample),
        finding_texts.trouble_section(sample),
        finding_texts.abandoned_section(sample),
        finding_texts.loop_section(sample),
        finding_texts.unused_section(),
    ]
    _link_tools(sections, request.user.has_perm("catalog.change_tool"))
    return page(
        request,
        "admin/pages/health.html",
        _("Tool health"),
        sections=sections,
        days=[(number, number == days) for number in DAY_CHOICES],
        sample=sample,
        number=len(sample.attempts),
        most=MAX_CALLS,
        whole_bodies=whole.measure(),
        whole_bodies_limit=settings.MAX_WHOLE_BODIES_BYTES,
    )


def _link_tools(sections: Iterable[Section], may_change: bool) -> None:
    """Link each finding to its tool, and to the editor with its change, unless the definition is another server's."""
    every = [finding for section in sections for finding in section.findings]
    names = {finding.tool for finding in every} | {finding.edit[0] for finding in every if finding.edit is not None}
    rows = {row.name: row for row in Tool.objects.filter(name__in=names).only("name", "runner")}
    for finding in every:
        if finding.tool in rows:
            finding.link = reverse("admin:catalog_tool_change", args=(rows[finding.tool].pk,))
        if finding.edit is None or not may_change:
            continue
        row = rows.get(finding.edit[0])
        if row is not None and row.runner != loader.UPSTREAM:
            address = reverse("admin:catalog_tool_change", args=(row.pk,))
            finding.edit_link = f"{address}?{urlencode({'advice': finding.edit[1].sign()})}"
