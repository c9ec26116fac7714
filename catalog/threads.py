"""A bounded pool of threads for functions that are not async.

A thread cannot be killed: a function that ignores `ctx.cancelled` goes on after its call has ended and keeps its slot
until it returns. When every slot is taken, a new call waits briefly and then gets the error that the hub is busy. The
threads are daemons, so that one that never returns does not keep the process from stopping. One user gets three
quarters of a pool: slow functions that one person calls leave threads to the others.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, TypeVar

from django.conf import settings
from django.db import connections

from catalog.errors import ToolError
from catalog.slots import SharedSlots
from toolhub.parts import parts

WAIT_SECONDS = 5.0
T = TypeVar("T")
log = logging.getLogger(__name__)


class Busy(ToolError):
    def __init__(self, message: str = "All threads for tools are busy. Try again in a minute.") -> None:
        super().__init__(message)


class ShareBusy(Busy):
    def __init__(self) -> None:
        super().__init__(
            "All threads that tools may use for one user are busy with your calls. Try again when one has ended."
        )


class Pool:
    """A pool of threads of one name, started when they are first needed."""

    def __init__(self, name: str, size: int) -> None:
        self.name, self.size = name, size
        self._slots = SharedSlots(size, Busy, ShareBusy)
        self._starting = threading.Lock()
        self._started = 0
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()

    async def run(self, call: Callable[[], T], wait: float | None = None, user_id: int | None = None) -> T:
        """Return the result of `call()`, run in a thread; for `user_id`, as one of the threads of that user.

        A cancelled awaiter returns at once; the slot is free when the thread is done. Raises Busy or ShareBusy when
        there is no slot within `wait` seconds.
        """
        share = await self._slots.enter(WAIT_SECONDS if wait is None else wait, user_id)
        answer = self._submit(call, share)
        try:
            return await answer
        finally:
            del answer  # its error has a traceback with this frame: all of the call would wait for a collection

    def _submit(self, call: Callable[[], T], share: Any) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def job() -> None:
            result, error = None, None
            try:
                result = call()
            except BaseException as raised:  # noqa: BLE001 - a thread's end belongs to the call that waits for it
                error = raised
                if isinstance(raised, StopIteration | GeneratorExit):
                    # A future refuses the one, and the other would close the coroutines that wait for it.
                    error = RuntimeError(type(raised).__name__)
            finally:
                connections.close_all()
                self._slots.leave(share)
            try:
                loop.call_soon_threadsafe(_settle, answer, result, error)
            except RuntimeError:
                log.debug("a tool thread ended after its event loop was closed")

        self._start_thread()
        self._jobs.put(job)
        return answer

    @property
    def taken(self) -> int:
        return self._slots.taken

    def _start_thread(self) -> None:
        """Start another thread unless there are as many as slots in use."""
        with self._starting:
            if self._started >= self._slots.taken:
                return
            self._started += 1
            number = self._started
        threading.Thread(target=self._work, name=f"{self.name}-{number}", daemon=True).start()

    def _work(self) -> None:
        while True:
            self._jobs.get()()


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


class ThreadPools:
    """The pools of a process, by name."""

    def __init__(self) -> None:
        self._pools: dict[str, Pool] = {}
        self._making = threading.Lock()

    def pool(self, name: str, size: int) -> Pool:
        """Return the pool of that name and size, made when it is first asked for."""
        pool = self._pools.get(name)
        if pool is None or pool.size != size:
            with self._making:
                pool = self._pools.get(name)
                if pool is None or pool.size != size:
                    pool = self._pools[name] = Pool(name, size)
        return pool


def run_in_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine for a page: in a thread with a loop of its own, independent of the page's thread.

    It runs in a copy of the page's context, so its sentences are in the language of the page.
    """
    with ThreadPoolExecutor(1, "page") as executor:
        return executor.submit(contextvars.copy_context().run, asyncio.run, work).result()


def tools() -> Pool:
    """Return the threads that run functions of tools, prompts and resources."""
    return _pool("tool", settings.TOOL_THREADS)


def sqlite() -> Pool:
    """Return the threads that wait for processes which read SQLite databases: as many may run at a time."""
    return _pool("sqlite", 8)


def storage() -> Pool:
    """Return the threads that read and write tasks and stored results.

    They are separate from the tools' threads, which may all be busy.
    """
    return _pool("store", 4)


def queries() -> Pool:
    """Return the threads that run queries for pages which are kept up to date while they are open."""
    return _pool("look", 2)


def presence() -> Pool:
    """Return the thread that records which clients are connected."""
    return _pool("presence", 1)


def checks() -> Pool:
    """Return the threads for work on large values: checks against a schema, redaction of results, decoding."""
    return _pool("check", 4)


def replays() -> Pool:
    """Return the threads that replay logged calls for pages: one for each person."""
    return _pool("replay", 2)


def _pool(name: str, size: int) -> Pool:
    return parts.get(ThreadPools).pool(name, size)
