"""A test of the connection to an upstream server whose steps are known while it runs, and that can be cancelled.

It runs in a thread of its own and logs its end itself: a page that is closed ends the test, and the audit log says so.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field

from django.db import connections
from django.utils.translation import get_language, override

from audit.actions import log
from catalog.models import Upstream
from catalog.runners.upstream_mcp.connection import Connection
from catalog.runners.upstream_mcp.failures import UpstreamError
from catalog.runners.upstream_mcp.steps import Step
from catalog.upstreams import discovery
from catalog.upstreams.listing import Kind, Listing, list_items


@dataclass(frozen=True, slots=True)
class StepEvent:
    """The beginning of a step, or its end with the duration."""

    step: Step
    microseconds: int | None = None
    """None: the step began."""
    number: int | None = None
    """How many items a list has."""


@dataclass(frozen=True, slots=True)
class End:
    """The last event: what was found, why there is nothing, or neither when somebody cancelled the test.

    The sentences are in the language of the page: making them may read the database.
    """

    found: Listing | None = None
    problem: str = ""
    problems: Mapping[Kind, str] = field(default_factory=dict)
    """Why a kind could not be listed."""
    crashed: bool = False


class ConnectionTest:
    """One test for one page, which makes it in its own context and reads `events` later."""

    def __init__(self, upstream: Upstream, user_id: int | None) -> None:
        """Store what to test, with whose personal secrets, the actor of the page and its language."""
        self._upstream, self._user_id, self._language = upstream, user_id, get_language()
        self._context = contextvars.copy_context()
        self._lock = threading.Lock()
        self._cancel: Callable[[], object] | None = None
        self._cancelled = False
        self._begun: dict[Step, float] = {}
        self._tell: Callable[[StepEvent | End], object] | None = None

    async def events(self) -> AsyncGenerator[StepEvent | End, None]:
        """Run the test and yield its steps and its end; whoever stops reading cancels it."""
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[StepEvent | End] = asyncio.Queue()
        self._tell = lambda event: loop.call_soon_threadsafe(queue.put_nowait, event)
        work = threading.Thread(target=self._context.run, args=(self._run,), name="connection test", daemon=True)
        work.start()
        try:
            while True:
                event = await queue.get()
                yield event
                if isinstance(event, End):
                    return
        finally:
            self.cancel()

    def cancel(self) -> None:
        """End the test from any thread; does nothing to one that ended."""
        with self._lock:
            self._cancelled = True
            if self._cancel is not None:
                self._cancel()

    def _run(self) -> None:
        end = End(crashed=True)
        try:
            with override(self._language):
                end = self._discover()
        finally:
            connections.close_all()
            self._say(end)

    def _discover(self) -> End:
        try:
            found = discovery.discover(self._upstream, self._user_id, "tested", self._list)
            problems = {kind: str(error.localized_message) for kind, error in found.problems.items()}
            return End(found, problems=problems)
        except UpstreamError as error:
            return End(problem=str(error.localized_message))
        except asyncio.CancelledError:
            log.record("tested", "upstream", discovery.logged_name(self._upstream), None, {"problem": "cancelled"})
            return End()

    async def _list(self, connection: Connection, values: Mapping[str, str]) -> Listing:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None  # noqa: S101 - inside of a coroutine that runs
        with self._lock:
            if self._cancelled:
                raise asyncio.CancelledError
            self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        try:
            return await list_items(connection, values, self._report)
        finally:
            with self._lock:
                self._cancel = None

    def _report(self, step: Step, ended: bool, number: int | None) -> None:
        now = time.monotonic()
        began = self._begun.setdefault(step, now)
        self._say(StepEvent(step, round((now - began) * 1_000_000) if ended else None, number))

    def _say(self, event: StepEvent | End) -> None:
        assert self._tell is not None  # noqa: S101 - `events` set it
        try:
            self._tell(event)
        except RuntimeError:
            return  # the loop of the page has ended
