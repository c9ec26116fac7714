"""The processes that read SQLite databases: started when needed, kept for the next query, killed when one is over."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).with_name("reader.py")
MAX_IDLE = 4
TRANSFER_SECONDS = 10.0
"""Maximum seconds for the start of a process, its request and its answer, beside the query's own."""
EXIT_SECONDS = 1.0
"""Seconds between the end of the output of a process and its own, which says why it ended."""
CHUNK_BYTES = 1 << 20
MAX_ESCAPE = 6
"""Maximum number of bytes that JSON takes for one character of one byte."""
EXTRA_ANSWER_BYTES = 1 << 20
VARIABLES = ("TMPDIR", "SQLITE_TMPDIR")
"""The only variables of the hub's environment that a process gets: where SQLite puts temporary files."""


class ReaderEnded(Exception):
    """A process that ended, or was ended, without an answer; `late` when its query was over its time."""

    def __init__(self, status: int, *, late: bool = False) -> None:
        super().__init__(f"status {status}")
        self.late = late or status == -signal.SIGALRM


class Reader:
    """One process, for one query at a time."""

    def __init__(self) -> None:
        self.used = False
        """Whether it has answered a query before."""
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(SCRIPT)],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in VARIABLES if name in os.environ},
            cwd="/",
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer. Raises ReaderEnded, always within the request's seconds and TRANSFER_SECONDS."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None  # noqa: S101 - both were asked for
        deadline = time.monotonic() + request["seconds"] + TRANSFER_SECONDS
        max_bytes = MAX_ESCAPE * request["bytes"] + EXTRA_ANSWER_BYTES
        try:
            _write_all(stdin.fileno(), json.dumps(request).encode() + b"\n")
            data = bytearray()
            waiting = select.poll()
            waiting.register(stdout, select.POLLIN)
            while not data.endswith(b"\n"):
                if not waiting.poll(max(0.0, deadline - time.monotonic()) * 1000):
                    raise ReaderEnded(self.end(), late=True)
                chunk = os.read(stdout.fileno(), CHUNK_BYTES)
                if not chunk or len(data) > max_bytes:
                    raise ReaderEnded(self.end(EXIT_SECONDS))
                data += chunk
            found: dict[str, Any] = json.loads(data)
            self.used = True
        except BaseException:
            self.end()
            raise
        return found

    def kill(self) -> None:
        """End it from any thread: whoever waits for its answer gets ReaderEnded."""
        self._process.kill()

    def end(self, patience: float = 0.0) -> int:
        """End it, after so many seconds in which it may end by itself, and return its exit status. May be repeated."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(patience)
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        return self._process.wait()


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    with suppress(BrokenPipeError):  # it has ended: reading its answer says how
        while view:
            view = view[os.write(descriptor, view) :]


class SqliteReaders:
    """The idle processes of this one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Reader] = []

    def take(self) -> Reader:
        """Return a process for one query. Raises OSError when none can be started."""
        while True:
            with self._lock:
                reader = self._idle.pop() if self._idle else None
            if reader is None:
                return Reader()
            if reader.alive:
                return reader
            reader.end()

    def give(self, reader: Reader) -> None:
        """Keep the process for the next query, or end it when there are enough."""
        with self._lock:
            if len(self._idle) < MAX_IDLE:
                self._idle.append(reader)
                return
        reader.end()

    def close(self) -> None:
        """End the idle processes; later queries start new ones."""
        with self._lock:
            idle, self._idle = self._idle, []
        for reader in idle:
            reader.end()
