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
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn
from uuid import UUID, uuid4

from django.conf import settings
from django.contrib.auth.models import User
from django.db import DatabaseError, InterfaceError
from django.utils import timezone

from audit import outcomes, recorder
from audit.recorder import Intent
from audit.redaction import redactor
from audit.redaction.rules import MAX_HIDDEN_VALUES, are_too_many
from audit.types import Reason
from catalog import threads
from catalog.approvals import bindings, decisions, known_values, requests, temporary
from catalog.approvals.bindings import Question
from catalog.approvals.requests import Asked, TooMany
from catalog.calls import call_log, judgement, tasks
from catalog.calls.prepared_tools import PreparedTool
from catalog.errors import CallNotLogged, ClientLacks, ClientRefused, NeedsInput, NotApproved
from catalog.functions.channel import Channel
from catalog.functions.results import size_of
from catalog.functions.sanitise import sanitise_line, sanitise_text
from catalog.models import Approval, TemporaryApproval
from catalog.policy import asking, snapshot
from catalog.policy.asking import PERSON, Ask
from catalog.policy.definitions import Snapshot, ToolDefinition
from catalog.policy.rules import Requester
from catalog.schemas import errors as schema_errors
from catalog.schemas import patterns, validator
from catalog.schemas.errors import SchemaProblem
from toolhub import contact, deadline
from toolhub.parts import parts
from toolhub.wire.versions import MODERN

log = logging.getLogger(__name__)
WAIT_SECONDS: Final = 50.0
"""Seconds that a request waits for an answer: less than the 60 s after which clients give up."""
TRY_SECONDS: Final = 600.0
"""Seconds that a try in the admin waits: its page shows that it does."""
POLL_SECONDS: Final = 1.0
PROGRESS_SECONDS: Final = 5.0
PROGRESS_STEP: Final = 1e-6
"""Progress of the wait: less than whatever the tool reports later, because progress must increase."""
MAX_FORM_CHARACTERS: Final = 1_000
"""Characters of arguments that a question in the client shows. It shows all of them, or the page does."""
State = Approval.State


class NotShown(Exception):
    """Error: nobody could see what they approve. `problem` is that of the arguments."""

    def __init__(self, problem: SchemaProblem) -> None:
        super().__init__(str(problem))
        self.problem = problem


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
        await _refuse_lost(subject)
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
            known = await _in_storage(lambda: known_values.find(credential.user_id, tool.id, first_times))
        except RecursionError:
            raise NotShown(SchemaProblem((), schema_errors.TOO_COMPLEX)) from None
    asks = await _find_asks(what, catalogue, tool, arguments, complete, known)
    if not asks:
        return None
    shown = _show_arguments(prepared, arguments)

    def read() -> list[str]:
        sides = [ask.rules for ask in asks]
        return bindings.find_contexts(catalogue, credential.user_id, prepared.tool, sides, time.time())

    contexts = await _in_storage(read)
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
) -> tuple[Ask, ...]:
    """Return the questions of a call; large arguments are looked at off the event loop. In doubt, all of them."""
    credential = what.caller.credential
    requester = Requester(credential.user_id, credential.toolset_ids)
    now = time.time()

    def find(seconds: float) -> tuple[Ask, ...]:
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
        return tuple(asking.all_asks(catalogue, requester, tool, now, settings.ENVIRONMENT))


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

    rows = await _in_storage(read)
    for row in rows:
        if isinstance(row, Approval) and row.state == State.DENIED:
            await _refuse_denied(subject, row)
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

    rows = await _in_storage(read)
    return None if None in rows else rows


