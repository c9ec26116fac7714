"""One request for access: who asks for what and why, what they have now, and the decision."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from audit import local_time
from catalog.access_requests import condition_texts, decisions, inbox
from catalog.access_requests.decisions import Stale
from catalog.access_requests.effects import Effect, Examiner, is_destructive
from catalog.access_requests.submissions import Refused
from catalog.admin.grant_form import list_value_lists
from catalog.conditions import definitions, words
from catalog.conditions.mistakes import ConditionError
from catalog.models import AccessRequest, Grant
from catalog.models.access_requests import MAX_TEXT_CHARACTERS
from catalog.models.fields import JSONFormField
from catalog.policy import messages as policy_messages
from catalog.policy.definitions import Item, ResourceDefinition
from catalog.policy.obstacles import Explainer
from catalog.policy.rules import Requester
from toolhub import invisible
from toolhub.pages.access.remedies import Advisor, Asked, ItemFacts
from toolhub.pages.inbox import request_queue
from toolhub.pages.inbox.request_queue import APPROVE, VIEW
from toolhub.pages.staff import page, staff_page

ITEMS_PER_PAGE = 25
MAX_GROUPS = 50
SEES_ITEMS = ("catalog.view_tool", "catalog.view_grant")
"""Permissions to see what is in the toolset, and which grants show or hide it."""


class ApprovalForm(forms.Form):
    """The grant to make: its end, environments and note."""

    END_CHOICES = (
        ("", gettext_lazy("no end")),
        ("7", gettext_lazy("in 7 days")),
        ("30", gettext_lazy("in 30 days")),
        ("date", gettext_lazy("on a date")),
    )
    end = forms.ChoiceField(label=gettext_lazy("End"), choices=END_CHOICES, required=False)
    last_day = forms.CharField(label=gettext_lazy("Last day"), required=False, max_length=10)
    here_only = forms.BooleanField(required=False)
    note = forms.CharField(
        label=gettext_lazy("Note"), required=False, max_length=Grant._meta.get_field("note").max_length
    )
    answer = forms.CharField(label=gettext_lazy("Answer"), required=False, max_length=MAX_TEXT_CHARACTERS)
    conditions = JSONFormField(label=gettext_lazy("Conditions"), required=False)

    def __init__(self, found: AccessRequest, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._found = found
        if self.is_bound and self.data.get("decision") != "approve":
            del self.fields["conditions"]  # what is declined needs none that are right

    @property
    def conditions_text(self) -> str:
        """The conditions as the page shows them: as they were sent, or else as they are asked for."""
        if "conditions" in self.data:
            return str(self.data["conditions"])
        text = json.dumps(self._found.conditions, indent=2, ensure_ascii=False) if self._found.conditions else ""
        return "".join(json.dumps(one)[1:-1] if invisible.is_invisible(one) else one for one in text)

    def clean_conditions(self) -> list[dict[str, Any]]:
        """Return the conditions as a grant stores them; without the field, those that are asked for."""
        if "conditions" not in self.data:
            return list(self._found.conditions)
        sent = self.cleaned_data["conditions"]
        try:
            found = definitions.parse([] if sent is None else sent)
        except ConditionError as mistake:
            raise ValidationError(words.mistake(mistake)) from None
        if found and self._found.kind != AccessRequest.Kind.TOOL:
            raise ValidationError(_("Only access to one tool can have conditions here."))
        return [definitions.as_json(one) for one in found]

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if self.data.get("decision") != "approve":
            return cleaned | {"ends": None}
        ends: datetime | None = request_queue.end_after(request_queue.PERIODS.get(cleaned.get("end", ""), 0))
        if cleaned.get("end") == "date":
            ends = local_time.parse_time(cleaned.get("last_day", ""), end=True)
            if ends is None or ends <= timezone.now():
                raise ValidationError({"last_day": _("Enter a date from today on.")})
        cleaned["ends"] = ends
        return cleaned


@staff_page(VIEW)
@never_cache
@require_safe
def request_page(request: HttpRequest, pk: int) -> HttpResponse:
    """Show one request, with the form to decide about it for those who may."""
    found = _find(pk)
    return _render(request, found, ApprovalForm(found, initial={"note": found.reason}))


@staff_page(VIEW, APPROVE)
@never_cache
@require_POST
def decide(request: HttpRequest, pk: int) -> HttpResponse:
    """Approve or decline one request (`decision`), or take the decision back (`undo`)."""
    found = _find(pk)
    if "undo" in request.POST:
        request_queue.undo(request, f"{found.pk} {request.POST['undo'].partition(' ')[2]}")
        return redirect("pages:request", pk=found.pk)
    form = ApprovalForm(found, request.POST)
    if form.is_valid() and _decide(request, found, form):
        return redirect(_next_address(found))
    return _render(request, found, form)


def _find(pk: int) -> AccessRequest:
    return get_object_or_404(AccessRequest.objects.select_related("person", "toolset", "tool", "grant"), pk=pk)


def _render(request: HttpRequest, found: AccessRequest, form: ApprovalForm) -> HttpResponse:
    title = _("Access request of %(person)s") % {"person": invisible.show(found.person.get_username())}
    return page(request, "admin/pages/request.html", title, **_context(request, found, form))


def _decide(request: HttpRequest, found: AccessRequest, form: ApprovalForm) -> bool:
    """Decide, tell the viewer by a message, and return whether the page of this request is done with."""
    by, values = request.user.get_username(), form.cleaned_data
    details = {"name": invisible.show(found.name), "person": invisible.show(found.person.get_username())}
    try:
        if request.POST.get("decision") == "approve":
            effect = request_queue.make_examiner().examine(found)
            if request.POST.get("reviewed", effect.digest) != effect.digest:
                messages.warning(
                    request, _("What this request gives changed since you opened the page. Review it again.")
                )
                return False
            environments = (settings.ENVIRONMENT,) if values["here_only"] else ()
            decided = decisions.approve(
                found.pk,
                by,
                ends=values["ends"],
                environments=environments,
                note=values["note"],
                answer=values["answer"],
                conditions=values["conditions"],
            )
            text = _describe_approval(decided, details)
            if decided.grant is not None and request.user.has_perm("catalog.view_grant"):
                address = reverse("admin:catalog_grant_change", args=[decided.grant.pk])
                text = format_html('{} <a class="underline" href="{}">{}</a>', text, address, _("View grant"))
        elif request.POST.get("decision") == "decline":
            decisions.decline(found.pk, by, values["answer"])
            text = _("The request of %(person)s for %(name)s was declined.") % details
        else:
            return False
    except Stale as error:
        messages.error(request, request_queue.describe_refusal(error))
        return True
    except (Refused, ValidationError) as error:
        if isinstance(error, ValidationError) and "conditions" in getattr(error, "error_dict", {}):
            form.add_error("conditions", error.error_dict["conditions"])
        else:
            messages.error(request, request_queue.describe_refusal(error))
        return False
    messages.success(request, text)
    return True


def _describe_approval(decided: AccessRequest, details: dict[str, str]) -> str:
    """Return what was given to whom, and where conditions were asked for or set, for which calls."""
    text = _("Access to %(name)s given to %(person)s.") % details
    given = decided.grant.conditions if decided.grant is not None else []
    if given:
        conditions = "; ".join(condition_texts.describe(given))
        return text + " " + _("Only for calls with: %(conditions)s.") % {"conditions": conditions}
    return text + " " + _("It is for all calls.") if decided.conditions else text


def _next_address(found: AccessRequest) -> str:
    """Return the page of the next open request, or the list."""
    later = inbox.find_place(inbox.open_requests(), found).after
    return _address(later) or reverse("pages:requests")


def _address(key: int | None) -> str:
    return reverse("pages:request", args=[key]) if key is not None else ""


def _context(request: HttpRequest, found: AccessRequest, form: ApprovalForm) -> dict[str, Any]:
    may = request.user.has_perm
    examiner = request_queue.make_examiner()
    effect = examiner.examine(found)
    place = inbox.find_place(inbox.open_requests(), found)
    context: dict[str, Any] = {
        "found": found,
        "form": form,
        "place": place,
        "previous": _address(place.before),
        "next": _address(place.after),
        "person": invisible.show(found.person.get_username()),
        "full_name": invisible.show(found.person.get_full_name()),
        "name": invisible.show(str(found.target or found.name)),
        "reason": invisible.show(found.reason),
        "conditions": condition_texts.describe(found.conditions),
        "given": condition_texts.describe_given(found, with_fixed=True) if may("catalog.view_grant") else [],
        "answer": invisible.show(found.answer),
        "by": invisible.show(found.decided_by),
        "destructive": effect.destructive,
        "reviewed": effect.digest,
        "warnings": request_queue.describe_warnings(effect) if found.is_open else [],
        "may_approve": may(APPROVE),
        "undo": request_queue.undo_value(found)
        if request_queue.may_undo(request, found) and found.state in ("approved", "declined")
        else "",
        "here": settings.ENVIRONMENT,  # `environment` is the badge of the theme
        "max_length": MAX_TEXT_CHARACTERS,
        "groups": None,
        "links": list(_links(request, found)),
        "grant": policy_messages.name_row(found.grant) if found.grant and may("catalog.view_grant") else "",
    }
    if found.is_open and found.kind == AccessRequest.Kind.TOOL and may(APPROVE):
        address = f"{reverse('admin:catalog_grant_arguments')}?{urlencode({'tool': found.tool_id})}"
        context["editor"] = json.dumps({"arguments": address, "lists": list_value_lists()})
    if may("auth.view_group"):
        names = found.person.groups.order_by("name").values_list("name", flat=True)[:MAX_GROUPS]
        context["groups"] = [invisible.show(name) for name in names]
    if request.user.has_perms(SEES_ITEMS):
        context |= _describe_items(request, found, effect, examiner)
    return context


def _links(request: HttpRequest, found: AccessRequest) -> list[tuple[str, str]]:
    may = request.user.has_perm
    links = []
    if may("auth.view_user"):
        links.append((reverse("admin:auth_user_change", args=[found.person_id]), _("User account")))
    if request.user.has_perms(("auth.view_user", "catalog.view_tool", "catalog.view_grant", "catalog.view_limit")):
        links.append((reverse("pages:access-user", args=[found.person_id]), _("View as")))
    if found.kind == AccessRequest.Kind.TOOL:
        if found.tool_id is not None and may("catalog.view_tool"):
            links.append((reverse("admin:catalog_tool_change", args=[found.tool_id]), _("View tool")))
    elif found.toolset_id is not None and may("catalog.view_toolset"):
        links.append((reverse("admin:catalog_toolset_change", args=[found.toolset_id]), _("View toolset")))
    return links


def _describe_items(request: HttpRequest, found: AccessRequest, effect: Effect, examiner: Examiner) -> dict[str, Any]:
    """Return the items that a grant would cover, in pages, each with what shows or hides it now."""
    shown = Paginator(effect.items, ITEMS_PER_PAGE).get_page(request.GET.get("page"))
    explainer = Explainer(examiner.catalogue, examiner.now, examiner.environment)
    advisor = Advisor(request, examiner.now, examiner.environment, actionable=False, names_requests=False)
    who, username = Requester(found.person_id), found.person.get_username()
    asked = [
        Asked(who.user_id, username, ItemFacts.of_definition(item), explainer.explain(who, item)) for item in shown
    ]
    return {
        "shown": shown,
        "items": [
            {
                "name": invisible.show(_name(item)),
                "kind": str(item.kind),
                "destructive": is_destructive(item),
                "visible": not advice.asked.explanation.obstacles,
                "lines": advice.lines,
            }
            for item, advice in zip(shown, advisor.advise(asked), strict=True)
        ],
    }


def _name(item: Item) -> str:
    return item.uri if isinstance(item, ResourceDefinition) else item.name
