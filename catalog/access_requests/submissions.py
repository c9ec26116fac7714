"""A person's side: make and withdraw requests for access, report failed calls, and be told the answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import models, transaction
from django.db.models import Exists
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from audit import outcomes
from audit.actions import log
from audit.models import Call
from catalog.access_requests.requestable import RequestableToolset
from catalog.models import AccessRequest, CallReport, Grant, Tool
from catalog.models.grant_conditions import check_grant
from catalog.policy.definitions import ToolDefinition

KIND, REPORT_KIND = "access request", "reported call"
"""Kinds in admin activity."""
MAX_OPEN = 20
"""Maximum open requests of one person, and as many reported calls."""
MAX_PER_DAY = 50
"""Maximum requests of one person in 24 hours, withdrawn ones too; and as many reported calls."""
NOT_FAILED: Final = frozenset({outcomes.OK, outcomes.RUNNING, outcomes.INPUT_REQUIRED, outcomes.WAITING})


_GONE = gettext_lazy("What you asked for is no longer there. Choose from the list again.")


class Refused(Exception):
    """A request, a report or a decision that is not possible; the text is a sentence for the person who tried."""


def name_for_log(request: AccessRequest) -> str:
    return f"{request.kind} {request.name} for {request.person.get_username()}"


def submit(
    user: User,
    choice: RequestableToolset,
    tool: ToolDefinition | None,
    reason: str,
    conditions: list[dict[str, Any]] | None = None,
) -> AccessRequest:
    """Request a toolset, or one of its tools, for all calls or for those that satisfy conditions as a grant has.

    Raises Refused, and ValidationError for conditions that fit no call of the tool.
    """
    if choice.is_complete or (tool is not None and tool.id in choice.own):
        raise Refused(_("You have this access already."))
    made = AccessRequest(
        person=user,
        kind=AccessRequest.Kind.TOOLSET if tool is None else AccessRequest.Kind.TOOL,
        toolset=choice.toolset,
        tool_id=None if tool is None else tool.id,
        name=choice.toolset.name if tool is None else tool.name,
        reason=reason,
        conditions=conditions or [],
    )
    _check_conditions(made)

    def check() -> None:
        same = AccessRequest.objects.filter(
            person=user, state=AccessRequest.State.OPEN, kind=made.kind, **_target_of(made)
        )
        if same.exists():
            raise Refused(_("Your request for this is open already."))
        _check_bounds(AccessRequest.objects.filter(person=user), _("Withdraw one of them first."))

    _save(user, made, check)
    return made


def _check_conditions(request: AccessRequest) -> None:
    """Raise ValidationError unless a grant could have the conditions, and Refused when there is nothing to grant."""
    if not request.conditions:
        return
    if request.tool_id is None:
        raise Refused(_("Conditions are possible for one tool only."))
    tool = Tool.objects.filter(pk=request.tool_id).first()
    if tool is None:
        raise Refused(_GONE)
    grant = Grant(tool=tool, user=request.person, conditions=request.conditions)
    grant.clean_fields(exclude={field.name for field in Grant._meta.fields} - {"conditions"})
    check_grant(grant)


def _target_of(request: AccessRequest) -> dict[str, Any]:
    if request.kind == AccessRequest.Kind.TOOL:
        return {"tool": request.tool_id}
    return {"toolset": request.toolset_id}


def withdraw(user: User, key: int) -> bool:
    """Withdraw an open request of this person; return False when it is not open any more.

    Raises AccessRequest.DoesNotExist for a request of another person, as for none.
    """
    with transaction.atomic():
        found = AccessRequest.objects.select_for_update(of=("self",)).select_related("person").get(pk=key, person=user)
        if not found.is_open:
            return False
        found.state, found.decided_at = AccessRequest.State.WITHDRAWN, timezone.now()
        found.save(update_fields=["state", "decided_at"])
        log.record("withdrawn", KIND, name_for_log(found))
    return True


def can_report(call: Call) -> bool:
    """Return whether the call ended, and did not end in success."""
    return call.outcome not in NOT_FAILED


def report(user: User, call: Call, comment: str) -> CallReport:
    """Report a call of this person to the administrators. Raises Refused."""
    if not can_report(call):
        raise Refused(_("Only a call that ended without success can be reported."))
    outcome = outcomes.OWNER_OUTCOMES.get(call.outcome, call.outcome)
    hidden = outcome == outcomes.UNKNOWN_TOOL
    made = CallReport(
        person=user,
        call_id=call.pk,
        name=call.name[:500] or "-",  # a client may call a tool with no name
        outcome=outcome,
        detail="" if hidden else call.detail,
        detail_reason="" if hidden else call.detail_reason,
        comment=comment,
    )

    def check() -> None:
        if CallReport.objects.filter(call_id=call.pk, state=CallReport.State.OPEN).exists():
            raise Refused(_("You reported this call already."))
        _check_bounds(CallReport.objects.filter(person=user), _("Wait for an answer first."))

    _save(user, made, check)
    return made


def _save(user: User, made: AccessRequest | CallReport, check: Callable[[], None]) -> None:
    """Save a row of this person if nothing is against it. Raises Refused."""
    with transaction.atomic():
        # One at a time for each person: the second of two clicks finds what the first did.
        User.objects.select_for_update().get(pk=user.pk)
        check()
        try:
            made.full_clean(exclude=("person",))
        except ValidationError:
            # The form was checked before: its toolset or tool was deleted since.
            raise Refused(_GONE) from None
        made.save()
        if isinstance(made, AccessRequest):
            asked = {"conditions": made.conditions} if made.conditions else {}
            log.record("requested", KIND, name_for_log(made), None, {"reason": made.reason, **asked})
        else:
            target = f"{made.name} ({made.call_id})"
            log.record("reported", REPORT_KIND, target, None, {"user": user.get_username(), "comment": made.comment})


def _check_bounds(mine: models.QuerySet[Any], advice: str) -> None:
    if mine.filter(state="open").count() >= MAX_OPEN:
        raise Refused(_("You have %(most)d open requests, which is the maximum.") % {"most": MAX_OPEN} + " " + advice)
    if mine.filter(created__gte=timezone.now() - timedelta(days=1)).count() >= MAX_PER_DAY:
        raise Refused(_("You made %(most)d requests within a day. Try again tomorrow.") % {"most": MAX_PER_DAY})


def _unseen_requests(user_id: int) -> models.QuerySet[AccessRequest]:
    return AccessRequest.objects.filter(person=user_id, state__in=AccessRequest.ANSWERED, seen=None)


def _unseen_reports(user_id: int) -> models.QuerySet[CallReport]:
    return CallReport.objects.filter(person=user_id, state=CallReport.State.CLOSED, seen=None)


@dataclass(frozen=True, slots=True)
class RequestSummary:
    any_requests: bool
    """Whether the person ever requested something."""
    unseen: bool
    """Whether there is an answer that the person has not seen."""


def find_summary(user_id: int) -> RequestSummary:
    """Return the state of a person's requests, with one query."""
    own = AccessRequest.objects.filter(person=user_id)
    unseen = Exists(_unseen_requests(user_id)) | Exists(_unseen_reports(user_id))
    rows = User.objects.filter(pk=user_id).annotate(any_requests=Exists(own), unseen=unseen)
    found = rows.values_list("any_requests", "unseen").first()
    return RequestSummary(*(found or (False, False)))


def mark_seen(user_id: int) -> None:
    """Remember that this person saw all answers to requests, and all answers to reports."""
    for rows in (_unseen_requests(user_id), _unseen_reports(user_id)):
        if rows.exists():  # no page writes without need
            rows.update(seen=timezone.now())


def find_report(user_id: int, call_id: Any) -> CallReport | None:
    """Return the latest report of this call by this person."""
    return CallReport.objects.filter(person=user_id, call_id=call_id).order_by("-id").first()