async def use(approved: Approved, call_id: UUID) -> None:
    """Use the approvals for one run, and name them in its log entry. Raises NotApproved when one was lost."""
    subject, approvals = approved.subject, approved.approvals
    user_id = subject.what.caller.user_id

    def remember() -> None:
        if subject.first_times:
            known_values.remember(user_id, subject.tool.id, subject.first_times)

    if not await _in_storage(
        lambda: requests.use(approvals, call_id, snapshot.current(), remember, approved.continues)
    ):
        await _refuse_lost(subject)
    names = ", ".join(dict.fromkeys(_name_approver(row) for row in approvals))
    what = subject.what
    given = Reason.read(what.rule_reason)
    if given is not None:
        more = {"approved_by": names, "approvals": [_name_approval(row) for row in approvals]}
        what.rule_reason = Reason(given.code, {**given.params, **more}).text
    what.rule = f"{what.rule}, approved by {names}"


async def _wait(
    subject: Subject, channel: Channel, begun: Callable[[UUID], Awaitable[None]] | None, call_id: UUID | None
) -> tuple[UUID | None, frozenset[UUID]]:
    """Log that the call waits, ask, and wait until every question is answered with yes.

    Returns the id that a task has announced for the run (None without one), and the requests that were waited for.
    Raises NotApproved, NeedsInput.
    """
    what = subject.what
    reason = Reason("approval.waiting", {"rules": _rule_names(subject)})
    what.arguments = subject.arguments
    attempt = await call_log.refuse(what, outcomes.WAITING, f"waits: {_rule_names(subject)}", reason=reason)
    caller = what.caller
    asked = Asked(caller, attempt, subject.tool.id, subject.tool.name, subject.arguments, subject.values)
    try:
        rows = await _in_storage(lambda: requests.make(subject.questions, asked))
    except TooMany:
        await _refuse_too_many(subject)
    number = None
    if begun is not None:
        number = call_id or recorder.new_call_id()
        await begun(number)
    waiting = _Wait(subject, channel, rows, attempt)
    try:
        await waiting.run(None if begun is not None else _patience(caller.transport))
    except asyncio.CancelledError:
        if begun is not None:  # nobody else could use what a cancelled task asked for
            await asyncio.shield(_in_storage(lambda: _withdraw(rows, caller.username)))
        raise
    finally:
        deadline.restart()
    return number, frozenset(row.id for row in rows)


def _patience(transport: str) -> float:
    """Return how many seconds a call of this transport waits that is no task."""
    return {"test": 0.0, "admin": TRY_SECONDS}.get(transport, WAIT_SECONDS)


def _withdraw(rows: Sequence[Approval], username: str) -> None:
    for row in rows:
        requests.end(row, State.WITHDRAWN, username)


class Waits:
    """The waits of this process: they end when it stops."""

    def __init__(self) -> None:
        self.are_over = False
        """Whether calls no longer wait: each ends as one whose patience is over, and its request stays."""


