"""`/approvals/`: the calls that wait for this person's approval, their own requests, and what was decided.

A request that is not theirs gets the same answer as one that does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from audit import local_time, outcomes
from audit.models import Call
from catalog.approvals import decisions, inbox, lasting, temporary
from catalog.approvals.decisions import Refused
from catalog.conditions import words
from catalog.models import Approval, TemporaryApproval
from catalog.models.approvals import MAX_REASON_CHARACTERS
from catalog.policy import snapshot
from catalog.policy.asking import APPROVERS, PERSON
from catalog.policy.definitions import AskRule, Snapshot, ToolDefinition
from catalog.schemas.parameters import Mark, marks
from catalog.views import approval_arguments
from catalog.views.lasting_grants import LastingForm, present_lasting, propose_lasting
from catalog.views.tools import cut_text, title_of
from toolhub.invisible import show

ROWS_PER_PAGE = 50
MAX_ABOUT_BYTES = 20_000
STATUS_LABELS = dict(outcomes.CHOICES)
State = Approval.State
TONES = {State.APPROVED: "good", State.USED: "good", State.DENIED: "bad", State.EXPIRED: "warn", State.VOID: "warn"}
CALL_TONES = {outcomes.OK: "good", outcomes.RUNNING: "", outcomes.INPUT_REQUIRED: "", outcomes.CANCELLED: ""}
"""The tone of each status of an earlier call; statuses that are missing here are failures."""
CREDENTIAL_KINDS = {
    "token": gettext_lazy("Access token"),
    "stdio": gettext_lazy("Access token"),
    "app": gettext_lazy("Connected app"),
    "admin": gettext_lazy("Tried in the admin by"),
}
"""Prefix of a credential's id -> what it is."""


class ReasonForm(forms.Form):
    reason = forms.CharField(
        label=gettext_lazy("Reason (optional)"),
        max_length=MAX_REASON_CHARACTERS,
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "data-key": "d", "aria-keyshortcuts": "d"}),
        help_text=gettext_lazy("The model reads it. Say what to do instead."),
    )


class PeriodForm(forms.Form):
    """How long calls like the approved one need no approval, and which of their arguments must be the same."""

    minutes = forms.TypedChoiceField(label=gettext_lazy("Calls like this one"), coerce=int, required=False, initial=0)
    same = forms.MultipleChoiceField(
        label=gettext_lazy("With the same value of"), required=False, widget=forms.CheckboxSelectMultiple
    )

    def __init__(self, row: Approval, data: Any = None) -> None:
        super().__init__(data)
        names = list(row.argument_digests)
        self.fields["minutes"].choices = [(0, _("ask again"))] + [  # type: ignore[attr-defined]
            (number, ngettext("run for %(number)d minute", "run for %(number)d minutes", number) % {"number": number})
            for number in temporary.PERIODS
        ]
        self.fields["same"].choices = [(name, show(name)) for name in names]  # type: ignore[attr-defined]
        self.fields["same"].initial = names


@dataclass(frozen=True, slots=True)
class Temporary:
    """A temporary approval, as the list shows it."""

    row: TemporaryApproval
    tool: str
    user: str
    giver: str
    credential: str
    start: str
    """The beginning of the arguments that must be the same."""
    free: str
    """The names of those that may have any value."""


@dataclass(frozen=True, slots=True)
class Row:
    """One request, as lists and its own page show it."""

    approval: Approval
    state: str
    word: str
    tone: str
    tool: str
    user: str
    client: str
    rule: str
    group: str
    decider: str
    is_own: bool
    start: str
    """The beginning of its arguments."""
    can_open: bool

    @property
    def is_open(self) -> bool:
        return self.state in Approval.LIVE


def _present(row: Approval, user: User, group_ids: frozenset[int]) -> Row:
    state = State(row.state_at(timezone.now()))
    return Row(
        approval=row,
        state=state.value,
        word=str(state.label),
        tone=TONES.get(state, ""),
        tool=show(row.tool_name),
        user=show(row.user.get_username()),
        client=show(row.client),
        rule=show(row.rule_name),
        group=show(row.group.name) if row.group is not None else "",
        decider=show(row.decided_by_name),
        is_own=user.pk in row.callers,
        start=approval_arguments.start_of(row.arguments),
        can_open=user.pk in row.callers or (row.asks == APPROVERS and row.group_id in group_ids),
    )


