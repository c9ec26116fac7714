"""Calls that ask a person before they run: the questions of a call, the wait for their answers, and the use of them.

    approved = await check(...)     None: nothing to ask; else every question has an approval, or had one after a wait
    await use(approved, call_id)    once, immediately before the run

The client hears of it the best way it can. The person themself gets a question of the protocol, in the client where
that counts, else with the link to the page that does (elicitation, form and URL mode). A task waits as long as the
question is open. Any other request waits less long than clients do, with progress, and ends in a sentence with the
link: the same call finds the request again, or the approval.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from audit import outcomes, recorder
from audit.recorder import Intent
from audit.redaction import redactor
from audit.redaction.rules import MAX_HIDDEN_VALUES, are_too_many
from audit.types import Reason
from catalog import threads
from catalog.approvals import bindings, known_values, requests, temporary
from catalog.approvals.bindings import Question
from catalog.approvals.requests import Asked, TooMany
from catalog.calls import approval_answers as answers
from catalog.calls import call_log, judgement
from catalog.calls.approval_answers import Subject
from catalog.calls.approval_wait import Wait, in_storage, patience_of
from catalog.calls.prepared_tools import PreparedTool
from catalog.functions.channel import Channel
from catalog.functions.results import size_of
from catalog.models import Approval, TemporaryApproval
from catalog.policy import asking, snapshot
from catalog.policy.asking import Questions
from catalog.policy.definitions import Snapshot, ToolDefinition
from catalog.policy.rules import Requester
from catalog.schemas import errors as schema_errors
from catalog.schemas import patterns, validator
from catalog.schemas.errors import SchemaProblem
from toolhub import deadline

State = Approval.State


class NotShown(Exception):
    """Error: nobody could see what they approve. `problem` is that of the arguments."""

    def __init__(self, problem: SchemaProblem) -> None:
        super().__init__(str(problem))
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Approved:
    """A call whose questions all have an approval."""

    subject: Subject
    approvals: tuple[Approval | TemporaryApproval, ...]
    waited: frozenset[UUID] = frozenset()
    """The requests that it has waited for. Then it is decided again from the beginning."""
    call_id: UUID | None = None
    """The id of the run that a task has announced."""
    continues: UUID | None = None
    """The call that has used the approvals, and of which this is the next round."""

    @property
    def was_logged(self) -> bool:
        """Whether this call has an entry already, which says that it waits for approval."""
        return any(isinstance(row, Approval) for row in self.approvals)


async def check(
    what: Intent,
    catalogue: Snapshot,
    prepared: PreparedTool,
    tool: ToolDefinition,
    arguments: dict[str, Any],
    channel: Channel,
    begun: Callable[[UUID], Awaitable[None]] | None,
    call_id: UUID | None,
    waited: frozenset[UUID],
) -> Approved | None:
    """Return the approvals of a valid call, if need be after a wait for them; None for one that need not ask.

    `arguments` have their fixed values; `waited` are the requests that this call has waited for before. Raises
    NotApproved, NotShown, NeedsInput, CallNotLogged.
    """
    subject = await _find_subject(what, catalogue, prepared, tool, arguments)
    if subject is None:
        return None
    approvals = await _look(subject)
    continues = channel.continues if approvals is None else None
    if continues is not None:
        approvals = await _look_for_round(subject, continues)
    if approvals is not None:
        return Approved(subject, tuple(approvals), continues=continues)
    if waited:
        await answers.refuse_lost(subject)
    number, ids = await _wait(subject, channel, begun, call_id)
    return Approved(subject, (), ids, number)


async def _find_subject(
    what: Intent, catalogue: Snapshot, prepared: PreparedTool, tool: ToolDefinition, arguments: dict[str, Any]
) -> Subject | None:
    """Return what a valid call has to ask; None when it may run. `arguments` have their fixed values.

    Raises CallNotLogged when the secrets that an approval is bound to cannot be read, NotShown for arguments that the
    log would not keep.
    """
    credential = what.caller.credential
    complete = prepared.complete(arguments)
    first_times = asking.find_first_times(catalogue, tool, complete)
    known: frozenset[int] = frozenset()
    if first_times:
        try:
            known = await in_storage(lambda: known_values.find(credential.user_id, tool.id, first_times))
        except RecursionError:
            raise NotShown(SchemaProblem((), schema_errors.TOO_COMPLEX)) from None
    found = await _find_asks(what, catalogue, tool, arguments, complete, known)
    if found.lifted_by is not None:
        _name_more(what, f"without approval (grant {found.lifted_by.id})", {"lifted_by": found.lifted_by.id})
    if not found.asks:
        return None
    asks = found.asks
    shown = _show_arguments(prepared, arguments)

    def read() -> list[str]:
        sides = [ask.rules for ask in asks]
        return bindings.find_contexts(catalogue, credential.user_id, prepared.tool, sides, time.time())

    contexts = await in_storage(read)
    rules = {rule.id for ask in asks for rule in ask.rules}
    asked_first = {rule: value for rule, value in first_times.items() if rule in rules}
    try:
        questions = tuple(
            Question(ask, context, bindings.bind(context, credential.user_id, credential.id, ask, arguments))
            for ask, context in zip(asks, contexts, strict=True)
        )
    except RecursionError:
        raise NotShown(SchemaProblem((), schema_errors.TOO_COMPLEX)) from None
    return Subject(what, prepared.tool, catalogue, questions, shown, arguments, asked_first)


def _show_arguments(prepared: PreparedTool, arguments: dict[str, Any]) -> str:
    """Return the arguments as approvers read them. Raises NotShown when that is none of them."""
    most = call_log.MAX_RESULT_CHARACTERS
    if size_of(arguments, most) > most:
        raise NotShown(SchemaProblem((), schema_errors.TOO_LARGE, {"limit": most}))
    hidden: list[str] = []
    shown = prepared.rejected_arguments_text(arguments, hidden)
    if shown.startswith(redactor.NOT_LOGGED):
        raise NotShown(SchemaProblem((), schema_errors.TOO_COMPLEX))
    if are_too_many(hidden):
        raise NotShown(SchemaProblem((), schema_errors.HIDDEN_LIMIT, {"most": MAX_HIDDEN_VALUES}))
    return shown


async def _find_asks(
    what: Intent,
    catalogue: Snapshot,
    tool: ToolDefinition,
    arguments: dict[str, Any],
    complete: dict[str, Any],
    known: frozenset[int],
) -> Questions:
    """Return the questions of a call; large arguments are looked at off the event loop. In doubt, all of them."""
    credential = what.caller.credential
    requester = Requester(credential.user_id, credential.toolset_ids)
    now = time.time()

    def find(seconds: float) -> Questions:
        check_time = judgement.make_time_check(seconds)
        with patterns.regex_budget(seconds):
            return asking.find_asks(
                catalogue, requester, tool, now, settings.ENVIRONMENT, arguments, complete, check_time, known
            )

    if size_of(arguments, validator.MAX_INLINE_BYTES) <= validator.MAX_INLINE_BYTES:
        try:
            return find(validator.MAX_LOOP_SECONDS)
        except patterns.BudgetError:
            pass
    try:
        return await threads.checks().run(lambda: find(validator.MAX_ARGUMENTS_SECONDS), user_id=credential.user_id)
    except (patterns.BudgetError, threads.Busy):
        return Questions(tuple(asking.all_asks(catalogue, requester, tool, now, settings.ENVIRONMENT)))


async def _look(subject: Subject) -> list[Approval | TemporaryApproval] | None:
    """Return the approvals of a call when each of its questions has one; None while one has not.

    Raises NotApproved for a call that was denied a short while ago.
    """

    def read() -> list[Approval | TemporaryApproval | None]:
        now = timezone.now()
        found: list[Approval | TemporaryApproval | None] = []
        for question, row in zip(subject.questions, requests.find(subject.questions, now), strict=True):
            if row is not None and (row.state == State.DENIED or requests.is_usable(row, subject.catalogue, now)):
                found.append(row)
            else:
                found.append(temporary.find(question, subject.what.caller, subject.tool.id, subject.values, now))
        return found

    rows = await in_storage(read)
    for row in rows:
        if isinstance(row, Approval) and row.state == State.DENIED:
            await answers.refuse_denied(subject, row)
    return None if None in rows else rows


async def _look_for_round(subject: Subject, continues: UUID) -> list[Approval | TemporaryApproval] | None:
    """Return the approvals of a call that asked its client something, and goes on with the answers; None without."""

    def read() -> list[Approval | TemporaryApproval | None]:
        now = timezone.now()
        used = requests.find_used(subject.questions, continues, subject.catalogue, now)
        return [
            row or temporary.find(question, subject.what.caller, subject.tool.id, subject.values, now)
            for question, row in zip(subject.questions, used, strict=True)
        ]

    rows = await in_storage(read)
    return None if None in rows else rows


async def use(approved: Approved, call_id: UUID) -> None:
    """Use the approvals for one run, and name them in its log entry. Raises NotApproved when one was lost."""
    subject, approvals = approved.subject, approved.approvals
    user_id = subject.what.caller.user_id

    def remember() -> None:
        if subject.first_times:
            known_values.remember(user_id, subject.tool.id, subject.first_times)

    if not await in_storage(lambda: requests.use(approvals, call_id, snapshot.current(), remember, approved.continues)):
        await answers.refuse_lost(subject)
    names = ", ".join(dict.fromkeys(_name_approver(row) for row in approvals))
    more = {"approved_by": names, "approvals": [_name_approval(row) for row in approvals]}
    _name_more(subject.what, f"approved by {names}", more)


def _name_more(what: Intent, english: str, params: Mapping[str, Any]) -> None:
    """Name, beside the rule that allows a call, what else let it run."""
    given = Reason.read(what.rule_reason)
    if given is not None:
        what.rule_reason = Reason(given.code, {**given.params, **params}).text
    what.rule = f"{what.rule}, {english}"


async def _wait(
    subject: Subject, channel: Channel, begun: Callable[[UUID], Awaitable[None]] | None, call_id: UUID | None
) -> tuple[UUID | None, frozenset[UUID]]:
    """Log that the call waits, ask, and wait until every question is answered with yes.

    Returns the id that a task has announced for the run (None without one), and the requests that were waited for.
    Raises NotApproved, NeedsInput.
    """
    what = subject.what
    reason = Reason("approval.waiting", {"rules": answers.name_rules(subject)})
    what.arguments = subject.arguments
    attempt = await call_log.refuse(what, outcomes.WAITING, f"waits: {answers.name_rules(subject)}", reason=reason)
    caller = what.caller
    asked = Asked(caller, attempt, subject.tool.id, subject.tool.name, subject.arguments, subject.values)
    try:
        rows = await in_storage(lambda: requests.make(subject.questions, asked))
    except TooMany:
        await answers.refuse_too_many(subject)
    number = None
    if begun is not None:
        number = call_id or recorder.new_call_id()
        await begun(number)
    waiting = Wait(subject, channel, rows, attempt)
    try:
        await waiting.run(None if begun is not None else patience_of(caller.transport))
    except asyncio.CancelledError:
        if begun is not None:  # nobody else could use what a cancelled task asked for
            await asyncio.shield(in_storage(lambda: _withdraw(rows, caller.username)))
        raise
    finally:
        deadline.restart()
    return number, frozenset(row.id for row in rows)


def _withdraw(rows: Sequence[Approval], username: str) -> None:
    for row in rows:
        requests.end(row, State.WITHDRAWN, username)


def _name_approver(row: Approval | TemporaryApproval) -> str:
    return str(row.given_by.get_username()) if isinstance(row, TemporaryApproval) else row.decided_by_name


def _name_approval(row: Approval | TemporaryApproval) -> str:
    return f"temporary {row.pk}" if isinstance(row, TemporaryApproval) else str(row.pk)