class _Wait:
    """One call that waits for the answers to its questions."""

    def __init__(self, subject: Subject, channel: Channel, rows: Sequence[Approval], call_id: UUID) -> None:
        self._subject, self._channel, self._rows, self._call_id = subject, channel, list(rows), call_id
        self._question: asyncio.Task[None] | None = None

    async def run(self, patience: float | None) -> None:
        """Return when all are approved. Raises NotApproved; after `patience` seconds also while they wait."""
        loop = asyncio.get_running_loop()
        until = None if patience is None else loop.time() + patience
        step, next_progress = 0, 0.0
        try:
            self._ask_person()
            while True:
                await self._look_again()
                if all(row.state == State.APPROVED for row in self._rows):
                    return
                if parts.get(Waits).are_over or (until is not None and loop.time() >= until):
                    raise self._not_yet()
                if loop.time() >= next_progress:
                    step, next_progress = step + 1, loop.time() + PROGRESS_SECONDS
                    await self._channel.progress(step * PROGRESS_STEP, None, self._describe())
                await self._sleep(loop, until)
        finally:
            if self._question is not None:
                self._question.cancel()
                await asyncio.gather(self._question, return_exceptions=True)

    async def _sleep(self, loop: asyncio.AbstractEventLoop, until: float | None) -> None:
        """Wait for a short time, or until the person has answered in the client."""
        seconds = POLL_SECONDS if until is None else max(0.0, min(POLL_SECONDS, until - loop.time()))
        if self._question is None:
            await asyncio.sleep(seconds)
            return
        done, _ = await asyncio.wait([self._question], timeout=seconds)
        if done:
            question, self._question = self._question, None
            question.result()  # raises NeedsInput, which carries the question to the client

    async def _look_again(self) -> None:
        """Read the requests. Raises NotApproved when one was denied, withdrawn, voided, used or has expired."""
        try:
            found = await threads.storage().run(lambda: requests.read_again([row.id for row in self._rows]), wait=30.0)
        except (DatabaseError, InterfaceError, threads.Busy, OSError) as error:
            log.warning("a request for approval could not be read: %s", type(error).__name__)
            return
        now = timezone.now()
        for number, row in enumerate(self._rows):
            self._rows[number] = current = found.get(row.id, row)
            state = current.state_at(now) if row.id in found else State.VOID
            if state == State.DENIED:
                await _refuse_denied(self._subject, current)
            if state == State.EXPIRED:
                await _refuse_expired(self._subject, current)
            if state not in Approval.LIVE:
                await _refuse_lost(self._subject)

    def _ask_person(self) -> None:
        """Ask the person in the client, when one of the questions is theirs and the client can show it."""
        for question, row in zip(self._subject.questions, self._rows, strict=True):
            if question.ask.asks == PERSON and row.state == State.WAITING:
                asked = self._build_question(question.ask, row)
                if asked is not None:
                    work = self._ask(f"approval_{row.id.hex}", asked, row, question.ask)
                    self._question = asyncio.ensure_future(work)
                return

    def _build_question(self, ask: Ask, row: Approval) -> dict[str, Any] | None:
        modes = self._channel.capabilities.get("elicitation")
        if not isinstance(modes, Mapping):
            return None
        shown = sanitise_text(row.arguments)[0]
        if ask.accepts_client and ("form" in modes or not modes) and len(shown) <= MAX_FORM_CHARACTERS:
            message = f"Run {row.tool_name} with these arguments? {shown}"
            schema = {
                "type": "object",
                "properties": {"run": {"type": "boolean", "title": "Run it", "default": False}},
                "required": ["run"],
            }
            return {"mode": "form", "message": message, "requestedSchema": schema}
        if "url" in modes:
            message = f"{row.tool_name} asks for your approval before it runs. Open the page to see what it would do."
            asked = {"mode": "url", "message": message, "url": link(row)}
            return asked if self._subject.what.caller.revision in MODERN else {**asked, "elicitationId": str(uuid4())}
        return None

    async def _ask(self, key: str, asked: dict[str, Any], row: Approval, ask: Ask) -> None:
        """Ask in the client; store an answer that counts. A client that cannot answer leaves it to the page."""
        try:
            answer = (await self._channel.ask({key: ("elicitation/create", asked)}))[key]
        except (ClientLacks, ClientRefused):
            return
        except NeedsInput as needs:
            needs.call_id = self._call_id
            raise
        action, content = answer.get("action"), answer.get("content")
        agreed = action == "accept" and asked["mode"] == "form"
        declined = action == "decline"
        if agreed and not (isinstance(content, dict) and content.get("run") is True):
            agreed, declined = False, True
        if agreed and ask.accepts_client:
            await _in_storage(lambda: _decide_in_client(row, approved=True))
        elif declined:
            await _in_storage(lambda: _decide_in_client(row, approved=False))

    def _describe(self) -> str:
        waiting = [
            question.ask
            for question, row in zip(self._subject.questions, self._rows, strict=True)
            if row.state == State.WAITING
        ]
        return sanitise_line(f"{tasks.WAITING_MESSAGE} by {_people(waiting)}")

    def _not_yet(self) -> NotApproved:
        pairs = list(zip(self._subject.questions, self._rows, strict=True))
        open_ones = [(question.ask, row) for question, row in pairs if row.state == State.WAITING]
        first = open_ones[0][1]
        minutes = max(1, round((first.expires - timezone.now()).total_seconds() / 60))
        people = _people([ask for ask, _row in open_ones])
        links = " and ".join(link(row) for _ask, row in open_ones)
        own = any(ask.asks == PERSON for ask, _row in open_ones)
        request = f"Ask the user to open {links}. " if own else f"They decide at {links}. "
        sentence = (
            f"This call has not run. It waits for approval by {people}, as the rule “{first.rule_name}” says. {request}"
            f"Call the tool again with the same arguments to see whether it is approved and to run it; the request is "
            f"open for {minutes} more min. Call {self._call_id}."
        )
        return NotApproved(sanitise_line(sentence), "waiting", self._call_id, link(first))


