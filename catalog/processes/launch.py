"""Runs of programs under a supervisor, with captured output: no shell, a clean environment, limits, an output cap.

A cancelled awaiter returns at once; the supervisor then ends the program (SIGTERM, later SIGKILL) and all processes
that it started. The supervisor also does so by itself when the hub is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings

from catalog.errors import ToolError
from catalog.slots import share_of_one_user
from toolhub.parts import parts

SUPERVISOR = Path(__file__).with_name("supervisor.py")
CHUNK_BYTES = 65_536
GRACE_SECONDS = 2.0
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    cpu_seconds: int = 60
    memory_bytes: int = 1_073_741_824
    processes: int = 32
    file_bytes: int = 67_108_864
    open_files: int = 256
    reserves: bool = False
    """Whether it reserves far more address space than it uses, as Node does: then writable memory is limited."""

    def as_rlimits(self) -> dict[str, int]:
        return {
            "CPU": self.cpu_seconds,
            "DATA" if self.reserves else "AS": self.memory_bytes,
            "NPROC": self.processes,
            "FSIZE": self.file_bytes,
            "NOFILE": self.open_files,
            "CORE": 0,
        }


@dataclass(frozen=True, slots=True)
class Order:
    """A program to run, with its arguments, environment, folder and limits.

    A new folder is made by `run_program` alone: nothing that fails before can leave one behind.
    """

    program: str
    """An absolute path."""
    arguments: Sequence[str]
    """Without the program itself."""
    environment: Mapping[str, str]
    folder_fd: int | None = None
    """The descriptor of the open folder to run in; None: a new empty folder, which is removed afterwards."""
    folder_prefix: str = "toolhub-"
    """The beginning of the new folder's name."""
    folder_variables: tuple[str, ...] = ()
    """Environment variables that name the new folder."""
    limits: Limits = field(default_factory=Limits)
    nice: int = 10
    poll_seconds: float = 0.0
    """Longest interval in seconds between process counts of an idle program; 0: as short as a brief program needs."""
    name: str = ""
    """The name that the program sees as its own."""


@dataclass(slots=True)
class Report:
    why: str
    """One of ended, stopped, processes (there were too many), orphaned, or lost: the supervisor itself was killed."""
    status: int | None
    """The exit status of the program; a negative one is the number of the signal that ended it."""
    seconds: float = 0.0
    cpu_seconds: float = 0.0


class Busy(ToolError):
    def __init__(self) -> None:
        super().__init__("Too many programs are already running for tools. Try again in a minute.")


class ShareBusy(ToolError):
    def __init__(self) -> None:
        super().__init__("Too many programs are already running for your calls. Try again when one has ended.")


class ChildProcesses:
    """The programs that run for calls of this process: at most TOOL_PROCESSES, and of one user three quarters."""

    def __init__(self) -> None:
        self.taken = 0
        self._by_user: Counter[int] = Counter()
        self._ending: set[asyncio.Future[Report]] = set()

    def take(self, user_id: int) -> None:
        """Count one more program of a user. Raises Busy or ShareBusy when the limit is reached."""
        if self.taken >= settings.TOOL_PROCESSES:
            raise Busy
        if self._by_user[user_id] >= share_of_one_user(settings.TOOL_PROCESSES):
            raise ShareBusy
        self.taken += 1
        self._by_user[user_id] += 1

    def give(self, user_id: int) -> None:
        self.taken -= 1
        self._by_user[user_id] -= 1
        if not self._by_user[user_id]:
            del self._by_user[user_id]

    def release_when_ended(self, ended: asyncio.Future[Report], user_id: int) -> None:
        """Release the slot when the program has ended, even if no caller waits for it then."""
        self._ending.add(ended)
        ended.add_done_callback(functools.partial(self._finished, user_id))

    def _finished(self, user_id: int, ended: asyncio.Future[Report]) -> None:
        self.give(user_id)
        self._ending.discard(ended)
        if not ended.cancelled():
            ended.exception()


