"""The wait of a call for approval: the question to the person who calls, progress, and the answers of others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID, uuid4

from django.conf import settings
from django.contrib.auth.models import User
from django.db import DatabaseError, InterfaceError
from django.utils import timezone

from catalog import threads
from catalog.approvals import decisions, requests
from catalog.calls import approval_answers as answers
from catalog.calls import tasks
from catalog.calls.approval_answers import Subject
from catalog.errors import CallNotLogged, ClientLacks, ClientRefused, NeedsInput
from catalog.functions.channel import Channel
from catalog.functions.sanitise import sanitise_line, sanitise_text
from catalog.models import Approval
from catalog.policy.asking import PERSON, Ask
from toolhub import deadline
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


def patience_of(transport: str) -> float:
    """Return how many seconds a call of this transport waits that is no task."""
    return {"test": 0.0, "admin": TRY_SECONDS}.get(transport, WAIT_SECONDS)


class Waits:
    """The waits of this process: they end when it stops."""

    def __init__(self) -> None:
        self.are_over = False
        """Whether calls no longer wait: each ends as one whose patience is over, and its request stays."""


class Wait:
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
                    raise answers.not_yet(self._subject, self._rows, self._call_id)
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
                await answers.refuse_denied(self._subject, current)
            if state == State.EXPIRED:
                await answers.refuse_expired(self._subject, current)
            if state not in Approval.LIVE:
                await answers.refuse_lost(self._subject)

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
            asked = {"mode": "url", "message": message, "url": answers.link(row)}
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
            await in_storage(lambda: _decide_in_client(row, approved=True))
        elif declined:
            await in_storage(lambda: _decide_in_client(row, approved=False))

    def _describe(self) -> str:
        waiting = [
            question.ask
            for question, row in zip(self._subject.questions, self._rows, strict=True)
            if row.state == State.WAITING
        ]
        return sanitise_line(f"{tasks.WAITING_MESSAGE} by {answers.name_people(waiting)}")


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


async def in_storage(work: Callable[[], Any]) -> Any:
    """Run `work` in a thread that may use the database. Raises CallNotLogged when that does not answer."""
    try:
        return await deadline.within(threads.storage().run(work, wait=30.0), settings.RECORD_SECONDS)
    except (TimeoutError, DatabaseError, InterfaceError, threads.Busy):
        log.warning("approvals cannot be read or written", exc_info=True)
        raise CallNotLogged("approvals cannot be read now") from None
