"""Admin pages of admin activity: actor, operation, target and the changed fields."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Case, F, Q, QuerySet, TextField, Value, When
from django.db.models.functions import Length
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from audit import local_time
from audit.actions import diff_display, log, verbs
from audit.admin import views
from audit.admin.base import ReadOnlyAdmin, calls_url, choice_filter, column, text_filter, time_filter
from audit.export import activity
from audit.export import rows as export_rows
from audit.format import chain
from audit.models import Action
from audit.queries import lookup
from audit.queries.search import CallSearch, Page, page
from audit.queries.spans import Span
from toolhub import invisible

MAX_LISTED_CHARACTERS = 4_000
"""Maximum characters of a before or after that a list reads; longer ones are reported as long text."""


def _value_if_short(name: str) -> Case:
    return Case(
        When(Q(**{f"{name}_length__lte": MAX_LISTED_CHARACTERS}), then=F(name)),
        default=Value(None),
        output_field=TextField(),
    )


@admin.register(Action)
class ActionAdmin(ReadOnlyAdmin):
    list_display = ("time", "actor_name", "operation", "kind_name", "target_link", "summary")
    list_display_links = ("time",)
    list_filter = (
        text_filter(gettext_lazy("actor"), "actor"),
        choice_filter(gettext_lazy("operation"), "verb", tuple(verbs.VERBS.items())),
        choice_filter(gettext_lazy("kind"), "kind", tuple(verbs.KINDS.items())),
        time_filter(gettext_lazy("time from"), "since"),
        time_filter(gettext_lazy("time before"), "until"),
    )
    search_fields = ("target",)
    has_plain_columns = True
    empty_message = gettext_lazy("No admin activity yet. Changes that administrators make are logged here.")
    search_help_text = gettext_lazy("Search actor, target, before or after, or paste an ID")

    list_before_template = "admin/audit/action/above.html"

    def get_urls(self) -> list[URLPattern]:
        address = self.admin_site.admin_view(self.export)
        urls: list[URLPattern] = super().get_urls()
        return [path("export/", address, name="audit_action_export"), *urls]

    def page(self, request: HttpRequest, *, before: str, after: str) -> Page:
        rows, span, rest = self._find(request)
        lengths = {f"{name}_length": Length(name) for name in ("before", "after")}
        rows = rows.defer("before", "after").annotate(**lengths)
        rows = rows.annotate(short_before=_value_if_short("before"), short_after=_value_if_short("after"))
        return page(rows, rest, before=before, after=after, span=span)

    @method_decorator(require_safe)
    def export(self, request: HttpRequest) -> HttpResponseBase:
        """Return the filtered list as a download. The export itself is logged, before its first line."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        kind = request.GET.get("format", "jsonl")
        if kind not in export_rows.FORMATS:
            known = ", ".join(export_rows.FORMATS)
            return HttpResponseBadRequest(f"format must be one of {known}", content_type="text/plain")
        rows, span, rest = self._find(request)
        log.record("exported", "admin activity", "download", None, {"format": kind, "filters": _filters(request)})
        name = f"admin-activity-{timezone.now():%Y%m%d-%H%M%S}.{kind}"
        return views.download(request, activity.chunks(rows, span, rest, kind), export_rows.FORMATS[kind], name)

    def _find(self, request: HttpRequest) -> tuple[QuerySet[Action], Span, Q | None]:
        """Return the rows, the interval that is searched, and the condition on them."""
        search = CallSearch.from_parameters(request.GET)
        rows, rest = Action.objects.all(), Q()
        for name, known in (("actor", ()), ("verb", verbs.VERBS), ("kind", verbs.KINDS)):
            if value := str(request.GET.get(name) or "").strip():
                # A known code matches exactly; any other text, which only a URL can have, matches as a part.
                rest &= Q(**{name if value in known else f"{name}__icontains": value})
        if search.q:
            spelled = json.dumps(search.q, ensure_ascii=False)[1:-1]
            rest &= (
                Q(target__icontains=search.q)
                | Q(actor__icontains=search.q)
                | Q(before__icontains=spelled)
                | Q(after__icontains=spelled)
            )
        return rows, search.find_span(), rest or None

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        if set(request.GET) == {"q"} and (url := lookup.find_url(request.GET.get("q", ""))):
            return redirect(url)
        address, wanted = reverse("admin:audit_action_export"), _filters(request)
        exports = [
            (label, f"{address}?{views.encode_query(wanted, format=kind)}")
            for kind, label in (("jsonl", "JSON Lines"), ("csv", "CSV"))
        ]
        context = {"exports": exports, "wanted": wanted}
        response: HttpResponse = super().changelist_view(request, context | (extra_context or {}))
        return response

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        action = self.get_object(request, object_id)
        if action is None:
            return super().change_view(request, object_id, form_url, extra_context)  # shows a message and redirects
        if not self.has_view_permission(request, action):
            raise PermissionDenied
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": invisible.show(_format_operation(action)),
            "action": action,
            "facts": [(name, invisible.show(value)) for name, value in _facts(action)],
            "call": action.target if action.kind == "call" else "",
            "changes": diff_display.diff_fields(action.before, action.after),
        }
        return TemplateResponse(request, "admin/audit/action/detail.html", context | (extra_context or {}))

    @column(local_time.add_zone(gettext_lazy("Time")))
    def time(self, action: Action) -> str:
        return local_time.format_time(action.at)

    @column(gettext_lazy("Actor"))
    def actor_name(self, action: Action) -> str:
        return invisible.show(action.actor)

    @column(gettext_lazy("Operation"))
    def operation(self, action: Action) -> str:
        return invisible.show(verbs.translate_verb(action.verb))

    @column(gettext_lazy("Kind"))
    def kind_name(self, action: Action) -> str:
        return invisible.show(verbs.translate_kind(action.kind))

    @column(gettext_lazy("Target"))
    def target_link(self, action: Action) -> str:
        if action.kind == "call":
            address = calls_url(q=action.target)
            return format_html('<a class="record-link" href="{}">{}</a>', address, invisible.show(action.target))
        return invisible.show(action.target)

    @column(gettext_lazy("What changed"))
    def summary(self, action: Any) -> str:
        if action.short_before is None or action.short_after is None:
            return _("long text (open to view)")
        return diff_display.format_summary(action.short_before, action.short_after)


def _filters(request: HttpRequest) -> dict[str, str]:
    names = ("q", "actor", "verb", "kind", "since", "until")
    return {name: value[:500] for name in names if (value := str(request.GET.get(name) or "").strip())}


def _format_operation(action: Action) -> str:
    return f"{verbs.translate_verb(action.verb)} {verbs.translate_kind(action.kind)}"


def _facts(action: Action) -> list[tuple[str, str]]:
    return [
        (_("Time"), local_time.format_time_with_zone(action.at)),
        (_("Actor"), action.actor),
        (_("Operation"), _format_operation(action)),
        (_("Target"), action.target),
        (_("ID"), str(action.pk)),
        (_("Hash chain entry"), "{}:{}".format(*chain.split_link_id(action.link))),
    ]