class Child:
    """A running program; `report` waits for its end."""

    def __init__(self, process: asyncio.subprocess.Process, folder: str, order_fd: int) -> None:
        self.process, self._folder, self._order_fd = process, folder, order_fd
        self.stdin, self.stdout, self.stderr = process.stdin, process.stdout, process.stderr
        self._stopped = False
        self.ended = asyncio.ensure_future(self._wait())

    def stop(self, *, at_once: bool = False) -> None:
        self._stopped = True
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGINT if at_once else signal.SIGTERM)

    async def report(self) -> Report:
        """Return how the program ended; its slot is free by then."""
        report = await asyncio.shield(self.ended)
        # If it had ended before, the line above did not wait for the callback that frees the slot.
        await asyncio.sleep(0)
        return report

    async def _wait(self) -> Report:
        try:
            await self.process.wait()
            data = os.pread(self._order_fd, CHUNK_BYTES, 0)
        finally:
            os.close(self._order_fd)
        with contextlib.suppress(ValueError, TypeError):
            return Report(**json.loads(data))
        if self._stopped and self.process.returncode in (-signal.SIGTERM, -signal.SIGINT):
            _discard(self._folder)  # stopped before the program was started
            return Report("stopped", None)
        log.error("the supervisor of a tool's program ended with status %s", self.process.returncode)
        if self._folder:
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
        return Report("lost", None)


def count_running() -> int:
    """Return how many programs run for tools in this process."""
    return parts.get(ChildProcesses).taken


@asynccontextmanager
async def run_program(
    order: Order, *, stdin: int | None, user_id: int | None, max_line_bytes: int = CHUNK_BYTES
) -> AsyncIterator[Child]:
    """Run the program inside the block.

    Leaving the block by an exception stops it; its remaining processes end in the background. It counts among the
    programs of `user_id`; one that runs for nobody's call has limits of its own. Raises Busy or ShareBusy.
    """
    children = parts.get(ChildProcesses)
    if user_id is not None:
        children.take(user_id)
    folder = ""
    try:
        if order.folder_fd is None:
            folder = tempfile.mkdtemp(prefix=order.folder_prefix)
        child = await _start(order, folder, stdin, max_line_bytes)
    except BaseException:
        if user_id is not None:
            children.give(user_id)
        _discard(folder)
        raise
    if user_id is not None:
        children.release_when_ended(child.ended, user_id)
    try:
        yield child
    except BaseException:
        child.stop()
        close_pipes(child)
        raise


def _discard(folder: str) -> None:
    """Remove the folder of a program that never started, if there is one; the folder is empty."""
    if folder:
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def close_pipes(child: Child) -> None:
    """Close our ends of the pipes: a program that goes on writing finds no reader."""
    if child.stdin is not None:
        child.stdin.close()
    transport = child.process._transport  # type: ignore[attr-defined]
    for number in (1, 2):
        pipe = transport.get_pipe_transport(number)
        if pipe is not None:
            pipe.close()


async def _start(order: Order, folder: str, stdin: int | None, max_line_bytes: int) -> Child:
    text = json.dumps(
        {
            "program": order.program,
            "arguments": [order.name or order.program, *order.arguments],
            "environment": dict.fromkeys(order.folder_variables, folder) | dict(order.environment),
            "folder": folder,
            "folder_fd": order.folder_fd,
            "limits": order.limits.as_rlimits(),
            "processes": order.limits.processes,
            "nice": order.nice,
            "look": order.poll_seconds,
            "grace": GRACE_SECONDS,
        }
    ).encode()
    order_fd = os.memfd_create("order", os.MFD_CLOEXEC)
    try:
        os.write(order_fd, text)
        os.lseek(order_fd, 0, os.SEEK_SET)
        given = [order_fd] if order.folder_fd is None else [order_fd, order.folder_fd]
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-S",
            str(SUPERVISOR),
            str(order_fd),
            stdin=asyncio.subprocess.DEVNULL if stdin is None else stdin,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={},
            pass_fds=given,
            start_new_session=True,
            limit=max_line_bytes,
        )
    except BaseException:
        os.close(order_fd)
        raise
    return Child(process, folder, order_fd)


async def read(stream: asyncio.StreamReader | None, max_bytes: int) -> tuple[bytes, bool]:
    """Read up to `max_bytes` bytes; return them, and whether there was more."""
    assert stream is not None  # noqa: S101 - every child has its pipes
    found = bytearray()
    while chunk := await stream.read(CHUNK_BYTES):
        found += chunk
        if len(found) > max_bytes:
            return bytes(found[:max_bytes]), True
    return bytes(found), False


async def write_stdin(child: Child, data: bytes) -> None:
    """Write `data` to the program's stdin, which the program may ignore."""
    stdin: Any = child.stdin
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        stdin.write(data)
        await stdin.drain()
    stdin.close()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        await stdin.wait_closed()
