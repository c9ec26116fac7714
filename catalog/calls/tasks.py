"""Rows of calls that continue without their connection.

Every change is one conditional UPDATE: its row count says whether it happened, whichever process comes first.
A task is the logged call with the same id. A task ends once; later changes have no effect. It is reached with every
token of its user, except those that are restricted to toolsets without its tool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.db.models import Q
from django.utils import timezone

from audit import outcomes
from audit.models import Call
from audit.types import Credential
from catalog import threads
from catalog.errors import DatabaseAway
from catalog.models import Task
from catalog.policy import visibility
from toolhub import deadline

WORKING, INPUT_REQUIRED = Task.Status.WORKING.value, Task.Status.INPUT_REQUIRED.value
COMPLETED, FAILED, CANCELLED = Task.Status.COMPLETED.value, Task.Status.FAILED.value, Task.Status.CANCELLED.value
OPEN_STATUSES = (WORKING, INPUT_REQUIRED)
T = TypeVar("T")
DEFAULT_TTL_MS = 3_600_000
MAX_TTL_MS = 86_400_000
INTERNAL_ERROR = -32603
GRACE_PERIOD = timedelta(seconds=10)
"""Allowance for the two writes of a living worker between the logged end of a call and the end of its task."""
WAITING_MESSAGE = "Waiting for approval"
"""How the message of a task begins that waits for people: its call has not begun."""
WAITING_GRACE_PERIOD = timedelta(seconds=60)
"""Allowance for the worker of such a task, which repeats the message every few seconds."""


@dataclass(frozen=True, slots=True)
class TaskState:
    """The current state of one task."""

    id: UUID
    user_id: int
    tool: str
    status: str
    status_message: str
    result: dict[str, Any] | None
    error: dict[str, Any] | None
    input_requests: dict[str, Any]
    """The open questions: {key: {"method", "params"}}."""
    input_responses: dict[str, Any]
    cancel_requested: bool
    worker: str
    created_at: datetime
    updated_at: datetime
    ttl_ms: int | None

    @property
    def is_open(self) -> bool:
        return self.status in OPEN_STATUSES


async def create(
    task_id: UUID,
    user_id: int,
    credential_id: str,
    tool: str,
    worker: str,
    ttl_ms: int | None = None,
    toolset_ids: Iterable[int] | None = None,
) -> TaskState:
    """Create a working task, readable for `ttl_ms` (default: an hour, at most a day) and until it has ended.

    `toolset_ids` are those of the tool; with None, only tokens without a restriction reach the task.
    """
    ttl = min(max(ttl_ms or DEFAULT_TTL_MS, 1000), MAX_TTL_MS)

    def write() -> TaskState:
        row = Task.objects.create(
            id=task_id,
            user_id=user_id,
            credential=credential_id[:100],
            tool=tool,
            toolset_ids=None if toolset_ids is None else sorted(toolset_ids),
            worker=worker[:100],
            ttl_ms=ttl,
            expires_at=timezone.now() + timedelta(milliseconds=ttl),
        )
        return _state(row)

    return await _run(write)


async def get(credential: Credential, task_id: str | UUID) -> TaskState | None:
    """Return a task; None when there is none, when this credential does not reach it, and when it has expired."""
    number = _number(task_id)
    if number is None:
        return None

    def read() -> TaskState | None:
        row = _find(credential, number)
        if row is None or (row.status not in OPEN_STATUSES and row.expires_at and row.expires_at <= timezone.now()):
            return None
        return _state(row)

    return await _run(read)


async def complete(task_id: UUID, result: dict[str, Any]) -> bool:
    """End the task with a result, `isError` included; return whether it was still open."""
    return await _end(task_id, COMPLETED, result=result)


async def fail(task_id: UUID, error: dict[str, Any], message: str = "") -> bool:
    """End the task with a JSON-RPC error: {"code", "message"}; return whether it was still open."""
    return await _end(task_id, FAILED, error=error, status_message=message or str(error.get("message", "")))


async def end_cancelled(task_id: UUID, message: str = "") -> bool:
    """End the task as cancelled; return whether it was still open."""
    return await _end(task_id, CANCELLED, status_message=message)


async def set_message(task_id: UUID, message: str) -> bool:
    """Set the status message that describes the task's current work; return whether the row changed."""
    return await _update(Q(id=task_id, status__in=OPEN_STATUSES), status_message=message[:1000])


async def ask(task_id: UUID, requests: Mapping[str, Any]) -> bool:
    """Set the task to waiting for answers to `requests`: {key: {"method", "params"}}."""
    return await _update(Q(id=task_id, status__in=OPEN_STATUSES), status=INPUT_REQUIRED, input_requests=dict(requests))


async def resume(task_id: UUID) -> bool:
    """Set the task to working again, once it has its answers or no longer waits for them."""
    return await _update(Q(id=task_id, status=INPUT_REQUIRED), status=WORKING, input_requests={}, input_responses={})


