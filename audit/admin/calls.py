"""Read-only admin pages of calls, and the URLs of the other pages of the audit log."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _

from audit import display, hooks, local_time, outcomes
from audit.actions import log
from audit.admin import call_page, saved_views, views
from audit.admin.actions import ActionAdmin
from audit.admin.base import ReadOnlyAdmin, choice_filter, column, label, text_filter, time_filter
from audit.admin.chain import CheckpointAdmin, VerificationAdmin
from audit.integrity import verifier
from audit.models import Call
from audit.queries import lookup
from audit.queries.search import NOT_OK, CallSearch, Page
from toolhub import invisible

__all__ = ["ActionAdmin", "CallAdmin", "CheckpointAdmin", "VerificationAdmin"]

METHODS = tuple((name, name) for name in ("tools/call", "resources/read", "prompts/get"))
TRANSPORTS = tuple((name, name) for name in ("http", "websocket", "stdio", "admin", "test"))
LABEL_TONES = {
    "ok": "success", "running": "info", "input_required": "info", "unknown": "danger", "tool_error": "danger",
    "timeout": "danger", "refused": "warning", "unknown_tool": "warning", "limited": "warning",
    "invalid_arguments": "warning", "cancelled": "warning",
}  # fmt: skip


@lru_cache(maxsize=500)
def badge(outcome: str, language: str | None) -> SafeString:
    """Return the label of an outcome; cached for each outcome and language."""
    return label(LABEL_TONES.get(outcome, ""), dict(outcomes.CHOICES).get(outcome, invisible.show(outcome)))


@admin.register(Call)
class CallAdmin(ReadOnlyAdmin):
    list_display = ("time", "user_name", "tool", "status", "client", "duration", "compare_checkbox")
    list_display_links = ("time",)
    list_filter = (
        choice_filter(
            gettext_lazy("status"), "outcome", (*outcomes.CHOICES, (NOT_OK, gettext_lazy("All except Success")))
        ),
        text_filter(gettext_lazy("user"), "user"),
        text_filter(gettext_lazy("tool"), "tool"),
        text_filter(gettext_lazy("client"), "client"),
        text_filter(gettext_lazy("credential"), "credential"),
        choice_filter(gettext_lazy("method"), "method", METHODS),
        choice_filter(gettext_lazy("transport"), "transport", TRANSPORTS),
        time_filter(gettext_lazy("started from"), "since"),
        time_filter(gettext_lazy("started before"), "until"),
    )
    search_fields = ("arguments",)
    search_help_text = gettext_lazy("Search arguments, tool, user, client, or paste an ID")
    list_before_template = "admin/audit/call/above.html"
    has_plain_columns = True
    empty_message = gettext_lazy("No calls yet. Every attempt by a client is logged here.")

    def page(self, request: HttpRequest, *, before: str, after: str) -> Page:
        return CallSearch.from_parameters(request.GET).page(before=before, after=after)

    def get_urls(self) -> list[URLPattern]:
        pages = (
            ("export/", views.export_calls, "audit_call_export"),
            ("compare/", views.compare, "audit_call_compare"),
            ("views/", saved_views.manage, "audit_call_views"),
            ("views/new/", saved_views.create, "audit_call_views_new"),
            ("views/<int:pk>/", saved_views.change, "audit_call_views_change"),
            ("views/<int:pk>/delete/", saved_views.delete, "audit_call_views_delete"),
            ("<uuid:pk>/copy/<slug:what>/", views.copy, "audit_call_copy"),
            ("<uuid:pk>/part/<int:number>/", views.part, "audit_call_part"),
        )
        own = [
            path(route, self.admin_site.admin_view(view), {"model_admin": self}, name=name)
            for route, view, name in pages
        ]
        urls: list[URLPattern] = super().get_urls()
        return [*own, *urls]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        wanted = CallSearch.from_parameters(request.GET).to_parameters()
        if set(request.GET) == {"q"} and (url := lookup.find_url(wanted.get("q", ""))):
            return redirect(url)
        address = reverse("admin:audit_call_export")
        context = {
            "chain": verifier.state(),
            "exports": [
                (label, f"{address}?{views.encode_query(wanted, format=kind)}")
                for kind, label in (("jsonl", "JSON Lines"), ("csv", "CSV"))
            ],
            "views": saved_views.list_views(request.user),
            "wanted": wanted,
        }
        response: HttpResponse = super().changelist_view(request, context | (extra_context or {}))
        return response

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        call = self.get_object(request, object_id)
        if call is None:
            return super().change_view(request, object_id, form_url, extra_context)  # shows a message and redirects
        if not self.has_view_permission(request, call):
            raise PermissionDenied
        log.record("viewed", "call", str(call.pk))
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": _("Call %(id)s") % {"id": call.pk},
            "call": call,
            "badge": badge(call.outcome, get_language()),
            "chain": verifier.state(),
            "test_link": self._test_link(request, call),
            **call_page.context(call, request.user),
        }
        return TemplateResponse(request, "admin/audit/call/detail.html", context | (extra_context or {}))

    def _test_link(self, request: HttpRequest, call: Call) -> str:
        """Return where this person can save the call as a test case; empty for none."""
        if call.target_id is None or not request.user.has_perm("catalog.add_tooltest"):
            return ""
        return hooks.catalogue().test_case_url(call.method, call.pk)

    @column(local_time.add_zone(gettext_lazy("Start")))
    def time(self, call: Call) -> str:
        return local_time.format_time(call.started_at)

    @column(gettext_lazy("User"))
    def user_name(self, call: Call) -> str:
        return invisible.show(call.username)

    @column(gettext_lazy("Tool"))
    def tool(self, call: Call) -> str:
        return invisible.show(call.name[:200])

    @column(gettext_lazy("Status"))
    def status(self, call: Call) -> str:
        return badge(call.outcome, get_language())

    @column(gettext_lazy("Client"))
    def client(self, call: Call) -> str:
        name = f"{call.client_name} {call.client_version}".strip() or call.credential
        return invisible.show(f"{name} ({call.transport})")

    @column(gettext_lazy("Duration"))
    def duration(self, call: Call) -> str:
        return display.format_duration(call.duration_us)

    @column(gettext_lazy("Compare"))
    def compare_checkbox(self, call: Call) -> str:
        # Part of the form above the list, which compares two calls.
        return format_html(
            '<input type="checkbox" class="record-pick" name="call" value="{}" form="compare" aria-label="{}">',
            call.pk,
            _("Select the call of %(moment)s to compare") % {"moment": local_time.format_time(call.started_at)},
        )
