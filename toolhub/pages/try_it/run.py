"""Calls that a person tries in the admin: each is a task of the process that got the POST, independent of any page.

They use the call pipeline like every other call, and are logged under the user they run as, with the name of the person
who tried. They are registered in `RequestsInFlight`, so a stop, a revocation and a cancellation end them like any other
call. `remote` connects the pages of other workers to a run.

A channel connects the tool to the person in the admin: progress, log lines, and questions in the page.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from audit import recorder
from audit.types import Caller, Credential
from catalog.calls import call_tool
from catalog.errors import (
    CallNotLogged,
    CatalogError,
    ClientLacks,
    ClientRefused,
    InternalFailure,
    InvalidArguments,
)
from catalog.functions.channel import Question
from catalog.functions.content import ABSENT
from catalog.functions.results import ToolResult
from toolhub import __version__
from toolhub.server.channels import require_capabilities
from toolhub.server.peer import Peer
from toolhub.server.requests import Entry, RequestsInFlight
from toolhub.wire.errors import McpError

CAPABILITIES: Mapping[str, Any] = {"elicitation": {"form": {}, "url": {}}}
"""Client capabilities of the page: it can show a form or an address. It has no model and no folders."""
ANSWER_SECONDS = 600.0
MAX_LOG_LINES = 200
MAX_LINE_CHARACTERS = 2000


class TryChannel:
    """A `catalog.functions.channel.Channel` whose state the page reads."""

    capabilities = CAPABILITIES
    request_id = "try"
    continues: UUID | None = None

    def __init__(self) -> None:
        self.reported: tuple[float, float | None, str | None] | None = None
        self.lines: deque[tuple[str, str]] = deque(maxlen=MAX_LOG_LINES)
        """Level and text of the last log lines."""
        self.questions: dict[str, Question] = {}
        """Questions that wait for an answer."""
        self.log_version = self.questions_version = 0
        """Versions of the lines and of the questions: each is incremented when its part changes."""
        self._answers: dict[str, asyncio.Future[dict[str, Any]]] = {}

    @property
    def meta(self) -> Mapping[str, Any]:
        return {}

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.reported = (progress, total, message and message[:MAX_LINE_CHARACTERS])

    async def log(self, level: str, data: Any, logger: str | None) -> None:
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        self.log_version += 1
        self.lines.append((level, f"{logger}: {text}"[:MAX_LINE_CHARACTERS] if logger else text[:MAX_LINE_CHARACTERS]))

    async def ask(self, requests: Mapping[str, Question]) -> dict[str, dict[str, Any]]:
        """Show the questions and wait for the answers. Raises ClientLacks for kinds that a page cannot show."""
        require_capabilities(requests, self.capabilities)
        if any(key in self._answers for key in requests):
            raise ClientLacks("two questions of one name at once")
        loop = asyncio.get_running_loop()
        self._answers |= {key: loop.create_future() for key in requests}
        self.questions |= requests
        self.questions_version += 1
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return {key: await self._answers[key] for key in requests}
        except TimeoutError:
            raise ClientRefused(f"no answer within {ANSWER_SECONDS:g} s") from None
        finally:
            self.questions_version += 1
            for key in requests:
                self.questions.pop(key, None)
                self._answers.pop(key).cancel()

    def answer(self, key: str, result: dict[str, Any]) -> bool:
        """Store the person's answer to one question; return False when no call waits for it any more."""
        future = self._answers.get(key)
        if future is None or future.done():
            return False
        self.questions.pop(key, None)
        self.questions_version += 1
        future.set_result(result)
        return True

    def close_stream(self) -> None:
        return


log = logging.getLogger(__name__)

CLIENT = "toolhub admin"
TRANSPORT = "admin"
RETENTION_SECONDS = 900.0
"""Seconds for which a finished run stays available to its page."""
MAX_RESULT_CHARACTERS = 64 * 1024 * 1024
"""Maximum characters of all results kept in this process; the oldest are dropped first."""
BEGIN_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class TryRequest:
    """A request to try a tool: `actor` runs `tool` as `user`, which may be the same person."""

    actor_id: int
    actor: str
    user_id: int
    username: str
    tool_id: int
    tool: str
    arguments: dict[str, Any]
    address: str

    def caller(self) -> Caller:
        own = self.actor_id == self.user_id
        credential = Credential(
            user_id=self.user_id,
            username=self.username,
            # Both accounts must stay active while the call runs.
            id=f"admin:{self.actor_id}" if own else f"admin:{self.actor_id}:{self.user_id}",
            label=f"tried in the admin by {self.actor}",
            toolset_ids=None,
            expires_at=None,
            maker_id=None if own else self.actor_id,
        )
        return Caller(credential, TRANSPORT, "", self.address, CLIENT, __version__)


