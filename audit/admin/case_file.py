"""Page that makes a case file of the filtered calls: everything about a person, a tool, a client or a time span."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldBooleanSwitchWidget

from audit.actions import log
from audit.admin import saved_views, views
from audit.admin.base import calls_url
from audit.case_files import collection
from audit.case_files.collection import MAX_REASON_CHARACTERS, Case
from audit.format import keys
from audit.queries.search import CallSearch
from audit.writing.stores.base import StoreUnavailable

PERMISSION = "audit.make_casefile"


class CaseForm(forms.Form):
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=MAX_REASON_CHARACTERS,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 3}),
        help_text=gettext_lazy("For example the ticket and the person who asked. It is logged, and in the case file."),
    )
    has_bodies = forms.BooleanField(
        label=gettext_lazy("Include arguments and results"),
        required=False,
        initial=True,
        widget=UnfoldBooleanSwitchWidget,
        help_text=gettext_lazy("Otherwise the case file has only their digests, which still verify."),
    )


@require_http_methods(["GET", "HEAD", "POST"])
def make(request: HttpRequest, model_admin: Any) -> HttpResponseBase:
    """Ask for the reason, then return the case file as a download. It is logged before its first byte."""
    if not (model_admin.has_view_permission(request) and request.user.has_perm(PERMISSION)):
        raise PermissionDenied
    search = CallSearch.from_parameters(request.GET)
    form = CaseForm(request.POST or None)
    problem = ""
    if request.method == "POST" and form.is_valid():
        username = request.user.get_username()
        case = Case(search, form.cleaned_data["reason"], username, form.cleaned_data["has_bodies"])
        try:
            return _download(request, case)
        except StoreUnavailable:
            problem = _("No checkpoint can be signed now, so the case file would prove nothing. Try again later.")
    filters = search.to_parameters()
    context = {
        **admin.site.each_context(request),
        "opts": model_admin.opts,
        "title": _("Case file"),
        "form": form,
        "problem": problem,
        "filters_text": ", ".join(saved_views.describe_filters(filters).values()),
        "calls_address": calls_url(**filters),
        "public_key": keys.public_key(),
    }
    return TemplateResponse(request, "admin/audit/call/case_file.html", context)


def _download(request: HttpRequest, case: Case) -> StreamingHttpResponse:
    body = collection.chunks(case)
    name = f"case-file-{timezone.now():%Y%m%d-%H%M%S}.zip"
    log.record("created", "case file", name, None, case.describe())
    return views.download(request, body, "application/zip", name)
