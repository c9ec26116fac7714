"""Rows that belong to a logged call: the rule that decided, its approvals, and the item. For the page of a call."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.db.models import Model, Q
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from audit import local_time
from audit.hooks import Related
from audit.models import Call
from audit.types import Reason
from catalog.calls import call_log
from catalog.models import Approval, ApprovalRule, Grant, Limit, Prompt, Resource, Tool
from catalog.policy import messages
from catalog.policy.definitions import APPROVAL, GRANT, LIMIT, LIMIT_REACHED
from toolhub.invisible import show

_RULES: dict[str, tuple[type[ApprovalRule | Grant | Limit], Any, str]] = {
    GRANT: (Grant, gettext_lazy("Grant"), "grant"),
    LIMIT: (Limit, gettext_lazy("Limit"), "limit"),
    LIMIT_REACHED: (Limit, gettext_lazy("Limit"), "limit"),
    APPROVAL: (ApprovalRule, gettext_lazy("Approval rule"), "approval rule"),
}
"""Code of a reason -> the model of the rule, its title, and its kind in admin activity."""
_ITEMS: dict[str, tuple[type[Tool | Prompt | Resource], Any]] = {
    call_log.TOOL: (Tool, gettext_lazy("Tool")),
    call_log.PROMPT: (Prompt, gettext_lazy("Prompt")),
    call_log.RESOURCE: (Resource, gettext_lazy("Resource")),
}
MAX_ID = 2**63 - 1
MAX_APPROVALS = 10
"""Maximum approvals of one call that its page lists: each of its questions has one."""


def find_related(call: Call, viewer: Any) -> list[Related]:
    """Return the rule, the approvals and the item of a call, as far as this viewer may view them."""
    reasons = [Reason.read(text) for text in (call.rule_reason, call.detail_reason)]
    found = [_describe_rule(reason, call.started_at, viewer) for reason in reasons]
    lifting = _describe_rule(_find_lifting(reasons[0]), call.started_at, viewer, _("Grant without approval"))
    return [*filter(None, [*found, lifting]), *_describe_approvals(call, viewer), *_describe_item(call, viewer)]


def _find_lifting(reason: Reason | None) -> Reason | None:
    """Return the grant by which a call ran without the approval that a rule asks for, unless it allowed it as well."""
    if reason is None or reason.params.get("lifted_by") in (None, reason.params.get("number")):
        return None
    return Reason(GRANT, {"number": reason.params["lifted_by"]})


def _describe_rule(reason: Reason | None, at: datetime, viewer: Any, other_title: str = "") -> Related | None:
    """Return the rule: who made it and when, its note, whether it changed since, or who deleted it."""
    model, rule_title, kind = _RULES.get(reason.code if reason is not None else "", (None, "", ""))
    number = reason.params.get("number") if reason is not None else None
    if model is None or type(number) is not int or not 0 < number <= MAX_ID or not _may_view(viewer, model):
        return None
    title = other_title or str(rule_title)
    row: Any = model.objects.filter(pk=number).first()
    versions = model.history.filter(id=number).select_related("history_user").order_by("history_date", "history_id")
    first, last = versions.first(), versions.last()
    details = []
    if first is not None and first.history_type == "+":
        details.append(_by(_("Created %(at)s by %(name)s."), _("Created %(at)s."), first))
    if row is None:
        if last is not None and last.history_type == "-":
            details.append(_by(_("Deleted %(at)s by %(name)s."), _("Deleted %(at)s."), last))
        details.append(_("It no longer exists."))
        links = []
        if viewer.has_perm("audit.view_action"):
            query = urlencode({"kind": kind, "verb": "deleted"})
            links.append((_("Admin activity"), f"{reverse('admin:audit_action_changelist')}?{query}"))
        return Related(title, f"{number}", "", details, links)
    if last is not None and last.history_date > at:
        details.append(_("Changed since this call. Its history has the earlier version."))
    if note := getattr(row, "note", ""):
        details.append(_("Note: %(note)s") % {"note": note})
    history = (_("History"), reverse(f"admin:catalog_{model._meta.model_name}_history", args=[row.pk]))
    return Related(title, messages.name_row(row), _url(row), details, [history])


def _describe_approvals(call: Call, viewer: Any) -> list[Related]:
    """Return the requests that the call made, and those that it used."""
    if not _may_view(viewer, Approval):
        return []
    rows = Approval.objects.filter(Q(call_id=call.pk) | Q(used_by=call.pk)).order_by("created", "id")
    return [_describe_approval(row, call) for row in rows[:MAX_APPROVALS]]


def _describe_approval(row: Approval, call: Call) -> Related:
    details = [_("Rule: %(name)s") % {"name": show(row.rule_name)}]
    if row.decided_at is not None:
        at = local_time.format_time_with_zone(row.decided_at, "minutes")
        details.append(_("Decided %(at)s by %(name)s.") % {"at": at, "name": show(row.decided_by_name)})
    if row.by_client:
        details.append(_("Answered in the AI client."))
    if row.reason:
        details.append(_("Reason: %(reason)s") % {"reason": show(row.reason)})
    others = ((_("Call that asked"), row.call_id), (_("Call that ran"), row.used_by))
    links = [
        (title, reverse("admin:audit_call_change", args=[pk]))
        for title, pk in others
        if pk is not None and pk != call.pk
    ]
    name = str(dict(Approval.State.choices)[row.state_at(timezone.now())])
    return Related(_("Approval"), name, _url(row), details, links)


def _describe_item(call: Call, viewer: Any) -> list[Related]:
    model, title = _ITEMS.get(call.method, (None, ""))
    if model is None or call.target_id is None or not _may_view(viewer, model):
        return []
    row = model.objects.filter(pk=call.target_id).first()
    if row is None:
        return [Related(str(title), f"{call.target_id}", "", [_("It no longer exists.")])]
    return [Related(str(title), str(row), _url(row))]


def _by(with_name: str, without: str, version: Any) -> str:
    at = local_time.format_time_with_zone(version.history_date, "minutes")
    user = version.history_user
    return with_name % {"at": at, "name": user.get_username()} if user is not None else without % {"at": at}


def _may_view(viewer: Any, model: type[Model]) -> bool:
    name = model._meta.model_name
    return bool(viewer.has_perm(f"catalog.view_{name}") or viewer.has_perm(f"catalog.change_{name}"))


def _url(row: Any) -> str:
    return reverse(f"admin:catalog_{row._meta.model_name}_change", args=[row.pk])
