"""Trials in the admin of grants, limits and approval rules: try a rule, or a change of one, before it applies."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Field, QuerySet
from django.forms.models import model_to_dict
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from audit import local_time
from audit.admin_filters import is_key
from catalog.admin.history import HistoryAdmin
from catalog.conditions import definitions, windows, words
from catalog.conditions.mistakes import Mistake
from catalog.models import ApprovalRule, Limit
from catalog.models.rule_trials import CatalogueRule
from catalog.policy import messages as policy_messages
from catalog.schemas import errors
from catalog.trials import decisions
from toolhub.invisible import show

MAX_SHOWN_CHARACTERS = 500
"""Maximum length of a value on the page that puts a rule in force."""


class TrialFilter(admin.SimpleListFilter):
    title = _("trial")
    parameter_name = "trial"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("no", _("in force")), ("yes", _("in trial"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() not in ("no", "yes"):
            return queryset
        return queryset.filter(trial=self.value() == "yes")


class TrialAdmin(HistoryAdmin):
    """The pages of rules: all rows are listed, and a row in trial can be put in force, or its trial ended."""

    change_form_outer_before_template = "admin/catalog/trial.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = self.model.everything.all()
        ordering = self.get_ordering(request)
        return rows.order_by(*ordering) if ordering else rows

    def get_urls(self) -> list[URLPattern]:
        name = f"catalog_{self.opts.model_name}"
        own = [
            path("<int:pk>/put-in-force/", self.admin_site.admin_view(self.put_in_force), name=f"{name}_put_in_force"),
            path("<int:pk>/end-trial/", self.admin_site.admin_view(self.end_trial), name=f"{name}_end_trial"),
        ]
        return [*own, *super().get_urls()]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the sections; a new rule has one with the trial, which has nothing to choose for a tried change."""
        found = super().get_fieldsets(request, obj)
        if obj is not None:
            return found
        given = request.POST if request.method == "POST" else request.GET
        classes = ("hidden",) if given.get("replaces") else ()
        return (*found, (_("Trial"), {"classes": classes, "fields": ("trial", "replaces")}))

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "replaces":  # to who may not view rules, one that exists is as absent as any other
            rows = self.model.objects.all()
            kwargs["queryset"] = rows if self.has_view_or_change_permission(request) else rows.none()
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Return what the address gives; with `?replaces=`, the content of that rule, for those who may view it."""
        given: dict[str, Any] = super().get_changeform_initial_data(request)
        replaced = self._find_replaced(request, given.pop("replaces", ""))
        if replaced is None:
            return given
        names = [column.name for column in decisions.content_columns(self.model)]
        content = {**model_to_dict(replaced, names), "trial": True, "replaces": replaced.pk}
        if isinstance(replaced, ApprovalRule):
            content["name"] = _name_trial(replaced)
        return content

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, obj: Any = None, **kwargs: Any) -> Any:
        """Add what stands above the form: what is tried, and what can be done about it."""
        if obj is None:
            field = context["adminform"].form.fields.get("replaces")
            chosen = context["adminform"].form["replaces"].value() if field is not None else ""
            replaced = self._find_replaced(request, chosen)
            context["trial"] = {"tries": _name(replaced)} if replaced is not None else None
        else:
            context["trial"] = self._describe_trial(request, obj) if obj.trial else self._propose_trial(request, obj)
        return super().render_change_form(request, context, *args, obj=obj, **kwargs)

    def history_form_view(
        self, request: HttpRequest, object_id: str, version_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        stored = self.model.everything.filter(pk=object_id).first() if is_key(object_id) else None
        request.catalog_trial = stored  # type: ignore[attr-defined]
        return super().history_form_view(request, object_id, version_id, extra_context)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change, **kwargs)
        stored = getattr(request, "catalog_trial", None)
        if stored is None:
            return form

        class RevertForm(form):  # type: ignore[misc, valid-type]
            """The form of an older version: whether the rule is in trial stays as it is."""

            def __init__(self, *args: Any, **options: Any) -> None:
                super().__init__(*args, **options)
                for name in ("trial", "trial_since", "replaces_id"):
                    setattr(self.instance, name, getattr(stored, name))

        return RevertForm

    def put_in_force(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Show what a rule in trial changes; with a POST, put it in force."""
        return self._decide(request, pk, ends=False)

    def end_trial(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Ask whether a trial ends; with a POST, delete its rule."""
        return self._decide(request, pk, ends=True)

    def _decide(self, request: HttpRequest, pk: int, *, ends: bool) -> HttpResponse:
        if request.method not in ("GET", "HEAD", "POST"):
            return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
        if not (self.has_delete_permission(request) if ends else self.has_change_permission(request)):
            raise PermissionDenied
        row = self.get_queryset(request).filter(pk=pk, trial=True).first()
        if row is None:
            messages.error(
                request, gettext("No rule in trial has this number: someone put it in force or ended its trial.")
            )
            return redirect(f"admin:catalog_{self.opts.model_name}_changelist")
        if not ends and not self._may_put_in_force(request, row):
            raise PermissionDenied
        if request.method == "POST":
            return redirect(self._do(request, row, ends=ends))
        title = gettext("End a trial") if ends else gettext("Put a rule in force")
        context = {
            **self.admin_site.each_context(request),
            "title": title,
            "content_title": title,
            "ends": ends,
            "name": _name(row),
            "since": local_time.format_time_with_zone(row.trial_since, "minutes"),
            "replaced": _name(row.replaces) if row.replaces is not None else "",
            "changes": list_changes(row),
            "seen": decisions.fingerprint(row),
            "back": self._url("change", row.pk),
        }
        return TemplateResponse(request, "admin/catalog/trial_decision.html", context)

    def _do(self, request: HttpRequest, row: CatalogueRule, *, ends: bool) -> str:
        """Do what the form says; return the address of the page that comes next."""
        name, seen = _name(row), request.POST.get("seen") or "nothing"
        try:
            if ends:
                decisions.end(row, seen)
                self.message_user(request, gettext("The trial of %s is over. Nothing else changed.") % name)
                return self._url("changelist")
            applied = decisions.put_in_force(row, seen)
        except ValidationError as error:
            if getattr(error, "code", "") == "stale":
                messages.error(request, " ".join(error.messages))
                return self._url("end_trial" if ends else "put_in_force", row.pk)
            if getattr(error, "code", "") == "decided":
                messages.error(request, " ".join(error.messages))
                return self._url("changelist")
            messages.error(request, gettext("It cannot be put in force: %s") % " ".join(error.messages))
            return self._url("change", row.pk)
        self.message_user(request, gettext("%s is in force.") % _name(applied))
        return self._url("change", applied.pk)

    def _may_put_in_force(self, request: HttpRequest, row: CatalogueRule) -> bool:
        """Return whether this person may: where a trial replaces another rule, its own row is deleted."""
        return bool(
            self.has_change_permission(request, row)
            and (row.replaces_id is None or self.has_delete_permission(request, row))
        )

    def _describe_trial(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        may_put, may_end = self._may_put_in_force(request, row), self.has_delete_permission(request, row)
        return {
            "since": local_time.format_time_with_zone(row.trial_since, "minutes") if row.trial_since else "",
            "replaced": _name(row.replaces) if row.replaces is not None else "",
            "replaced_link": self._url("change", row.replaces_id) if row.replaces_id is not None else "",
            "put": self._url("put_in_force", row.pk) if may_put else "",
            "end": self._url("end_trial", row.pk) if may_end else "",
        }

    def _propose_trial(self, request: HttpRequest, row: Any) -> dict[str, Any] | None:
        if not self.has_add_permission(request) or (isinstance(row, Limit) and row.method):
            return None
        return {"offer": f"{self._url('add')}?{urlencode({'replaces': row.pk})}"}

    def _find_replaced(self, request: HttpRequest, chosen: Any) -> CatalogueRule | None:
        """Return the rule in force whose change is tried; None for one that this person may not view."""
        if not is_key(str(chosen)):
            return None
        row: CatalogueRule | None = self.model.objects.filter(pk=int(chosen)).first()
        return row if row is not None and self.has_view_or_change_permission(request, row) else None

    def _url(self, page: str, *keys: Any) -> str:
        return reverse(f"admin:catalog_{self.opts.model_name}_{page}", args=keys)


def list_changes(row: CatalogueRule) -> list[tuple[str, str, str]]:
    """Return (column, now, tried) for every column in which a row in trial differs from the one that it replaces."""
    if row.replaces is None:
        return []
    return [
        (str(column.verbose_name), _shown(row.replaces, column), _shown(row, column))
        for column in decisions.content_columns(type(row))
        if getattr(row, column.attname) != getattr(row.replaces, column.attname)
    ]


def _shown(row: CatalogueRule, column: Field[Any, Any]) -> str:
    """Return the value of a column for a reader."""
    value = getattr(row, column.name)
    if value is None or value == "" or value == []:
        return "-"
    if isinstance(value, bool):
        return gettext("Yes") if value else gettext("No")
    if isinstance(value, datetime):
        return local_time.format_time_with_zone(value, "minutes")
    if column.choices:
        return str(dict(column.flatchoices).get(value, value))
    return show(errors.cut(_format_value(column.name, value), MAX_SHOWN_CHARACTERS))


def _format_value(name: str, value: Any) -> str:
    try:
        if name == "conditions":
            return words.join([words.translate(one) for one in definitions.parse(value)])
        if name == "windows":
            return words.join([words.translate_window(one) for one in windows.parse(value)])
    except Mistake as mistake:
        return words.mistake(mistake)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list) else str(value)


def _name(row: CatalogueRule) -> str:
    return show(policy_messages.name_row(row))


def _name_trial(rule: ApprovalRule) -> str:
    """Return a free name for a trial of the rule."""
    most = ApprovalRule._meta.get_field("name").max_length or 0
    number = 0
    while True:
        number += 1
        mark = gettext("(changed)") if number == 1 else gettext("(changed %(number)s)") % {"number": number}
        name = f"{rule.name[: most - len(mark) - 1].rstrip()} {mark}"
        if not ApprovalRule.everything.filter(name__iexact=name).exists():
            return name