@login_required
@never_cache
@require_safe
def listing(request: HttpRequest) -> HttpResponse:
    """Show what waits for the user, their own open requests, and what was decided lately."""
    user = cast(User, request.user)
    groups = frozenset(user.groups.values_list("pk", flat=True))
    page = Paginator(inbox.waiting_for(user), ROWS_PER_PAGE).get_page(request.GET.get("page"))

    def rows(found: Iterable[Approval]) -> list[Row]:
        return [_present(row, user, groups) for row in found]

    context = {
        "section": "approvals",
        "page": page,
        "waiting": rows(page),
        "own": rows(inbox.own_open(user)[:ROWS_PER_PAGE]),
        "recent": rows(inbox.list_recent(user)),
        "temporary": [_present_temporary(one) for one in temporary.list_for(user)[:ROWS_PER_PAGE]],
        "lasting": [present_lasting(one, user) for one in lasting.list_for(user)[:ROWS_PER_PAGE]],
    }
    return render(request, "catalog/approvals.html", context)


@login_required
@never_cache
@require_safe
def count(request: HttpRequest) -> HttpResponse:
    """Return how many requests wait for the user, for the pages that are open."""
    found = inbox.summarise(request.user)
    return JsonResponse(
        {"waiting": found.waiting, "newest": found.newest, "newest_at": found.newest_at, "version": found.version}
    )


@login_required
@never_cache
@require_safe
def detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    return show_request(request, require_seen(request, pk))


@login_required
@never_cache
@require_POST
def approve(request: HttpRequest, pk: UUID) -> HttpResponse:
    user, row = cast(User, request.user), require_seen(request, pk)
    form = PeriodForm(row, request.POST)
    if not form.is_valid():
        return show_request(request, row, period=form)
    minutes, same = form.cleaned_data["minutes"] or 0, form.cleaned_data["same"]
    done = _("You approved this call. It can run once.")
    if minutes:
        many = "You approved this call, and calls like it for %(number)d minutes."
        done = ngettext("You approved this call, and calls like it for %(number)d minute.", many, minutes)
        done %= {"number": minutes}
    return _decide(request, pk, lambda: decisions.approve(pk, user, minutes=minutes, same=same), done)


@login_required
@never_cache
@require_POST
def deny(request: HttpRequest, pk: UUID) -> HttpResponse:
    user = cast(User, request.user)
    form = ReasonForm(request.POST)
    if not form.is_valid():
        return show_request(request, require_seen(request, pk), form)
    reason = form.cleaned_data["reason"]
    return _decide(request, pk, lambda: decisions.deny(pk, user, reason), _("You denied this call. It does not run."))


@login_required
@never_cache
@require_POST
def withdraw(request: HttpRequest, pk: UUID) -> HttpResponse:
    user = cast(User, request.user)
    done = _("You withdrew this request. The call does not run.")
    return _decide(request, pk, lambda: decisions.withdraw(pk, user), done)


@login_required
@never_cache
@require_POST
def revoke(request: HttpRequest, pk: int) -> HttpResponse:
    """Revoke a temporary approval."""
    if not temporary.revoke(pk, cast(User, request.user)):
        raise Http404
    messages.success(request, _("You revoked this temporary approval. Calls like it ask again."))
    return redirect("catalog:approvals")


def _present_temporary(row: TemporaryApproval) -> Temporary:
    return Temporary(
        row,
        show(row.tool.name),
        show(row.user.get_username()),
        show(row.given_by.get_username()),
        show(row.credential_name),
        approval_arguments.start_of(row.arguments),
        ", ".join(show(name) for name in row.free_arguments),
    )


def require_seen(request: HttpRequest, pk: UUID) -> Approval:
    """Return a request that is theirs to see. Raises Http404."""
    row = Approval.objects.select_related("user", "maker", "group", "lasting_grant").filter(pk=pk).first()
    if row is None or not decisions.may_see(row, request.user):
        raise Http404
    return row


def _decide(request: HttpRequest, pk: UUID, decide: Callable[[], Approval], done: str) -> HttpResponse:
    """Decide, and show the request as it is then, with what was done or why not."""
    try:
        decide()
    except Refused as refused:
        if refused.row is None:
            raise Http404 from None
        messages.error(request, describe_refusal(refused.code, refused.row))
    else:
        messages.success(request, done)
    return redirect("catalog:approval", pk=pk)


def describe_refusal(code: str, row: Approval) -> str:
    """Return why a decision was not possible, and what to do next."""
    name = show(row.user.get_username())
    if code == "own":
        return _("You cannot approve your own call. Another member of the group decides.")
    if code == "decided":
        values = {"name": show(row.decided_by_name), "time": ""}
        if row.decided_at is not None:
            values["time"] = local_time.format_time_with_zone(row.decided_at, "minutes")
        if row.state == State.APPROVED:
            return _("%(name)s approved this call before you, on %(time)s. Nothing changed.") % values
        return _("%(name)s denied this call before you, on %(time)s. Nothing changed.") % values
    if code == "used":
        return _("This call was approved and has run already. Nothing changed.")
    if code == "withdrawn":
        return _("%(name)s withdrew this request. The call does not run.") % {"name": name}
    if code == "expired":
        return _("The time for this request is over. To ask again, %(name)s calls the tool again.") % {"name": name}
    return _(
        "The tool, a grant, the rule or a secret changed after the call asked, so the request is void. To ask again, "
        "%(name)s calls the tool again."
    ) % {"name": name}


