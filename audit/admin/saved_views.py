"""Saved views: named filters of the audit log, created, renamed, shared and deleted by their owner only.

Every user who may read the audit log sees the shared views. A view of another user that is not shared gives the same
response as one that does not exist.
"""

from __future__ import annotations

import json
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
from audit.admin.base import calls_address
from audit.models import SavedView
from audit.queries.search import Question
from toolhub import invisible

MOST = 100
"""Maximum views of one user."""
NAMES = {
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
}
"""Names of the filters in the list of calls."""
SHOWN = 200
"""Maximum views, own and shared, that a page lists."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A view as the pages show it."""

    view: SavedView
    name: str
    owner: str
    mine: bool
    address: str
    words: str
    """Its filters as text."""


def visible_to(user: Any) -> list[Shown]:
    """Return the user's own views, then the shared views of others."""
    rows = SavedView.objects.filter(Q(owner=user.pk) | Q(shared=True)).select_related("owner")[:SHOWN]
    found = [_shown(row, user) for row in rows]
    return sorted(found, key=lambda one: not one.mine)


def _shown(view: SavedView, user: Any) -> Shown:
    filters = filters_of(view)
    return Shown(
        view=view,
        name=invisible.show(view.name),
        owner=invisible.show(view.owner.get_username()),
        mine=view.owner_id == user.pk,
        address=calls_address(**filters),
        words=invisible.show(_words(filters)[:300]),
    )


def filters_of(view: SavedView) -> dict[str, str]:
    """Return the filters of the view, only those that `Question` knows, whatever the column contains."""
    try:
        values = json.loads(view.filters)
    except (ValueError, RecursionError):
        return {}
    with timezone.override(UTC):  # a time without offset was saved when every page was in UTC
        return Question.of(values).said() if isinstance(values, dict) else {}


def _words(filters: dict[str, str]) -> str:
    moments = {name: local_time.entered(value) for name, value in filters.items() if name in {"since", "until"}}
    said = filters | {name: local_time.told(moment) for name, moment in moments.items() if moment is not None}
    if "outcome" in said:
        said["outcome"] = str(dict(outcomes.CHOICES).get(said["outcome"], said["outcome"]))
    return ", ".join(f"{NAMES.get(name, name)}: {value}" for name, value in said.items())


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
    _may_read(request, model_admin)
    context = {
        **admin.site.each_context(request),
        "opts": model_admin.opts,
        "title": _("Saved views"),
        "views": visible_to(request.user),
    }
    return TemplateResponse(request, "admin/audit/call/views.html", context)


@require_POST
def create(request: HttpRequest, model_admin: Any) -> HttpResponse:
    """Save the filter that the form carries, and redirect to the list with that filter."""
    _may_read(request, model_admin)
    filters = Question.of(request.POST).said()
    user: Any = request.user
    view = SavedView(owner=user, filters=json.dumps(filters))
    if SavedView.objects.filter(owner=user).count() >= MOST:
        messages.error(request, _("You already have %(count)d saved views. Delete one first.") % {"count": MOST})
    elif _saved(request, ViewForm(request.POST, instance=view)):
        messages.success(request, _("View saved."))
    return redirect(calls_address(**filters))


@require_POST
def change(request: HttpRequest, pk: int, model_admin: Any) -> HttpResponse:
    """Rename a view, share it, or stop sharing it."""
    view = _own(request, pk, model_admin)
    if _saved(request, ViewForm(request.POST, instance=view)):
        messages.success(request, _("View changed."))
    return redirect("admin:audit_call_views")


@require_POST
def delete(request: HttpRequest, pk: int, model_admin: Any) -> HttpResponse:
    _own(request, pk, model_admin).delete()
    messages.success(request, _("View deleted. The audit log itself is unchanged."))
    return redirect("admin:audit_call_views")


def _own(request: HttpRequest, pk: int, model_admin: Any) -> SavedView:
    _may_read(request, model_admin)
    view = SavedView.objects.filter(pk=pk, owner=request.user.pk).first()
    if view is None:
        raise Http404
    return view


def _may_read(request: HttpRequest, model_admin: Any) -> None:
    if not model_admin.has_view_permission(request):
        raise PermissionDenied


def _saved(request: HttpRequest, form: ViewForm) -> bool:
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