def link(row: Approval) -> str:
    """Return the address at which people decide about a request."""
    return f"{settings.PUBLIC_URL}/approvals/{row.id}/"


async def _refuse_lost(subject: Subject) -> NoReturn:
    """Raise NotApproved for a call whose approval another call used, or that is void: nothing is asked again by itself.

    Whoever called twice gets one run.
    """
    sentence = (
        "This call has not run: its approval was withdrawn, used by another call with the same arguments, or is void "
        "because the tool, its grant, the rule or a secret changed meanwhile, or the approver may no longer approve. "
        "Look at the user's calls before you call again: that asks for a new approval."
    )
    await _refuse(subject, outcomes.APPROVAL_EXPIRED, sentence, Reason("approval.lost"), "void")


async def _refuse_denied(subject: Subject, row: Approval) -> NoReturn:
    why = f": {row.reason}" if row.reason else "."
    sentence = (
        f"{row.decided_by_name} denied this call{why} It has not run. Do not try it again with the same arguments: "
        f"tell the user, or do something else."
    )
    if row.reason and row.reason[-1] not in ".!?":
        sentence = sentence.replace(f"{row.reason} It has", f"{row.reason}. It has", 1)
    reason = Reason("approval.denied", {"by": row.decided_by_name, "reason": row.reason})
    await _refuse(subject, outcomes.APPROVAL_DENIED, sentence, reason, "denied", row)


async def _refuse_expired(subject: Subject, row: Approval) -> NoReturn:
    sentence = (
        f"This call has not run: nobody approved it in time (rule “{row.rule_name}”). Call the tool again to ask "
        f"again, or ask {contact.english()}."
    )
    await _refuse(subject, outcomes.APPROVAL_EXPIRED, sentence, Reason("approval.expired"), "expired", row)


async def _refuse_too_many(subject: Subject) -> NoReturn:
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


def _decide_in_client(row: Approval, *, approved: bool) -> None:
    user = User.objects.filter(pk=row.user_id).first()
    if user is None:
        return
    try:
        if approved:
            decisions.approve(row.id, user, by_client=True)
        else:
            decisions.deny(row.id, user, by_client=True)
    except decisions.Refused:
        return  # decided in the browser meanwhile, void or over: the next look tells


def _name_approver(row: Approval | TemporaryApproval) -> str:
    return str(row.given_by.get_username()) if isinstance(row, TemporaryApproval) else row.decided_by_name


def _name_approval(row: Approval | TemporaryApproval) -> str:
    return f"temporary {row.pk}" if isinstance(row, TemporaryApproval) else str(row.pk)


def _rule_names(subject: Subject) -> str:
    return ", ".join(dict.fromkeys(rule.name for question in subject.questions for rule in question.ask.rules))


def _people(asks: Sequence[Ask]) -> str:
    """Return who is asked, in English."""
    found = []
    for ask in asks:
        if ask.asks == PERSON:
            found.append("the user")
        else:
            found.append(f"the group {ask.group_name}" if ask.group_id is not None else "a group that was deleted")
    return " and ".join(found)


async def _in_storage(work: Callable[[], Any]) -> Any:
    """Run `work` in a thread that may use the database. Raises CallNotLogged when that does not answer."""
    try:
        return await deadline.within(threads.storage().run(work, wait=30.0), settings.RECORD_SECONDS)
    except (TimeoutError, DatabaseError, InterfaceError, threads.Busy):
        log.warning("approvals cannot be read or written", exc_info=True)
        raise CallNotLogged("approvals cannot be read now") from None
