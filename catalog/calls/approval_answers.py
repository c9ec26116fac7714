"""What a call that waits for approval, or that nobody approved, tells its client and the audit log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from audit import outcomes
from audit.recorder import Intent
from audit.types import Reason
from catalog.approvals import requests
from catalog.approvals.bindings import Question
from catalog.calls import call_log
from catalog.errors import NotApproved
from catalog.functions.sanitise import sanitise_line
from catalog.models import Approval
from catalog.policy.asking import PERSON, Ask
from catalog.policy.definitions import Snapshot, ToolDefinition
from toolhub import contact


@dataclass(frozen=True, slots=True)
class Subject:
    """One valid call, with the questions that it asks."""

    what: Intent
    tool: ToolDefinition
    catalogue: Snapshot
    questions: tuple[Question, ...]
    arguments: str
    """Redacted, for the log and for approvers."""
    values: Mapping[str, Any]
    """The arguments themselves."""
    first_times: Mapping[int, Any]
    """Rules that ask the first time with a value, by id, with the value of this call."""


def link(row: Approval) -> str:
    """Return the address at which people decide about a request."""
    return f"{settings.PUBLIC_URL}/approvals/{row.id}/"


def not_yet(subject: Subject, rows: Sequence[Approval], call_id: UUID) -> NotApproved:
    """Return the error of a call whose requests stay open when its own wait is over."""
    pairs = zip(subject.questions, rows, strict=True)
    open_ones = [(question.ask, row) for question, row in pairs if row.state == Approval.State.WAITING]
    first = open_ones[0][1]
    minutes = max(1, round((first.expires - timezone.now()).total_seconds() / 60))
    people = name_people([ask for ask, _row in open_ones])
    links = " and ".join(link(row) for _ask, row in open_ones)
    own = any(ask.asks == PERSON for ask, _row in open_ones)
    request = f"Ask the user to open {links}. " if own else f"They decide at {links}. "
    sentence = (
        f"This call has not run. It waits for approval by {people}, as the rule “{first.rule_name}” says. {request}"
        f"Call the tool again with the same arguments to see whether it is approved and to run it; the request is "
        f"open for {minutes} more min. Call {call_id}."
    )
    return NotApproved(sanitise_line(sentence), "waiting", call_id, link(first))


async def refuse_lost(subject: Subject) -> NoReturn:
    """Raise NotApproved for a call whose approval another call used, or that is void: nothing is asked again by itself.

    Whoever called twice gets one run.
    """
    sentence = (
        "This call has not run: its approval was withdrawn, used by another call with the same arguments, or is void "
        "because the tool, its grant, the rule or a secret changed meanwhile, or the approver may no longer approve. "
        "Look at the user's calls before you call again: that asks for a new approval."
    )
    await _refuse(subject, outcomes.APPROVAL_EXPIRED, sentence, Reason("approval.lost"), "void")


async def refuse_denied(subject: Subject, row: Approval) -> NoReturn:
    why = f": {row.reason}" if row.reason else "."
    sentence = (
        f"{row.decided_by_name} denied this call{why} It has not run. Do not try it again with the same arguments: "
        f"tell the user, or do something else."
    )
    if row.reason and row.reason[-1] not in ".!?":
        sentence = sentence.replace(f"{row.reason} It has", f"{row.reason}. It has", 1)
    reason = Reason("approval.denied", {"by": row.decided_by_name, "reason": row.reason})
    await _refuse(subject, outcomes.APPROVAL_DENIED, sentence, reason, "denied", row)


async def refuse_expired(subject: Subject, row: Approval) -> NoReturn:
    sentence = (
        f"This call has not run: nobody approved it in time (rule “{row.rule_name}”). Call the tool again to ask "
        f"again, or ask {contact.english()}."
    )
    await _refuse(subject, outcomes.APPROVAL_EXPIRED, sentence, Reason("approval.expired"), "expired", row)


async def refuse_too_many(subject: Subject) -> NoReturn:
    most = requests.MAX_PENDING
    sentence = (
        f"{most} calls of this user wait for approval, which is the maximum, so this one was not asked about and has "
        f"not run. Wait for an answer, or ask the user to withdraw some at {settings.PUBLIC_URL}/approvals/."
    )
    await _refuse(subject, outcomes.LIMITED, sentence, Reason("approval.too_many", {"most": most}), "denied")


async def _refuse(
    subject: Subject, outcome: str, sentence: str, reason: Reason, status: str, row: Approval | None = None
) -> NoReturn:
    what = subject.what
    what.arguments = subject.arguments
    detail = sentence if outcome != outcomes.APPROVAL_DENIED or row is None else f"denied by {row.decided_by_name}"
    call_id = await call_log.refuse(what, outcome, detail, "NotApproved", reason=reason)
    raise NotApproved(sanitise_line(sentence), status, call_id, "" if row is None else link(row))


def name_rules(subject: Subject) -> str:
    return ", ".join(dict.fromkeys(rule.name for question in subject.questions for rule in question.ask.rules))


def name_people(asks: Sequence[Ask]) -> str:
    """Return who is asked, in English."""
    found = []
    for ask in asks:
        if ask.asks == PERSON:
            found.append("the user")
        else:
            found.append(f"the group {ask.group_name}" if ask.group_id is not None else "a group that was deleted")
    return " and ".join(found)