def show_request(
    request: HttpRequest,
    row: Approval,
    form: ReasonForm | None = None,
    *,
    period: PeriodForm | None = None,
    lasting_form: LastingForm | None = None,
) -> HttpResponse:
    """Show one request, with the forms that this user may send."""
    user = cast(User, request.user)
    groups = frozenset(user.groups.values_list("pk", flat=True))
    catalogue = snapshot.latest()
    found = catalogue.items.get(("tool", row.tool_id or 0))
    tool = found if isinstance(found, ToolDefinition) else None
    rules = _find_rules(catalogue, tool, row)
    conditions = [condition for rule in rules for condition in rule.conditions]
    names = [step for condition in conditions for step in condition.steps[:1] if isinstance(step, str)]
    one = _present(row, user, groups)
    following, previous = inbox.find_next(user, row), inbox.find_previous(user, row)
    reads_log = user.is_staff and user.has_perm("audit.view_call")
    waits = one.state == State.WAITING
    context = {
        "section": "approvals",
        "one": one,
        "row": row,
        "title": show(title_of(tool)) if tool is not None else one.tool,
        "about": show(cut_text(tool.description, MAX_ABOUT_BYTES)) if tool is not None else "",
        "marks": _list_marks(tool),
        "is_gone": tool is None,
        "credential": show(row.credential_name),
        "credential_kind": CREDENTIAL_KINDS.get(row.credential.partition(":")[0], _("Credential")),
        "maker": show(row.maker.get_username()) if row.maker is not None and row.maker_id != row.user_id else "",
        "decider": one.decider,
        "reason": show(row.reason),
        "arguments": approval_arguments.read(row.arguments, names, tool.input_schema if tool is not None else None),
        "conditions": [show(words.translate(condition)) for condition in conditions],
        "windows": [
            (words.translate_window(window), rule.outside_windows) for rule in rules for window in rule.windows
        ],
        "asks_person": row.asks == PERSON,
        "form": form or ReasonForm(),
        "period": period or PeriodForm(row),
        "lasting": propose_lasting(row, user, catalogue, lasting_form),
        "lasting_grant": present_lasting(row, user) if row.lasting_grant is not None else None,
        "can_decide": waits and decisions.may_decide(row, user),
        "is_own_call": waits and row.asks == APPROVERS and row.four_eyes and one.is_own and row.group_id in groups,
        "can_withdraw": one.is_open and one.is_own,
        "similar": [_present(other, user, groups) for other in inbox.list_similar(row)],
        "calls": [_present_call(call, user.pk == row.user_id, reads_log) for call in inbox.list_earlier_calls(row)],
        "call_address": _call_address(row, user, reads_log),
        "following": following,
        "previous": previous if previous != following else None,
    }
    return render(request, "catalog/approval.html", context)


def _find_rules(catalogue: Snapshot, tool: ToolDefinition | None, row: Approval) -> list[AskRule]:
    return [] if tool is None else decisions.find_rules(catalogue, tool, row.rule_ids) or []


def _list_marks(tool: ToolDefinition | None) -> list[Mark]:
    return marks(tool.annotations) if tool is not None else []


@dataclass(frozen=True, slots=True)
class EarlierCall:
    at: datetime
    word: str
    tone: str
    address: str
    """The page of the call, for who may read it; else ""."""
    start: str
    """The beginning of its arguments, for the same; else ""."""


def _present_call(call: Call, is_own: bool, reads_log: bool) -> EarlierCall:
    """Return a call as its owner or an auditor reads it; anybody else learns its status and time only."""
    outcome = call.outcome if reads_log else outcomes.OWNER_OUTCOMES.get(call.outcome, call.outcome)
    address, start = "", ""
    if reads_log:
        address = reverse("admin:audit_call_change", args=[call.pk])
    elif is_own:
        address = reverse("access:call", args=[call.pk])
    if address:
        start = approval_arguments.start_of(call.arguments)
    word, tone = str(STATUS_LABELS.get(outcome, outcome)), CALL_TONES.get(outcome, "bad")
    return EarlierCall(call.started_at, word, tone, address, start)


def _call_address(row: Approval, user: User, reads_log: bool) -> str:
    """Return the page of the call that ran, or else of the one that asked, for who may read it."""
    key = row.used_by or row.call_id
    if user.pk == row.user_id:
        return reverse("access:call", args=[key])
    return reverse("admin:audit_call_change", args=[key]) if reads_log else ""
