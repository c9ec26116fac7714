"""Read-only admin pages of calls, and the URLs of the other pages of the audit log."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models.functions import Substr
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from audit import display, hooks, local_time, outcomes
from audit.actions import log
from audit.admin import call_page, case_file, live, saved_views, views
from audit.admin.actions import ActionAdmin
from audit.admin.base import COLUMN, LIVE, ReadOnlyAdmin, choice_filter, column, label, lines, name_filter, time_filter
from audit.admin.chain import CheckpointAdmin, VerificationAdmin
from audit.format.chain import PRUNED_PREFIX
from audit.integrity import verifier
from audit.models import Call
from audit.queries import lookup, periods, text_index
from audit.queries.search import PAGE_ROWS, CallSearch, Page, time_of
from toolhub import invisible

__all__ = ["ActionAdmin", "CallAdmin", "CheckpointAdmin", "VerificationAdmin"]

METHODS = tuple((name, name) for name in ("tools/call", "resources/read", "prompts/get"))
TRANSPORTS = tuple((name, name) for name in ("http", "websocket", "stdio", "admin", "test"))
FIXED_COLUMNS = ("time", "user_name", "tool", "status")
OPTIONAL_COLUMNS = {
    "client": gettext_lazy("Client"),
    "credential_name": gettext_lazy("Credential"),
    "address": gettext_lazy("Address"),
    "method": gettext_lazy("Method"),
    "rule_text": gettext_lazy("Rule"),
    "detail_text": gettext_lazy("Detail"),
    "arguments_start": gettext_lazy("Arguments"),
    "result_start": gettext_lazy("Result"),
    "duration": gettext_lazy("Duration"),
}
USUAL_COLUMNS = frozenset({"client", "rule_text", "arguments_start", "duration"})
MAX_SHOWN_CHARACTERS = 120
"""Maximum characters of a rule, a detail, arguments or a result in the list."""
MAX_READ_CHARACTERS = 6 * MAX_SHOWN_CHARACTERS
"""Characters of a stored text that are read for them: each may be written with six."""
MAX_COUNTED_CLIENTS = 200
"""Maximum names of clients in one step of a count. Clients name themselves: one can invent a name for each call."""
LABEL_TONES = {
    "ok": "success", "running": "info", "input_required": "info", "unknown": "danger", "tool_error": "danger",
    "timeout": "danger", "refused": "warning", "unknown_tool": "warning", "limited": "warning",
    "invalid_arguments": "warning", "cancelled": "warning", "waiting": "info", "approval_denied": "warning",
    "approval_expired": "warning",
}  # fmt: skip


@lru_cache(maxsize=500)
def badge(outcome: str, language: str | None) -> SafeString:
    """Return the label of an outcome; cached for each outcome and language."""
    return label(LABEL_TONES.get(outcome, ""), dict(outcomes.CHOICES).get(outcome, invisible.show(outcome)))


def _shorten(text: str, style: str = "") -> SafeString:
    """Return the start of a text, with an ellipsis where it goes on."""
    short = text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[: MAX_SHOWN_CHARACTERS - 1]}…"
    return format_html('<span class="record-clip{}">{}</span>', style, invisible.show(short.replace("\n", " ")))


def _preview(text: str) -> str:
    """Return the start of logged JSON in one line; empty for a body that was removed."""
    if text.startswith(PRUNED_PREFIX):
        return ""
    return _shorten(text_index.decode_characters(text), " record-preview")


def _name_clients(counts: Counter[str]) -> dict[str, int] | None:
    """Return displayed name -> calls; None where the names are too many."""
    if len(counts) > MAX_COUNTED_CLIENTS:
        return None
    shown: Counter[str] = Counter()
    for name, calls in counts.items():
        shown[invisible.show(name[:200]) or _("(not given)")] += calls
    return dict(shown)


@admin.register(Call)
class CallAdmin(ReadOnlyAdmin):
    list_display = FIXED_COLUMNS
    list_display_links = ("time",)
    list_filter = (
        choice_filter(gettext_lazy("status"), "outcome", saved_views.OUTCOMES),
        name_filter(gettext_lazy("user"), "user"),
        name_filter(gettext_lazy("tool"), "tool"),
        name_filter(gettext_lazy("client"), "client"),
        name_filter(gettext_lazy("credential"), "credential"),
        choice_filter(gettext_lazy("method"), "method", METHODS),
        choice_filter(gettext_lazy("transport"), "transport", TRANSPORTS),
        choice_filter(gettext_lazy("period"), "period", periods.CHOICES),
        time_filter(gettext_lazy("started from"), "since"),
        time_filter(gettext_lazy("started before"), "until"),
    )
    search_fields = ("arguments",)
    search_help_text = gettext_lazy("Search arguments, results, tool, user, client, or paste an ID")
    list_before_template = "admin/audit/call/above.html"
    has_plain_columns = True
    empty_message = gettext_lazy("No calls yet. Every attempt by a client is logged here.")

    def page(self, request: HttpRequest, *, before: str, after: str) -> Page:
        return self._page(request, before=before, after=after)

    def _page(self, request: HttpRequest, **options: Any) -> Page:
        starts: dict[str, Any] = {}
        if "arguments_start" in self.get_list_display(request):
            starts["arguments_text"] = Substr("arguments", 1, MAX_READ_CHARACTERS)
        if "result_start" in self.get_list_display(request):
            starts["result_text"] = Substr("result", 1, MAX_READ_CHARACTERS)
        return CallSearch.from_parameters(request.GET).page(**options, **starts)

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        chosen = set(request.GET.getlist(COLUMN)) & OPTIONAL_COLUMNS.keys() or USUAL_COLUMNS
        return (*FIXED_COLUMNS, *(name for name in OPTIONAL_COLUMNS if name in chosen), "compare_checkbox")

    @method_decorator(require_safe)
    def search_view(self, request: HttpRequest, model_admin: Any) -> HttpResponse:
        """Continue a search by one bounded step: more rows of a page (`rows`), or a count without it.

        The count is by status, and by client unless there are too many names.

        `before` is the cursor of the step before. The answer has the next one in `older`, which is empty at the end. A
        live list reads its newest rows here, too. No step is logged, as the list itself is not: each view of a call is.
        """
        if not self.has_view_permission(request):
            raise PermissionDenied
        before, wanted = request.GET.get("before", ""), request.GET.get("rows", "")
        try:
            if not wanted:
                part = CallSearch.from_parameters(request.GET).count(before)
                back_to = time_of(UUID(part.older)) if part.older else None
                found = part.statuses.total()
                clients = _name_clients(part.clients)
                return self._answer(part.older, back_to, counts=part.statuses, clients=clients, found=found)
            size = min(max(int(wanted), 1), PAGE_ROWS)
            known_until = live.known_until()
            page = self._page(request, before=before, size=size)
        except ValueError:
            return JsonResponse({"error": "invalid cursor or number of rows"}, status=400)
        shown = lines(self, self.get_list_display(request), page.rows)
        rows = render_to_string("admin/audit/rows.html", {"lines": shown}, request)
        ended = live.has_ended(CallSearch.from_parameters(request.GET))
        values = {"rows": rows, "found": len(page.rows), "ended": ended, "known_until": known_until}
        return self._answer(page.older, page.stopped_at, **values)

    def _answer(self, older: str, back_to: datetime | None, **values: Any) -> JsonResponse:
        text = local_time.format_time_with_zone(back_to) if back_to is not None else ""
        response = JsonResponse({"older": older, "back_to": text, **values})
        response["Cache-Control"] = "no-store"
        return response

    def get_urls(self) -> list[URLPattern]:
        pages = (
            ("export/", views.export_calls, "audit_call_export"),
            ("case-file/", case_file.make, "audit_call_case_file"),
            ("search/", self.search_view, "audit_call_search"),
            ("compare/", views.compare, "audit_call_compare"),
            ("views/", saved_views.manage, "audit_call_views"),
            ("views/new/", saved_views.create, "audit_call_views_new"),
            ("views/<int:pk>/", saved_views.change, "audit_call_views_change"),
            ("views/<int:pk>/delete/", saved_views.delete, "audit_call_views_delete"),
            ("<uuid:pk>/copy/<slug:what>/", views.copy, "audit_call_copy"),
        )
        # Browsers keep pictures, and ask each time.
        part = self.admin_site.admin_view(views.part, cacheable=True)
        own = [
            path(route, self.admin_site.admin_view(view), {"model_admin": self}, name=name)
            for route, view, name in pages
        ]
        own.append(path("<uuid:pk>/part/<int:number>/", part, {"model_admin": self}, name="audit_call_part"))
        urls: list[URLPattern] = super().get_urls()
        return [*own, *urls]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        search = CallSearch.from_parameters(request.GET)
        wanted = search.to_parameters()
        if request.GET.keys() - {LIVE} == {"q"} and (url := lookup.find_url(wanted.get("q", ""))):
            return redirect(url)
        address = reverse("admin:audit_call_export")
        columns = [(COLUMN, name) for name in request.GET.getlist(COLUMN) if name in OPTIONAL_COLUMNS]
        shown = self.get_list_display(request)
        context = {
            "chain": verifier.state(),
            "exports": [
                (label, f"{address}?{views.encode_query(wanted, format=kind)}")
                for kind, label in (("jsonl", "JSON Lines"), ("csv", "CSV"))
            ],
            "case_file": f"{reverse('admin:audit_call_case_file')}?{views.encode_query(wanted)}"
            if request.user.has_perm(case_file.PERMISSION)
            else "",
            "views": saved_views.list_views(request.user),
            "wanted": wanted,
            "chips": [
                (text, "?" + urlencode([*((key, value) for key, value in wanted.items() if key != name), *columns]))
                for name, text in saved_views.describe_filters(wanted).items()
            ],
            "columns": [(name, title, name in shown) for name, title in OPTIONAL_COLUMNS.items()],
            # Of a parameter with several values, the theme's form of the filters keeps only the last one.
            "other_columns": [name for _column, name in columns if name != request.GET[COLUMN]],
            "all_calls": "?" + urlencode(columns),
            "search_url": f"{reverse('admin:audit_call_search')}?{urlencode([*wanted.items(), *columns])}",
            "status_names": [[value, str(name)] for value, name in outcomes.CHOICES],
            "max_rows": PAGE_ROWS,
            "live": live.context(request, search),
            "unindexed": bool(search.text()) and not text_index.exists(),
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
        text = badge(call.outcome, get_language())
        # A live list asks again for the calls that still run.
        return format_html("<span data-running>{}</span>", text) if call.outcome == outcomes.RUNNING else text

    @column(gettext_lazy("Client"))
    def client(self, call: Call) -> str:
        name = f"{call.client_name} {call.client_version}".strip() or call.credential
        return invisible.show(f"{name} ({call.transport})")

    @column(gettext_lazy("Credential"))
    def credential_name(self, call: Call) -> str:
        return invisible.show(call.credential or call.credential_id)

    @column(gettext_lazy("Rule"))
    def rule_text(self, call: Call) -> str:
        return _shorten(hooks.sentence(call.rule_reason, call.rule))

    @column(gettext_lazy("Detail"))
    def detail_text(self, call: Call) -> str:
        return _shorten(hooks.sentence(call.detail_reason, call.detail))

    @column(gettext_lazy("Arguments"))
    def arguments_start(self, call: Any) -> str:
        return _preview(call.arguments_text)

    @column(gettext_lazy("Result"))
    def result_start(self, call: Any) -> str:
        return _preview(call.result_text)

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
