"""Tasks of this worker: each is a call in its own asyncio task, independent of requests and connections.

The row is committed before the client gets the task, and after the call's start is logged. Answers and cancellation
requests reach this worker over the bus, and by polling the database once a second while a task runs. The tasks of a
crashed worker are failed by the first worker that finds them, after their logged calls are closed.

The channel of a task keeps its questions until `tasks/update` answers them. The module also converts tasks to their
shape in the protocol.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db import DatabaseError, InterfaceError

from catalog.calls import call_tool
from catalog.calls import tasks as store
from catalog.errors import Cancellation, CatalogError
from catalog.functions.channel import Question
from catalog.policy.definitions import ToolDefinition
from catalog.threads import Busy
from toolhub import deadline
from toolhub.server import errors
from toolhub.server.bus import Bus
from toolhub.server.channels import ModernChannel, require_capabilities
from toolhub.server.peer import Outlet, Peer
from toolhub.server.requests import Entry, RequestsInFlight
from toolhub.server.subscribers import Subscribers
from toolhub.wire import jsonrpc, shapes
from toolhub.wire.errors import INTERNAL_ERROR, McpError

StoreQuestions = Callable[[dict[str, Any]], Awaitable[None]]
StoreProgress = Callable[[str], Awaitable[None]]


class TaskChannel(ModernChannel):
    """A channel whose answers, from the request and from earlier questions, are available from the start."""

    __slots__ = ("_asked", "_store_progress", "_store_questions", "_waiting")

    def __init__(
        self,
        request: jsonrpc.Request,
        peer: Peer,
        outlet: Outlet,
        store_questions: StoreQuestions,
        store_progress: StoreProgress,
    ) -> None:
        super().__init__(request, peer, outlet)
        self._store_questions, self._store_progress = store_questions, store_progress
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._asked: dict[str, Any] = {}

    @property
    def waiting(self) -> bool:
        return bool(self._waiting)

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        # A task has no stream; its status message shows the readable progress.
        if message:
            await self._store_progress(message)

    async def log(self, level: str, data: Any, logger: str | None) -> None:
        return

    async def ask(self, requests: Mapping[str, Question]) -> dict[str, dict[str, Any]]:
        require_capabilities(requests, self.capabilities)
        given = self.answers()
        loop = asyncio.get_running_loop()
        mine: dict[str, asyncio.Future[None]] = {}
        for key, (method, params) in requests.items():
            if key not in given:
                mine[key] = self._waiting.setdefault(key, loop.create_future())
                params = shapes.outgoing(method, self.peer.revision, params)
                self._asked[key] = {"method": method, "params": params}
        if mine:
            try:
                await self._store_questions(dict(self._asked))
                for answer in mine.values():
                    await answer
            finally:
                for key in mine:
                    self._waiting.pop(key, None)
                    self._asked.pop(key, None)
                if not self._waiting:  # also when nobody waits for an answer any more: the task works again
                    await self._store_questions({})
        return {key: given[key] for key in requests}

    def accept_answers(self, responses: Mapping[str, Any]) -> None:
        """Handle answers; ignore those without an open question."""
        given = self.answers()
        for key, response in responses.items():
            waiting = self._waiting.get(key)
            if waiting is not None and not waiting.done():
                given[key] = response
                self._asked.pop(key, None)
                waiting.set_result(None)


POLL_MS = 1000


def task_details(state: store.TaskState) -> dict[str, Any]:
    """Return a task with the member for its status: `result`, `error` or `inputRequests`."""
    found = task_summary(state)
    if state.status == store.INPUT_REQUIRED:
        found["inputRequests"] = state.input_requests
    elif state.status == store.COMPLETED:
        found["result"] = state.result or {"content": []}
    elif state.status == store.FAILED:
        found["error"] = state.error or {"code": store.INTERNAL_ERROR, "message": "Internal error"}
    return found


def task_summary(state: store.TaskState) -> dict[str, Any]:
    found: dict[str, Any] = {
        "taskId": str(state.id),
        "status": state.status,
        "createdAt": _format_time(state.created_at),
        "lastUpdatedAt": _format_time(state.updated_at),
        "ttlMs": state.ttl_ms,
        "pollIntervalMs": POLL_MS,
    }
    if state.status_message:
        found["statusMessage"] = state.status_message
    return found


def _format_time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


log = logging.getLogger(__name__)

ANSWERED = "task.answered"
CANCEL = "task.cancel"
CHANGED = "task.changed"
CANCELLED = Cancellation("cancelled.task")
POLL_SECONDS = 1.0
CLEANUP_INTERVAL_SECONDS = 10.0
UNAVAILABLE_ERRORS = (DatabaseError, InterfaceError, Busy, OSError)


class _Run:
    """One task: its row, its call, and the questions it waits for."""

    __slots__ = ("channel", "definition", "entry", "id", "runner", "saved_at", "started", "state", "task")

    def __init__(
        self,
        runner: TaskRunner,
        definition: ToolDefinition,
        request: jsonrpc.Request,
        peer: Peer,
        outlet: Outlet,
    ) -> None:
        self.runner, self.definition = runner, definition
        self.channel = TaskChannel(request, peer, outlet, self.store_questions, self.store_progress)
        self.started: asyncio.Future[store.TaskState] = asyncio.get_running_loop().create_future()
        self.id: UUID | None = None
        self.saved_at = 0.0
        self.task: asyncio.Task[None]
        self.entry: Entry

    async def on_begun(self, call_id: UUID) -> None:
        """Commit the row after the call's start is logged, then notify the client."""
        credential, tool = self.channel.peer.caller.credential, self.definition
        state = await store.create(
            call_id,
            credential.user_id,
            credential.id,
            tool.name,
            self.runner.worker,
            toolset_ids=tool.toolset_ids,
        )
        self.id = call_id
        self.runner.register(self)
        if not self.started.done():
            self.started.set_result(state)

    async def run(self, arguments: dict[str, Any]) -> None:
        peer = self.channel.peer
        try:
            end = await self._outcome(peer, self.definition.name, arguments)
            if end is not None and self.id is not None:
                # The call has ended here: a later cancellation has no effect.
                self.entry.ended = True
                await _persist(end)
                self.runner.publish_change(str(self.id))
        except asyncio.CancelledError:
            raise
        except BaseException:
            if self.id is None:
                raise  # the request that waits for the start answers with it
            log.exception("The end of the task %s could not be handled", self.id)
            error = jsonrpc.error(None, errors.internal_error(self.id))["error"]
            await _persist(lambda: store.fail(self._task_id(), error))
            self.runner.publish_change(str(self.id))
        finally:
            self.runner.unregister(self)

    async def _outcome(self, peer: Peer, name: str, arguments: dict[str, Any]) -> Callable[[], Awaitable[bool]] | None:
        """Run the call; return the write that ends the task. Raises as a call without a task would before its start."""
        error: dict[str, Any]
        try:
            found = await call_tool.call_tool(
                peer.caller, name, arguments, self.channel, begun=self.on_begun, detached=True
            )
            result = errors.tool_result(found)
        except CatalogError as refused:
            if self.id is None:
                raise
            explained = errors.tool_error_result(refused, peer)
            if explained is None:
                error = jsonrpc.error(None, errors.mcp_error(refused, peer))["error"]
                return lambda: store.fail(self._task_id(), error)
            result = explained
        except asyncio.CancelledError:
            if self.id is None or self.entry.reason is None:
                raise
            self.task.uncancel()
            reason = "Cancelled on request" if self.entry.reason == CANCELLED else f"Cancelled: {self.entry.reason}"
            return lambda: store.end_cancelled(self._task_id(), reason)
        return lambda: store.complete(self._task_id(), result)

    async def store_questions(self, requests: dict[str, Any]) -> None:
        """Wait for answers: `tasks/get` now shows the questions. Without questions, the task works again."""
        number = self._task_id()
        if requests:
            await store.ask(number, requests)
        else:
            await store.resume(number)
        self.runner.publish_change(str(number))

    async def store_progress(self, message: str) -> None:
        """Store progress for polling clients; at most once a second."""
        now = time.monotonic()
        if now - self.saved_at >= 1.0:
            self.saved_at = now
            await store.set_message(self._task_id(), message)
            self.runner.publish_change(str(self.id))

    async def read_answers(self) -> None:
        """Read the stored answers."""
        self.channel.accept_answers(await store.responses(self._task_id()))

    def _task_id(self) -> UUID:
        assert self.id is not None  # noqa: S101 - called only after the row exists
        return self.id


