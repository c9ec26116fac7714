"""`/requests/`: what the user can request, the user's own requests and reported calls, and their answers.

What cannot be requested gets the same answer as what does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from audit import outcomes
from audit.queries import search
from catalog.access_requests import condition_texts, requestable, submissions
from catalog.access_requests.requestable import RequestableToolset
from catalog.models import AccessRequest
from catalog.models.access_requests import MAX_TEXT_CHARACTERS
from catalog.policy.definitions import ToolDefinition
from catalog.schemas.parameters import Mark, marks
from catalog.views.condition_fields import ConditionsForm
from catalog.views.tools import cut_text, title_of, visible_to
from toolhub.invisible import show

TOOLSETS_PER_PAGE = 20
TOOLS_PER_PAGE = 50
OWN_PER_PAGE = 20
MAX_REPORTS = 20
MAX_NAMED_TOOLS = 8
"""Maximum tools of one toolset that the list names."""
STATUS_LABELS = dict(outcomes.CHOICES)


class ReasonForm(forms.Form):
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=MAX_TEXT_CHARACTERS,
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text=gettext_lazy("What do you need it for, and for how long? Administrators read this."),
        error_messages={"required": gettext_lazy("Enter a reason. Administrators decide by it.")},
    )


class CommentForm(forms.Form):
    comment = forms.CharField(
        label=gettext_lazy("Comment"),
        max_length=MAX_TEXT_CHARACTERS,
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
    )


@dataclass(frozen=True, slots=True)
class ToolsetCard:
    choice: RequestableToolset
    name: str
    text: str
    names: list[str]
    """Titles of its first tools."""

    @property
    def more(self) -> int:
        return len(self.choice.tools) - len(self.names)


@dataclass(frozen=True, slots=True)
class ToolRow:
    tool: ToolDefinition
    title: str
    about: str
    marks: list[Mark]
    is_own: bool
    is_partial: bool


@login_required
@never_cache
@require_safe
def listing(request: HttpRequest) -> HttpResponse:
    """Show what can be requested and what was; answers count as seen then."""
    user = cast(User, request.user)
    query = request.GET.get("q", "").strip()[:200]
    found = requestable.list_toolsets(visible_to(user), words=query.lower().split())
    page = Paginator(found, TOOLSETS_PER_PAGE).get_page(request.GET.get("page"))
    own = AccessRequest.objects.filter(person=user).select_related("grant").order_by("-id")
    mine = Paginator(own, OWN_PER_PAGE).get_page(request.GET.get("mine"))
    context = {
        "section": "tools",
        "query": query,
        "page": page,
        "cards": [_present_toolset(choice) for choice in page],
        "mine": mine,
        "requests": [_present_request(row) for row in mine],
        "reports": [
            {
                "row": row,
                "name": show(row.name),
                "status": STATUS_LABELS.get(row.outcome, row.outcome),
                "answer": show(row.answer),
            }
            for row in user.call_reports.order_by("-id")[:MAX_REPORTS]
        ],
    }
    response = render(request, "catalog/requests.html", context)
    if request.method == "GET":
        submissions.mark_seen(user.pk)
    return response


def _present_toolset(choice: RequestableToolset) -> ToolsetCard:
    names = [show(title_of(tool)) for tool in choice.tools[:MAX_NAMED_TOOLS]]
    return ToolsetCard(choice, show(choice.toolset.name), show(choice.toolset.request_text), names)


def _present_request(row: AccessRequest) -> dict[str, Any]:
    state = AccessRequest.State
    tones = {state.APPROVED: "good", state.DECLINED: "bad", state.GONE: "warn"}
    return {
        "row": row,
        "name": show(row.name),
        "reason": show(row.reason),
        "answer": show(row.answer),
        "conditions": condition_texts.describe(row.conditions),
        "given": condition_texts.describe_given(row),
        "tone": tones.get(state(row.state), ""),
        "is_new": row.seen is None and row.state in AccessRequest.ANSWERED,
    }


@login_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def toolset(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the tools of one toolset with the form; with `tool` (its name), for one of them alone."""
    user = cast(User, request.user)
    choice = requestable.find_toolset(visible_to(user), pk)
    if choice is None:
        raise Http404
    name = request.POST.get("tool", "") if request.method == "POST" else request.GET.get("tool", "")
    chosen = choice.find(name) if name else None
    if name and chosen is None:
        raise Http404
    sent = request.POST if request.method == "POST" else None
    form, asked = ReasonForm(sent), ConditionsForm(None if chosen is None else chosen.input_schema, sent)
    # Both are checked: a person reads all that is wrong at once.
    if sent is not None and all([form.is_valid(), asked.is_valid()]):
        try:
            submissions.submit(user, choice, chosen, form.cleaned_data["reason"], asked.conditions)
        except submissions.Refused as refusal:
            messages.error(request, str(refusal))
        except ValidationError as problem:
            for sentence in problem.messages:
                asked.add_error(None, show(sentence))
        else:
            messages.success(
                request, _("Your request was sent. An administrator decides, and the answer appears here.")
            )
            return redirect("catalog:requests")
    page = Paginator(choice.tools, TOOLS_PER_PAGE).get_page(request.GET.get("page"))
    context = {
        "section": "tools",
        "choice": choice,
        "name": show(choice.toolset.name),
        "text": show(choice.toolset.request_text),
        "chosen": chosen,
        "chosen_title": show(title_of(chosen)) if chosen is not None else "",
        "form": form,
        "asked": asked,
        "page": page,
        "rows": [
            ToolRow(tool, show(title_of(tool)), show(cut_text(tool.description)), marks(tool.annotations),
                    tool.id in choice.own, tool.id in choice.partial)
            for tool in page
        ],
    }  # fmt: skip
    return render(request, "catalog/request.html", context)


@login_required
@never_cache
@require_POST
def withdraw(request: HttpRequest, pk: int) -> HttpResponse:
    try:
        done = submissions.withdraw(cast(User, request.user), pk)
    except AccessRequest.DoesNotExist:
        raise Http404 from None
    if done:
        messages.success(request, _("Your request was withdrawn."))
    else:
        messages.warning(request, _("This request was answered meanwhile."))
    return redirect("catalog:requests")


@login_required
@never_cache
@require_POST
def report(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Report a failed call of the user to the administrators."""
    user = cast(User, request.user)
    call = search.one_for_user(user.pk, pk)
    if call is None:
        raise Http404
    form = CommentForm(request.POST)
    if not form.is_valid():
        messages.error(request, " ".join(map(str, form.errors["comment"])))
    else:
        try:
            submissions.report(user, call, form.cleaned_data["comment"])
        except submissions.Refused as refusal:
            messages.error(request, str(refusal))
        else:
            messages.success(request, _("The call was reported. The answer appears on this page."))
    return redirect(reverse("access:call", args=[pk]) + "#report")
