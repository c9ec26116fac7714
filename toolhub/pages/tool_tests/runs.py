"""Runs of test cases in this process: one after the other, each a call in flight that a stop or a revocation ends.

What a run found is written to its test case, so that the page of any worker shows it.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta

from channels.db import database_sync_to_async
from django.contrib.auth.models import User
from django.utils import timezone

from audit import recorder
from audit.types import Caller, Reason
from catalog.models import ToolTest
from catalog.tool_tests import run as tool_tests
from catalog.tool_tests.run import Outcome
from toolhub.access.try_permissions import MAY_TRY, MAY_TRY_AS
from toolhub.server.peer import Peer
from toolhub.server.requests import RequestsInFlight
from toolhub.wire.errors import McpError

log = logging.getLogger(__name__)

STALE = timedelta(minutes=1)
"""Added to a tool's timeout: a run that began longer ago has no process any more."""


@dataclass(frozen=True, slots=True)
class Actor:
    """The person who runs tests."""

    id: int
    name: str
    address: str


class ToolTestRuns:
    """The running test cases of this process."""

    def __init__(self, requests: RequestsInFlight, ensure_started: Callable[[], Awaitable[None]]) -> None:
        """Store the parts; `ensure_started` starts the process if no request has done so yet."""
        self._requests, self._ensure_started = requests, ensure_started
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, ids: Iterable[int], actor: Actor) -> None:
        """Run these tests in the background, one after the other, for this person."""
        await self._ensure_started()
        waiting = list(ids)
        await database_sync_to_async(mark_running)(waiting)
        # A new context: the request's context holds its database thread and its user, and both end with the request.
        work = self._work(waiting, actor)
        task = asyncio.get_running_loop().create_task(work, name="tool tests", context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """End what runs and what waits; each is marked as interrupted."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, ids: list[int], actor: Actor) -> None:
        try:
            while ids:
                try:
                    await self._run(ids[0], actor)
                except Exception:
                    log.exception("test case %s failed to run", ids[0])
                ids.pop(0)
        finally:
            if ids:
                await asyncio.shield(database_sync_to_async(mark_interrupted)(ids))

    async def _run(self, pk: int, actor: Actor) -> None:
        found = await database_sync_to_async(prepare)(pk, actor)
        if found is None:
            return
        test, caller = found
        if isinstance(caller, Reason):
            await database_sync_to_async(save_outcome)(test, Outcome(caller))
            return
        outcome = Outcome(Reason("test.interrupted"))
        try:
            outcome = await self._call(test, caller)
        finally:
            await asyncio.shield(database_sync_to_async(save_outcome)(test, outcome))

    async def _call(self, test: ToolTest, caller: Caller) -> Outcome:
        call_id = recorder.new_call_id()
        task = asyncio.get_running_loop().create_task(tool_tests.run(test, caller, call_id))
        try:
            entry = self._requests.adopt(Peer(caller, "handshake", "", {}), task)
        except McpError as busy:
            task.cancel()
            return Outcome(Reason("test.internal", {"error": str(busy)}))
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
            self._requests.leave(entry)
        return Outcome(Reason("test.cancelled"), call_id) if task.cancelled() else task.result()


def prepare(pk: int, actor: Actor) -> tuple[ToolTest, Caller | Reason] | None:
    """Mark a test as running and return it with its caller, or with the reason why this person may not run it.

    Returns None for a test that is gone. The permissions are read anew: a queue of tests takes a while.
    """
    test = ToolTest.objects.select_related("tool", "user", "editor").filter(pk=pk).first()
    person = User.objects.filter(pk=actor.id, is_active=True, is_staff=True).first()
    if test is None:
        return None
    if person is None:
        return test, Reason("test.not_permitted", {"user": actor.name})
    if (refusal := find_refusal(test, person)) is not None:
        return test, refusal
    user = test.user if test.user is not None else person
    mark_running([pk])
    credential_id = f"admin:{actor.id}" if is_own(test, person) else f"admin:{actor.id}:{user.pk}"
    return test, tool_tests.make_caller(test, user.pk, user.get_username(), credential_id, actor.name, actor.address)


def is_own(test: ToolTest, person: User) -> bool:
    """Return whether a test sends what this person chose, as this person: it may use their personal secrets."""
    return bool(test.editor_id == person.pk and test.user_id in (None, person.pk))


def find_refusal(test: ToolTest, person: User) -> Reason | None:
    """Return why this person may not run a test, None when they may.

    What somebody else chose to send runs as nobody without their permission: whether it passed would tell its editor
    what this person's account can see.
    """
    if test.user is None and test.editor_id != person.pk:
        return Reason("test.not_yours", {"editor": test.editor.get_username() if test.editor is not None else "?"})
    user = test.user if test.user is not None else person
    if not person.has_perm(MAY_TRY) or not (is_own(test, person) or person.has_perm(MAY_TRY_AS)):
        return Reason("test.not_permitted", {"user": user.get_username()})
    return None if user.is_active else Reason("test.inactive", {"user": user.get_username()})


def mark_running(ids: list[int]) -> None:
    """Mark tests as running, also those that wait for their turn: what they found before is out of date."""
    ToolTest.objects.filter(pk__in=ids).update(result=ToolTest.Result.RUNNING, problem="", last_run=timezone.now())


def mark_interrupted(ids: list[int]) -> None:
    """Mark tests whose turn does not come any more."""
    waiting = ToolTest.objects.filter(pk__in=ids, result=ToolTest.Result.RUNNING)
    waiting.update(result=ToolTest.Result.FAILED, problem=Reason("test.interrupted").text, last_call=None)


def save_outcome(test: ToolTest, outcome: Outcome) -> None:
    """Store how a run ended."""
    ToolTest.objects.filter(pk=test.pk).update(
        result=ToolTest.Result.PASSED if outcome.passed else ToolTest.Result.FAILED,
        problem="" if outcome.problem is None else outcome.problem.text,
        last_call=outcome.call_id,
        last_run=timezone.now(),
    )


def is_stale(test: ToolTest, number: int) -> bool:
    """Return whether a test that is marked as running has no process that runs it: `number` of them may be in turn."""
    if test.result != ToolTest.Result.RUNNING or test.last_run is None:
        return False
    return timezone.now() - test.last_run > timedelta(seconds=test.tool.timeout * number) + STALE
