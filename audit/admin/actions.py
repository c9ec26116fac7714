"""Admin pages of admin activity: actor, operation, target and the changed fields."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Case, F, Q, TextField, Value, When
from django.db.models.functions import Length
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from audit import local_time
from audit.actions import diff_display, verbs
from audit.admin.base import ReadOnlyAdmin, calls_address, choice, column, moment, text
from audit.format import chain
from audit.models import Action
from audit.queries import lookup
from audit.queries.search import Page, Question, id_at, page
from toolhub import invisible

SHORT = 4_000
"""Maximum characters of a before or after that a list reads; longer ones are reported as long text."""


def _short(name: str) -> Case:
    return Case(When(Q(**{f"{name}_length__lte": SHORT}), then=F(name)), default=Value(None), output_field=TextField())


@admin.register(Action)
class ActionAdmin(ReadOnlyAdmin):
    list_display = ("when", "who", "did", "to", "what", "changed")
    list_display_links = ("when",)
    list_filter = (
        text(gettext_lazy("actor"), "actor"),
        choice(gettext_lazy("operation"), "verb", tuple(verbs.VERBS.items())),
        choice(gettext_lazy("kind"), "kind", tuple(verbs.KINDS.items())),
        moment(gettext_lazy("time from"), "since"),
        moment(gettext_lazy("time before"), "until"),
    )
    search_fields = ("target",)
    plain = True
    nothing = gettext_lazy("No admin activity yet. Changes that administrators make are logged here.")
    search_help_text = gettext_lazy("Search actor, target, before or after, or paste an ID")

    def page(self, request: HttpRequest, *, before: str, after: str) -> Page:
        question = Question.of(request.GET)
        rows, rest = Action.objects.defer("before", "after"), Q()
        lengths = {f"{name}_length": Length(name) for name in ("before", "after")}
        rows = rows.annotate(**lengths).annotate(short_before=_short("before"), short_after=_short("after"))
        since, until = question.interval()
        if since is not None:
            rows = rows.filter(pk__gte=id_at(since))
        if until is not None:
            rows = rows.filter(pk__lt=id_at(until))
        for name, known in (("actor", ()), ("verb", verbs.VERBS), ("kind", verbs.KINDS)):
            if value := str(request.GET.get(name) or "").strip():
                # A known code matches exactly; any other text, which only a URL can have, matches as a part.
                rest &= Q(**{name if value in known else f"{name}__icontains": value})
        if question.q:
            spelled = json.dumps(question.q, ensure_ascii=False)[1:-1]
            rest &= (
                Q(target__icontains=question.q)
                | Q(actor__icontains=question.q)
                | Q(before__icontains=spelled)
                | Q(after__icontains=spelled)
            )
        return page(rows, rest or None, before=before, after=after)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        if set(request.GET) == {"q"} and (found := lookup.address_for(request.GET.get("q", ""))):
            return redirect(found)
        response: HttpResponse = super().changelist_view(request, extra_context)
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
            "title": invisible.show(_said(action)),
            "action": action,
            "facts": [(name, invisible.show(value)) for name, value in _facts(action)],
            "call": action.target if action.kind == "call" else "",
            "changes": diff_display.of(action.before, action.after),
        }
        return TemplateResponse(request, "admin/audit/action/detail.html", context | (extra_context or {}))

    @column(local_time.in_zone(gettext_lazy("Time")))
    def when(self, action: Action) -> str:
        return local_time.shown(action.at)

    @column(gettext_lazy("Actor"))
    def who(self, action: Action) -> str:
        return invisible.show(action.actor)

    @column(gettext_lazy("Operation"))
    def did(self, action: Action) -> str:
        return invisible.show(verbs.verb(action.verb))

    @column(gettext_lazy("Kind"))
    def to(self, action: Action) -> str:
        return invisible.show(verbs.kind(action.kind))

    @column(gettext_lazy("Target"))
    def what(self, action: Action) -> str:
        if action.kind == "call":
            address = calls_address(q=action.target)
            return format_html('<a class="record-link" href="{}">{}</a>', address, invisible.show(action.target))
        return invisible.show(action.target)

    @column(gettext_lazy("What changed"))
    def changed(self, action: Any) -> str:
        if action.short_before is None or action.short_after is None:
            return _("long text (open to view)")
        return diff_display.in_short(action.short_before, action.short_after)


def _said(action: Action) -> str:
    return f"{verbs.verb(action.verb)} {verbs.kind(action.kind)}"


def _facts(action: Action) -> list[tuple[str, str]]:
    return [
        (_("Time"), local_time.told(action.at)),
        (_("Actor"), action.actor),
        (_("Operation"), _said(action)),
        (_("Target"), action.target),
        (_("ID"), str(action.pk)),
        (_("Hash chain entry"), "{}:{}".format(*chain.where(action.link))),
    ]
