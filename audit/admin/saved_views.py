"""Saved views: named filters of the audit log, created, renamed, shared and deleted by their owner only.

Every user who may read the audit log sees the shared views. A view of another user that is not shared gives the same
response as one that does not exist.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from audit import local_time, outcomes
from audit.admin.base import LIVE, calls_url
from audit.models import SavedView
from audit.queries import periods
from audit.queries.search import NOT_OK, CallSearch
from toolhub import invisible

OUTCOMES = (*outcomes.CHOICES, (NOT_OK, gettext_lazy("All except Success")))
MAX_VIEWS = 100
"""Maximum views of one user."""
FILTER_NAMES = {
    "q": gettext_lazy("Search"),
    "outcome": gettext_lazy("status"),
    "user": gettext_lazy("user"),
    "tool": gettext_lazy("tool"),
    "client": gettext_lazy("client"),
    "credential": gettext_lazy("credential"),
    "method": gettext_lazy("method"),
    "transport": gettext_lazy("transport"),
    "since": gettext_lazy("started from"),
    "until": gettext_lazy("started before"),
    "period": gettext_lazy("period"),
}
"""Names of the filters in the list of calls."""
MAX_LISTED_VIEWS = 200
"""Maximum views, own and shared, that a page lists."""


@dataclass(frozen=True, slots=True)
class DisplayedView:
    """A view as the pages show it."""

    view: SavedView
    name: str
    owner: str
    is_own: bool
    url: str
    filters_text: str
    """Its filters as text."""


def list_views(user: Any) -> list[DisplayedView]:
    """Return the user's own views, then the shared views of others."""
    rows = SavedView.objects.filter(Q(owner=user.pk) | Q(shared=True)).select_related("owner")[:MAX_LISTED_VIEWS]
    found = [_make_displayed_view(row, user) for row in rows]
    return sorted(found, key=lambda one: not one.is_own)


def _make_displayed_view(view: SavedView, user: Any) -> DisplayedView:
    filters = filters_of(view)
    return DisplayedView(
        view=view,
        name=invisible.show(view.name),
        owner=invisible.show(view.owner.get_username()),
        is_own=view.owner_id == user.pk,
        url=calls_url(**filters),
        filters_text=", ".join(describe_filters(filters).values())[:300],
    )


def filters_of(view: SavedView) -> dict[str, str]:
    """Return the filters of the view, only those that the list of calls knows, whatever the column contains."""
    try:
        values = json.loads(view.filters)
    except (ValueError, RecursionError):
        return {}
    with timezone.override(UTC):  # a time without offset was saved when every page was in UTC
        return _read_filters(values) if isinstance(values, dict) else {}


def _read_filters(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the filters among these parameters, and whether the view opens live."""
    live = {LIVE: "1"} if values.get(LIVE) == "1" else {}
    return CallSearch.from_parameters(values).to_parameters() | live


def describe_filters(filters: dict[str, str]) -> dict[str, str]:
    """Return parameter -> `name: value` as the pages show it, with invisible characters made visible."""
    texts = {name: value for name, value in filters.items() if name != LIVE}
    for name in {"since", "until"} & filters.keys():
        if (time := local_time.parse_time(filters[name])) is not None:
            texts[name] = local_time.format_time_with_zone(time)
    words = {"outcome": dict(OUTCOMES), "period": dict(periods.CHOICES)}
    for name in words.keys() & filters.keys():
        texts[name] = str(words[name].get(filters[name], filters[name]))
    named = {name: invisible.show(f"{FILTER_NAMES.get(name, name)}: {value}"[:300]) for name, value in texts.items()}
    return named | ({LIVE: _("Live")} if LIVE in filters else {})


class ViewForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = SavedView
        fields = ("name", "shared")

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if name != invisible.show(name):
            raise forms.ValidationError(_("The name contains invisible characters. Remove them."))
        return name


@require_safe
def manage(request: HttpRequest, model_admin: Any) -> HttpResponse:
    """Show the list of views, with the operations of an owner on each."""
    _require_view_permission(request, model_admin)
    context = {
        **admin.site.each_context(request),
        "opts": model_admin.opts,
        "title": _("Saved views"),
        "views": list_views(request.user),
    }
    return TemplateResponse(request, "admin/audit/call/views.html", context)


@require_POST
def create(request: HttpRequest, model_admin: Any) -> HttpResponse:
    """Save the filter that the form carries, and redirect to the list with that filter."""
    _require_view_permission(request, model_admin)
    filters = _read_filters(request.POST)
    user: Any = request.user
    view = SavedView(owner=user, filters=json.dumps(filters))
    if SavedView.objects.filter(owner=user).count() >= MAX_VIEWS:
        messages.error(request, _("You already have %(count)d saved views. Delete one first.") % {"count": MAX_VIEWS})
    elif _save_form(request, ViewForm(request.POST, instance=view)):
        messages.success(request, _("View saved."))
    return redirect(calls_url(**filters))


@require_POST
def change(request: HttpRequest, pk: int, model_admin: Any) -> HttpResponse:
    """Rename a view, share it, or stop sharing it."""
    view = _get_own_view(request, pk, model_admin)
    if _save_form(request, ViewForm(request.POST, instance=view)):
        messages.success(request, _("View changed."))
    return redirect("admin:audit_call_views")


@require_POST
def delete(request: HttpRequest, pk: int, model_admin: Any) -> HttpResponse:
    _get_own_view(request, pk, model_admin).delete()
    messages.success(request, _("View deleted. The audit log itself is unchanged."))
    return redirect("admin:audit_call_views")


def _get_own_view(request: HttpRequest, pk: int, model_admin: Any) -> SavedView:
    _require_view_permission(request, model_admin)
    view = SavedView.objects.filter(pk=pk, owner=request.user.pk).first()
    if view is None:
        raise Http404
    return view


def _require_view_permission(request: HttpRequest, model_admin: Any) -> None:
    if not model_admin.has_view_permission(request):
        raise PermissionDenied


def _save_form(request: HttpRequest, form: ViewForm) -> bool:
    if not form.is_valid():
        for problem in [text for problems in form.errors.values() for text in problems]:
            messages.error(request, str(problem))
        return False
    try:
        with transaction.atomic():
            form.save()
    except IntegrityError:
        messages.error(request, _("You already have a view with this name. Choose another name."))
        return False
    return True
