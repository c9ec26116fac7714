"""An upstream server as a child process: MCP messages as lines on its stdin and stdout, each of a limited length.

The program is one that TOOLHUB_COMMANDS lists. It gets a clean environment, a temporary working folder, a session of
its own and limits. It ends, with everything it started, when the connection is closed or the hub is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio

from catalog.message_load import MessageLoad, TooManyValues
from catalog.processes import allowlist
from catalog.processes.launch import Child, Limits, Order, close_pipes, run_program
from catalog.runners.upstream_mcp.connection import Connection
from toolhub.wire.json_size import MAX_VALUES

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

CHUNK_BYTES = 65_536
EXIT_GRACE_SECONDS = 2.0
"""Seconds that a server has to exit after its stdin was closed, and again after SIGTERM."""
MAX_LOGGED_STDERR_BYTES = 2000
POLL_SECONDS = 0.5
LIMITS = Limits(cpu_seconds=3600, memory_bytes=2 << 30, processes=64, open_files=1024, reserves=True)
"""Limits of each process of the server, except for the number of processes."""
log = logging.getLogger(__name__)


class ProgramNotAllowed(Exception):
    """A program that may not be started; the message is a sentence."""

    def __init__(self, program: str, problem: str) -> None:
        super().__init__(problem)
        self._program = program

    @property
    def localized_message(self) -> str:
        """The message in the language of the page."""
        return allowlist.find_problem(self._program) or str(self)


@asynccontextmanager
async def open_pipes(
    connection: Connection, environment: Mapping[str, str], max_bytes: int, load: MessageLoad
) -> AsyncIterator[TransportStreams]:
    problem = allowlist.find_problem(connection.command)
    if problem:
        raise ProgramNotAllowed(connection.command, problem)
    order = Order(
        allowlist.programs()[connection.command],
        list(connection.args),
        {"PATH": allowlist.PATH, "LANG": "C.UTF-8", **environment},
        folder_prefix="thub-upstream-",
        folder_variables=("HOME", "TMPDIR"),
        limits=LIMITS,
        nice=5,
        poll_seconds=POLL_SECONDS,
    )
    # The pool of connections counts it, not the limit on programs of calls.
    async with run_program(order, stdin=asyncio.subprocess.PIPE, user_id=None) as child:
        try:
            async with _streams(child, connection.label, max_bytes, load) as streams:
                yield streams
        finally:
            with anyio.CancelScope(shield=True):
                await _end(child, connection.label)


@asynccontextmanager
async def _streams(child: Child, label: str, max_bytes: int, load: MessageLoad) -> AsyncIterator[TransportStreams]:
    from mcp.shared.message import SessionMessage

    inbox_writer, inbox = anyio.create_memory_object_stream[Any](0)
    outbox, outbox_reader = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        async with inbox_writer:
            with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                async for line in _lines(child.stdout, max_bytes, label, load):
                    try:
                        await load.read_whole(line)
                    except TooManyValues:
                        log.warning(
                            "%s sent a message with more than %d values; the connection is closed", label, MAX_VALUES
                        )
                        return
                    await inbox_writer.send(_message(line))

    async def write() -> None:
        stdin: Any = child.stdin
        async with outbox_reader:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                async for item in outbox_reader:
                    stdin.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                    await stdin.drain()
        await inbox_writer.aclose()

    async def log_stderr() -> None:
        """Log a part of its stderr, and read all of it: it must never fill its pipe."""
        logged_bytes = 0
        while chunk := await child.stderr.read(CHUNK_BYTES):  # type: ignore[union-attr]
            if logged_bytes < MAX_LOGGED_STDERR_BYTES:
                log.debug(
                    "%s says: %s", label, chunk[: MAX_LOGGED_STDERR_BYTES - logged_bytes].decode(errors="replace")
                )
                logged_bytes += len(chunk)

    async with inbox, outbox, anyio.create_task_group() as group:
        group.start_soon(read)
        group.start_soon(write)
        group.start_soon(log_stderr)
        try:
            yield inbox, outbox
        finally:
            group.cancel_scope.cancel()


async def _lines(
    stdout: asyncio.StreamReader | None, max_bytes: int, label: str, load: MessageLoad
) -> AsyncIterator[bytes]:
    assert stdout is not None  # noqa: S101 - it was asked for
    pending = bytearray()
    while chunk := await stdout.read(CHUNK_BYTES):
        await load.read_lines(chunk)
        start = len(pending)
        pending += chunk
        while (end := pending.find(b"\n", start)) >= 0:
            line = bytes(pending[:end])
            del pending[: end + 1]
            start = 0
            if line.strip():
                yield line
        if len(pending) > max_bytes:
            log.warning("%s sent a message longer than %d bytes; the connection is closed", label, max_bytes)
            return


def _message(line: bytes) -> Any:
    """Return a parsed message, or the error that it is invalid."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def _end(child: Child, label: str) -> None:
    """Close its stdin and wait; then send SIGTERM, and later SIGKILL, to everything it started."""
    if child.stdin is not None:
        child.stdin.close()
    try:
        report = await asyncio.wait_for(child.report(), EXIT_GRACE_SECONDS)
    except TimeoutError:
        child.stop()
        close_pipes(child)  # otherwise unread output would be waited for
        report = await child.report()
    if report.why == "processes":
        log.warning("%s was stopped: it had started more than %d processes", label, LIMITS.processes)
    elif report.status is not None and report.status < 0 and report.why == "ended":
        log.warning("%s was ended by %s", label, signal.Signals(-report.status).name)
    close_pipes(child)
