"""MCP over stdin and stdout, for clients that start their own servers: one message per line.

Only protocol messages may appear on stdout, so the stream is moved to its own descriptor and all other output goes to
stderr.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import BinaryIO

from django.conf import settings

from audit.types import Credential
from toolhub.server.process import ServerRole
from toolhub.transports.connection import TOO_BIG, TOO_LARGE, Connection

MAX_CONCURRENT_LINES = 60
"""Maximum lines in progress; no further line is read meanwhile, which slows down the writer at the other end."""


def take_stdout() -> BinaryIO:
    """Return the real stdout; from now on `print` and C libraries write to stderr."""
    sys.stdout.flush()
    descriptor = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return os.fdopen(descriptor, "wb", buffering=0)


async def serve(server: ServerRole, credential: Credential, token: str, source: BinaryIO, sink: BinaryIO) -> None:
    """Serve one client until its stream ends, or a signal comes, and running requests have answered."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)

    async def write(data: bytes) -> None:
        await loop.run_in_executor(None, write_all, sink, data + b"\n")

    async def close(code: int, reason: str) -> None:
        ended.set()

    connection = Connection(server, credential, token, "stdio", "", write, close)
    slots = threading.Semaphore(MAX_CONCURRENT_LINES)

    def on_line(line: bytes | None) -> None:
        task = None
        if line is None:
            ended.set()
        elif len(line) > settings.MAX_BODY_BYTES:
            connection.end(TOO_BIG, TOO_LARGE)
        elif line.strip():
            task = connection.receive(line)
        if task is None:
            slots.release()
        else:
            task.add_done_callback(lambda _: slots.release())

    reader = threading.Thread(target=read_lines, args=(source, slots, loop, on_line), name="stdin", daemon=True)
    reader.start()
    await ended.wait()
    await connection.drain(settings.STOP_SECONDS)


def read_lines(
    source: BinaryIO,
    slots: threading.Semaphore,
    loop: asyncio.AbstractEventLoop,
    on_line: Callable[[bytes | None], None],
) -> None:
    """Pass on line by line, limited by the semaphore `slots`; pass None at the end."""
    while True:
        slots.acquire()
        line = source.readline(settings.MAX_BODY_BYTES + 2)
        try:
            loop.call_soon_threadsafe(on_line, line.rstrip(b"\r\n") if line else None)
        except RuntimeError:
            return
        if not line:
            return


def write_all(sink: BinaryIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[sink.write(view) :]