async def answer(credential: Credential, task_id: str | UUID, responses: Mapping[str, Any]) -> TaskState | None:
    """Store the answers to open questions; return the state, or None for a task that this credential does not reach.

    Unknown keys are ignored. With the last answer the task works again. Two concurrent updates both count: each is
    applied to the state that the other one stored.
    """
    number = _number(task_id)
    if number is None:
        return None

    def merge() -> bool:
        row = _find(credential, number)
        if row is None or row.status != INPUT_REQUIRED:
            return True
        accepted = {key: value for key, value in responses.items() if key in row.input_requests}
        if not accepted:
            return True
        open_requests = {key: value for key, value in row.input_requests.items() if key not in accepted}
        changed = Task.objects.filter(
            id=number, status=INPUT_REQUIRED, input_requests=row.input_requests, input_responses=row.input_responses
        ).update(
            input_requests=open_requests,
            input_responses={**row.input_responses, **accepted},
            status=INPUT_REQUIRED if open_requests else WORKING,
            updated_at=timezone.now(),
        )
        return changed == 1

    def write() -> None:
        while not merge():
            pass  # a concurrent answer came first: apply this one to the new state

    await _run(write)
    return await get(credential, number)


async def responses(task_id: UUID) -> dict[str, Any]:
    """Return the answers that have arrived since the task last asked."""

    def read() -> dict[str, Any]:
        found: Any = Task.objects.filter(id=task_id).values_list("input_responses", flat=True).first()
        return found or {}

    return await _run(read)


async def request_cancel(credential: Credential, task_id: str | UUID) -> TaskState | None:
    """Request the cancellation of a task; a task that has ended is not changed.

    Returns None for a task that this credential does not reach.
    """
    number = _number(task_id)
    if number is None:
        return None
    if await get(credential, number) is None:
        return None
    await _update(Q(id=number, status__in=OPEN_STATUSES), cancel_requested=True)
    return await get(credential, number)


async def list_cancellable(worker: str) -> list[UUID]:
    """Return the tasks of this worker that are to be cancelled.

    A worker polls this now and then, in case a notification was lost.
    """

    def read() -> list[UUID]:
        found = Task.objects.filter(worker=worker, status__in=OPEN_STATUSES, cancel_requested=True)
        return list(found.values_list("id", flat=True))

    return await _run(read)


async def end_abandoned() -> int:
    """Fail the open tasks whose logged call has ended without them, as when their worker died.

    Part of the periodic maintenance.
    """

    def write() -> int:
        now = timezone.now()
        waiting = Q(status_message__startswith=WAITING_MESSAGE, updated_at__gte=now - WAITING_GRACE_PERIOD)
        still_running = Call.objects.filter(outcome=outcomes.RUNNING).values("id")
        abandoned = Q(status__in=OPEN_STATUSES, updated_at__lt=now - GRACE_PERIOD) & ~Q(id__in=still_running) & ~waiting
        sentence = "toolhub stopped while the tool was running. It is unknown whether the tool took effect."
        return Task.objects.filter(abandoned).update(
            status=FAILED,
            error={"code": INTERNAL_ERROR, "message": sentence},
            status_message=sentence,
            input_requests={},
            updated_at=timezone.now(),
        )

    return await _run(write)


def remove_expired() -> int:
    """Delete expired tasks, in this thread; return the number of deleted rows.

    An open task stays until it has ended.
    """
    return Task.objects.exclude(status__in=OPEN_STATUSES).filter(expires_at__lte=timezone.now()).delete()[0]


async def _end(task_id: UUID, status: str, **values: Any) -> bool:
    return await _update(Q(id=task_id, status__in=OPEN_STATUSES), status=status, input_requests={}, **values)


async def _update(which: Q, **values: Any) -> bool:
    def write() -> bool:
        return Task.objects.filter(which).update(**values, updated_at=timezone.now()) == 1

    return await _run(write)


async def _run(work: Callable[[], T]) -> T:
    """Run `work` in a thread. Raises DatabaseAway at the deadline of a request, if the current task answers one."""
    if deadline.arrival() is None:
        return await threads.storage().run(work, wait=30.0)
    try:
        return await deadline.within(threads.storage().run(work, wait=30.0), settings.RECORD_SECONDS)
    except (TimeoutError, OperationalError, InterfaceError):
        raise DatabaseAway from None


def _find(credential: Credential, number: UUID) -> Task | None:
    row = Task.objects.filter(id=number, user_id=credential.user_id).first()
    return row if row is not None and visibility.reaches_origin(credential, row.toolset_ids) else None


def _number(task_id: str | UUID) -> UUID | None:
    if isinstance(task_id, UUID):
        return task_id
    try:
        number = UUID(task_id)
    except (ValueError, AttributeError, TypeError):
        return None
    return number if str(number) == task_id else None


def _state(row: Any) -> TaskState:
    """Return the state of a Task row; its JSON columns are typed as the text they are stored as."""
    return TaskState(
        id=row.id,
        user_id=row.user_id,
        tool=row.tool,
        status=row.status,
        status_message=row.status_message,
        result=row.result,
        error=row.error,
        input_requests=row.input_requests,
        input_responses=row.input_responses,
        cancel_requested=row.cancel_requested,
        worker=row.worker,
        created_at=row.created_at,
        updated_at=row.updated_at,
        ttl_ms=row.ttl_ms,
    )
