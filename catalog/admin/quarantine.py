"""Quarantine in the admin: the items that need review, their changes side by side, approval and rejection."""

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
from catalog.models.base import CatalogueItem
from catalog.runners import registry

LABELS = {
    "name": _("Name at its source"),
    "uri": _("Address at its source"),
    "uriTemplate": _("Address template at its source"),
    "title": _("Title"),
    "description": _("Description"),
    "inputSchema": _("Input schema"),
    "outputSchema": _("Output schema"),
    "annotations": _("Annotations"),
    "settings": _("Tool type settings"),
    "arguments": _("Arguments"),
    "mimeType": _("MIME type"),
    "text": _("Content"),
    "blob": _("Content in Base64"),
    "icons": _("Icons"),
    "ui": _("App"),
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


def _is_quarantined(item: CatalogueItem | None) -> bool:
    return item is not None and item.quarantined_since is not None


class QuarantineAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """A ModelAdmin with a page that reviews a changed definition."""

    def get_urls(self) -> list[URLPattern]:
        urls: list[URLPattern] = super().get_urls()
        review = self.admin_site.admin_view(self.review)
        return [path("<int:pk>/review/", review, name=f"catalog_{self.opts.model_name}_review"), *urls]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the read-only fields, with the text about quarantine only where there is one."""
        fields = super().get_readonly_fields(request, obj)
        return fields if _is_quarantined(obj) else [name for name in fields if name != "quarantine"]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        found = super().get_fieldsets(request, obj)
        if _is_quarantined(obj):
            return found
        return [
            (title, {**options, "fields": tuple(name for name in options["fields"] if name != "quarantine")})
            for title, options in found
        ]

    @admin.display(description=_("quarantine"))
    def quarantine(self, row: CatalogueItem) -> str:
        if row.quarantined_since is None:
            return gettext("no")
        address = reverse(f"admin:catalog_{self.opts.model_name}_review", args=[row.pk])
        since = gettext("Quarantined since %(time)s; hidden from all users until reviewed.") % {
            "time": local_time.format_time_with_zone(row.quarantined_since, "minutes")
        }
        return format_html('{} <a href="{}" class="underline">{}</a>', since, address, gettext("Review"))

    def review(self, request: HttpRequest, pk: int) -> HttpResponse:
        if not request.user.has_perm(quarantine.PERMISSION):
            raise PermissionDenied
        item = self.model._default_manager.filter(pk=pk).first()
        if item is None:
            raise Http404
        if request.method == "POST":
            self._decide(request, item)
            return redirect(f"admin:catalog_{self.opts.model_name}_review", pk)
        differs = quarantine.difference(item)
        proposed = (quarantine.proposal(item) or {}).get("settings")
        title = gettext("Review %s") % item
        context = {
            **self.admin_site.each_context(request),
            "title": title,
            "content_title": title,
            "item": item,
            "page": reverse(f"admin:catalog_{self.opts.model_name}_change", args=[pk]),
            "waiting": item.quarantined_since is not None and bool(item.proposed),
            "gone": item.proposed == "null",
            "seen": quarantine.fingerprint(item),
            "origin": quarantine.name_source(item),
            "rows": [(LABELS[name], before, after) for name, before, after in differs],
            "edited": [(LABELS[name], text) for name, text in quarantine.edited_members(item)] if item.approved else [],
            "sent": secret_flows.describe(registry.flows(item.runner, proposed)) if isinstance(item, Tool) else [],
            "hidden": [LABELS[name] for name, _, after in differs if "⟨" in after],
        }
        return TemplateResponse(request, "admin/catalog/review.html", context)

    def _decide(self, request: HttpRequest, item: CatalogueItem) -> None:
        by, reviewed = request.user.get_username(), request.POST.get("seen", "nothing")
        try:
            if request.POST.get("decision") == "approve":
                edited_by_hand = quarantine.approve(item, by, reviewed)
                text = gettext("%s is approved and available again.") if item.enabled else gettext("%s is approved.")
                messages.success(request, text % item)
                if edited_by_hand:
                    names = ", ".join(str(LABELS[name]).lower() for name in edited_by_hand)
                    messages.warning(request, gettext("Kept the manual edits in: %s.") % names)
            elif request.POST.get("decision") == "reject":
                quarantine.reject(item, by, reviewed)
                messages.success(request, gettext("The change to %s is rejected. It stays quarantined.") % item)
        except quarantine.StaleReview as stale:
            messages.error(request, str(stale))
        except ValidationError as error:
            messages.error(request, gettext("Cannot approve this: %s") % " ".join(error.messages))