async def _persist(end: Callable[[], Awaitable[bool]]) -> None:
    """Write the end of the task; retry while the store is unavailable."""
    pause = 0.5
    while True:
        try:
            await end()
            return
        except UNAVAILABLE_ERRORS as error:
            if pause > 30.0:
                # The call itself is logged; the cleanup job later fails the task by that log entry.
                log.error("The end of a task could not be stored: %s", type(error).__name__)
                return
            await asyncio.sleep(pause)
            pause *= 2


async def _quietly(work: Awaitable[None]) -> None:
    try:
        await work
    except UNAVAILABLE_ERRORS as error:
        log.warning("A task could not be read: %s", type(error).__name__)


class TaskRunner:
    """The running tasks of this process, and the regular maintenance of all tasks."""

    def __init__(self, bus: Bus, subscribers: Subscribers, requests: RequestsInFlight) -> None:
        self.worker = bus.worker
        self._bus, self._subscribers, self._requests = bus, subscribers, requests
        self._running: dict[str, _Run] = {}
        self._background: set[asyncio.Task[Any]] = set()
        self._changed: dict[str, bool] = {}
        """The tasks whose subscribers are being notified, and whether their state changed again meanwhile."""
        self._maintenance: asyncio.Task[None] | None = None
        bus.on(ANSWERED, self._on_answered)
        bus.on(CANCEL, self._on_cancel)
        bus.on(CHANGED, self._on_changed)

    def start(self) -> None:
        """Start the maintenance of tasks."""
        self._maintenance = asyncio.get_running_loop().create_task(self._maintain(), name="tasks")

    async def stop(self) -> None:
        """Stop the maintenance of tasks."""
        maintenance, self._maintenance = self._maintenance, None
        if maintenance is not None:
            maintenance.cancel()
            await asyncio.wait([maintenance], timeout=5.0)
        if self._background:
            await asyncio.wait(list(self._background), timeout=5.0)

    async def start_run(
        self,
        definition: ToolDefinition,
        arguments: dict[str, Any],
        request: jsonrpc.Request,
        peer: Peer,
        outlet: Outlet,
    ) -> store.TaskState:
        """Start a call as a task; return when its row is readable. Raises as the call raises before its start."""
        run = _Run(self, definition, request, peer, outlet)
        task = run.task = asyncio.get_running_loop().create_task(run.run(arguments), name="task")
        deadline.hand_over(task)
        try:
            run.entry = self._requests.adopt(peer, task)
        except BaseException:
            task.cancel()
            raise
        try:
            either: list[asyncio.Future[Any]] = [task, run.started]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError as error:
            if not run.started.done():
                task.cancel(*error.args)
            raise
        if run.started.done():
            return run.started.result()
        if not task.cancelled():
            task.result()  # raises the error that denied the call
        raise McpError(INTERNAL_ERROR, "The call was cancelled before it began")

    def register(self, run: _Run) -> None:
        """Register this run for answers and cancellations."""
        self._running[str(run.id)] = run

    def unregister(self, run: _Run) -> None:
        """Remove a run."""
        self._running.pop(str(run.id), None)
        self._requests.leave(run.entry)

    def publish_change(self, task_id: str) -> None:
        """Notify the subscribers of the task, on every worker."""
        self._bus.publish_soon(CHANGED, {"id": task_id})

    async def _maintain(self) -> None:
        abandoned = time.monotonic()
        while True:
            await asyncio.sleep(POLL_SECONDS)
            try:
                if self._running:
                    for run in list(self._running.values()):
                        if run.channel.waiting:
                            await run.read_answers()
                    for number in await store.list_cancellable(self.worker):
                        self._cancel(str(number))
                now = time.monotonic()
                if now - abandoned > CLEANUP_INTERVAL_SECONDS:
                    abandoned = now
                    if await store.end_abandoned():
                        log.warning("Tasks of a worker that is gone were ended as failed")
            except UNAVAILABLE_ERRORS as error:
                log.warning("The tasks could not be looked after: %s", type(error).__name__)
            except Exception:
                # After any error, running tasks must still get answers and cancellations.
                log.exception("The tasks could not be looked after")

    def _cancel(self, task_id: str) -> None:
        if (run := self._running.get(task_id)) is not None:
            run.entry.cancel(CANCELLED)

    def _spawn(self, work: Awaitable[None]) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(_quietly(work))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _notify(self, task_id: str) -> None:
        """Send the state to all subscribers, again while it changes; reads follow each other, so none is older."""
        try:
            while self._changed[task_id]:
                self._changed[task_id] = False
                await _quietly(self._send_state(task_id))
        finally:
            del self._changed[task_id]

    async def _send_state(self, task_id: str) -> None:
        for listener in self._subscribers.task_listeners(task_id):
            state = await store.get(listener.peer.caller.credential, task_id)
            if state is not None:
                listener.send("notifications/tasks", task_details(state))

    def _on_answered(self, payload: dict[str, Any]) -> None:
        if (run := self._running.get(str(payload.get("id")))) is not None:
            self._spawn(run.read_answers())

    def _on_cancel(self, payload: dict[str, Any]) -> None:
        self._cancel(str(payload.get("id")))

    def _on_changed(self, payload: dict[str, Any]) -> None:
        task_id = str(payload.get("id"))
        notifying = task_id in self._changed
        if notifying or self._subscribers.task_listeners(task_id):
            self._changed[task_id] = True
            if not notifying:
                self._spawn(self._notify(task_id))
