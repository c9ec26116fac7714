"""Quarantine in the admin: the tools that need review, their changes side by side, approval and rejection."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from audit import local_time
from catalog import quarantine
from catalog.models import Tool, secret_flows
from catalog.runners import registry

LABELS = {
    "name": _("Name at its source"),
    "title": _("Title"),
    "description": _("Description"),
    "inputSchema": _("Input schema"),
    "outputSchema": _("Output schema"),
    "annotations": _("Annotations"),
    "settings": _("Tool type settings"),
}


class QuarantineFilter(admin.SimpleListFilter):
    title = _("quarantine")
    parameter_name = "quarantine"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("yes", _("needs review")), ("rejected", _("rejected")), ("no", _("not quarantined"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        match self.value():
            case "yes":
                return queryset.filter(quarantined_since__isnull=False).exclude(proposed="")
            case "rejected":
                return queryset.filter(quarantined_since__isnull=False, proposed="")
            case "no":
                return queryset.filter(quarantined_since__isnull=True)
        return queryset


class QuarantineAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """A ModelAdmin with a page that reviews a changed definition."""

    def get_urls(self) -> list[URLPattern]:
        urls: list[URLPattern] = super().get_urls()
        review = self.admin_site.admin_view(self.review)
        return [path("<int:pk>/review/", review, name="catalog_tool_review"), *urls]

    @admin.display(description=_("quarantine"))
    def quarantine(self, row: Tool) -> str:
        if row.quarantined_since is None:
            return gettext("no")
        address = reverse("admin:catalog_tool_review", args=[row.pk])
        since = gettext("Quarantined since %(time)s; hidden from all users until reviewed.") % {
            "time": local_time.format_time_with_zone(row.quarantined_since, "minutes")
        }
        return format_html('{} <a href="{}" class="underline">{}</a>', since, address, gettext("Review"))

    def review(self, request: HttpRequest, pk: int) -> HttpResponse:
        if not request.user.has_perm(quarantine.PERMISSION):
            raise PermissionDenied
        tool = Tool.objects.filter(pk=pk).first()
        if tool is None:
            raise Http404
        if request.method == "POST":
            self._decide(request, tool)
            return redirect("admin:catalog_tool_review", pk)
        differs = quarantine.difference(tool)
        proposed = (quarantine.proposal(tool) or {}).get("settings")
        title = gettext("Review %s") % tool.name
        context = {
            **self.admin_site.each_context(request),
            "title": title,
            "content_title": title,
            "tool": tool,
            "waiting": tool.quarantined_since is not None and bool(tool.proposed),
            "gone": tool.proposed == "null",
            "seen": quarantine.fingerprint(tool),
            "origin": quarantine.name_source(tool),
            "rows": [(LABELS[name], before, after) for name, before, after in differs],
            "edited": [(LABELS[name], text) for name, text in quarantine.edited_members(tool)] if tool.approved else [],
            "sent": secret_flows.describe(registry.flows(tool.runner, proposed)),
            "hidden": [LABELS[name] for name, _, after in differs if "⟨" in after],
        }
        return TemplateResponse(request, "admin/catalog/review.html", context)

    def _decide(self, request: HttpRequest, tool: Tool) -> None:
        by, reviewed = request.user.get_username(), request.POST.get("seen", "nothing")
        try:
            if request.POST.get("decision") == "approve":
                edited_by_hand = quarantine.approve(tool, by, reviewed)
                text = gettext("%s is approved and available again.") if tool.enabled else gettext("%s is approved.")
                messages.success(request, text % tool.name)
                if edited_by_hand:
                    names = ", ".join(str(LABELS[name]).lower() for name in edited_by_hand)
                    messages.warning(request, gettext("Kept the manual edits in: %s.") % names)
            elif request.POST.get("decision") == "reject":
                quarantine.reject(tool, by, reviewed)
                messages.success(
                    request, gettext("The change to %s is rejected. The tool stays quarantined.") % tool.name
                )
        except quarantine.StaleReview as stale:
            messages.error(request, str(stale))
        except ValidationError as error:
            messages.error(request, gettext("Cannot approve this tool: %s") % " ".join(error.messages))