@dataclass(eq=False, slots=True)
class Run:
    """One tried call and its result."""

    id: UUID
    """Also the id of the call in the audit log."""
    try_request: TryRequest
    channel: TryChannel = field(default_factory=TryChannel)
    started: float = field(default_factory=time.monotonic)
    ended: float | None = None
    result: ToolResult | None = None
    size: int = 0
    error: BaseException | None = None
    entry: Entry | None = None
    task: asyncio.Task[None] | None = None

    def versions(self) -> dict[str, int]:
        """Return versions of the large parts of the state: a part with the same version has not changed."""
        return {
            "arguments": 0,
            "log": self.channel.log_version,
            "asked": self.channel.questions_version,
            "result": int(self.ended is not None),
        }

    def state(self) -> dict[str, Any]:
        """Return the complete state for the page, as JSON data."""
        reported = self.channel.reported
        state: dict[str, Any] = {
            "id": str(self.id),
            "tool_id": self.try_request.tool_id,
            "tool": self.try_request.tool,
            "user": self.try_request.username,
            "own": self.try_request.actor_id == self.try_request.user_id,
            "arguments": self.try_request.arguments,
            "seconds": round((self.ended or time.monotonic()) - self.started, 3),
            "ended": self.ended is not None,
            "progress": reported and {"progress": reported[0], "total": reported[1], "message": reported[2]},
            "log": [list(line) for line in self.channel.lines],
            "asked": {key: [method, params] for key, (method, params) in self.channel.questions.items()},
            "result": None,
            "error": None,
        }
        if self.result is not None:
            found = self.result
            state["result"] = {"content": found.content, "is_error": found.is_error}
            if found.structured is not ABSENT:
                state["result"]["structured"] = found.structured
        elif self.error is not None:
            state["error"] = _describe_error(self)
        return state


class TryRuns:
    """The running and recent tries of this process."""

    def __init__(self, requests: RequestsInFlight, ensure_started: Callable[[], Awaitable[None]]) -> None:
        """Store the parts; `ensure_started` starts the process if no request has done so yet."""
        self._requests, self._ensure_started = requests, ensure_started
        self._runs: OrderedDict[UUID, Run] = OrderedDict()

    async def start(self, try_request: TryRequest) -> Run:
        """Start the call; return after it is logged and runs, or has ended already.

        Raises the errors of the call pipeline (CatalogError: not granted, limit reached, invalid arguments), and
        McpError while the server stops or the user has too many running calls.
        """
        await self._ensure_started()
        self._forget_old()
        run = Run(recorder.new_call_id(), try_request)
        loop = asyncio.get_running_loop()
        begun: asyncio.Future[None] = loop.create_future()
        # A new context: the request's context holds its database thread and its user, and both end with the request.
        task = loop.create_task(self._work(run, begun), name="try", context=contextvars.Context())
        run.task = task
        try:
            run.entry = self._requests.adopt(Peer(try_request.caller(), "handshake", "", dict(CAPABILITIES)), task)
        except BaseException:
            task.cancel()
            raise
        self._runs[run.id] = run
        await asyncio.wait([task, begun], timeout=BEGIN_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if isinstance(run.error, CatalogError) and not begun.done():
            del self._runs[run.id]
            raise run.error
        return run

    def find(self, run_id: UUID) -> Run | None:
        """Return the run if this worker has it, else None."""
        return self._runs.get(run_id)

    async def _work(self, run: Run, begun: asyncio.Future[None]) -> None:
        async def announce(_: UUID) -> None:
            if not begun.done():
                begun.set_result(None)

        try_request = run.try_request
        try:
            run.result = await call_tool.call_tool(
                try_request.caller(),
                try_request.tool,
                try_request.arguments,
                run.channel,
                call_id=run.id,
                begun=announce,
                detached=True,
            )
            run.size = sum(len(str(part)) for part in (*run.result.content, run.result.structured))
        except (CatalogError, asyncio.CancelledError) as error:
            run.error = error
        except BaseException as error:
            log.exception("The try %s failed", run.id)
            run.error = error
        finally:
            run.ended = time.monotonic()
            if run.entry is not None:
                self._requests.leave(run.entry)

    def _forget_old(self) -> None:
        ended = [run for run in self._runs.values() if run.ended is not None]
        total = sum(run.size for run in ended)
        for run in ended:
            if time.monotonic() - (run.ended or 0.0) > RETENTION_SECONDS or total > MAX_RESULT_CHARACTERS:
                total -= run.size
                del self._runs[run.id]


def _describe_error(run: Run) -> dict[str, str]:
    """Return the reason for a missing result: its kind for the page, and the sentence of the call pipeline."""
    match run.error:
        case asyncio.CancelledError():
            reason = run.entry.reason if run.entry is not None else None
            return {"kind": "cancelled", "text": reason or "", "reason": reason.reason.encode() if reason else ""}
        case InternalFailure() | None:
            return {"kind": "internal", "text": ""}
        case InvalidArguments() | CallNotLogged() | CatalogError() | McpError():
            return {"kind": "refused", "text": str(run.error)}
    return {"kind": "internal", "text": ""}
