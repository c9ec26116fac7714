"""Spool of outcomes that could not be written to the database: a file of checksummed lines in the data folder.

The file is synced before the waiters are woken, and replayed once and in order when the database is available again.
Each writer has one file, locked as long as its process lives. An unlocked file belongs to a dead process, and the next
process replays it.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from threading import Lock
from uuid import UUID

from django.conf import settings

from audit.format.chain import encode
from audit.types import Ending
from audit.writing.entries import FINISH, Entry

logger = logging.getLogger("audit")

MAX_SPOOL_BYTES = 64 * 1024 * 1024


class SpoolFailed(Exception):
    """Error: the outcomes are not durable, because the disk failed or there are too many."""


def folder() -> Path:
    return Path(settings.DATA_DIR) / "spool"


def path_of(writer: int) -> Path:
    return folder() / f"{writer}.jsonl"


class Spool:
    """The spool file of one writer of this process. Threads may share it."""

    def __init__(self, writer: int) -> None:
        self.path = path_of(writer)
        self._lock = Lock()
        self._descriptor: int | None = None
        self.size = 0
        """Bytes in the file: 0 when everything is in the database."""

    def append(self, entries: Iterable[Entry]) -> None:
        """Write the entries to the disk, synced. Raise SpoolFailed when that fails or the spool is full."""
        text = "".join(map(_format_line, entries)).encode()
        with self._lock:
            if self.size + len(text) > MAX_SPOOL_BYTES:
                raise SpoolFailed("the spool is full")
            try:
                descriptor = self._open()
                self._write(descriptor, text)
            except OSError as error:
                raise SpoolFailed(f"the spool cannot be written: {error.strerror}") from error
            self.size += len(text)

    def _open(self) -> int:
        if self._descriptor is None:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            parent = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(parent)  # the file's directory entry must be durable as well
            finally:
                os.close(parent)
            self._descriptor, self.size = descriptor, os.fstat(descriptor).st_size
        return self._descriptor

    def _write(self, descriptor: int, text: bytes) -> None:
        before = os.fstat(descriptor).st_size
        try:
            view = memoryview(text)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, before)  # remove a partial line
            raise

    def read(self) -> tuple[list[Entry], int]:
        """Return the entries in the file, and its size in bytes at that time."""
        with self._lock:
            if self._descriptor is None:
                return [], 0
            return list(read(self.path)), self.size

    def discard(self, size: int) -> None:
        """Remove the first `size` bytes: they are in the database."""
        with self._lock:
            if self._descriptor is None:
                return
            if self.size > size:
                rest = self.path.read_bytes()[size:]
                os.ftruncate(self._descriptor, 0)
                self._write(self._descriptor, rest)
                self.size = len(rest)
            else:
                os.ftruncate(self._descriptor, 0)
                os.fsync(self._descriptor)
                self.size = 0

    def close(self) -> None:
        """Close the file, and remove it when it is empty."""
        with self._lock:
            if self._descriptor is not None:
                if not self.size:
                    self.path.unlink(missing_ok=True)
                os.close(self._descriptor)
                self._descriptor, self.size = None, 0


@contextmanager
def lock_abandoned(path: Path) -> Iterator[bool]:
    """Lock the spool file of a dead process. Yield False when its process lives or the file is gone."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            # Another process may have replayed and removed the file between open and lock.
            yield os.fstat(descriptor).st_nlink > 0
    finally:
        os.close(descriptor)


def _format_line(entry: Entry) -> str:
    ending = entry.ending
    assert ending is not None  # noqa: S101
    text = encode(
        {
            "call": entry.id.hex,
            "ended": entry.ms,
            "duration": entry.duration,
            "link": entry.link,
            "outcome": ending.outcome,
            "error_class": ending.error_class,
            "detail": ending.detail,
            "detail_reason": ending.detail_reason,
            "result": ending.result,
            "result_bytes": ending.result_bytes,
            "result_sha256": ending.result_sha256,
        }
    )
    text = text.encode("utf-8", "replace").decode()
    return f"{sha256(text.encode()).hexdigest()} {text}\n"


def read(path: Path) -> Iterator[Entry]:
    """Yield the outcomes in a spool file. Log and skip lines that are incomplete or were changed."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            checksum, _, text = line.rstrip(b"\n").partition(b" ")
            if not line.endswith(b"\n") or sha256(text).hexdigest().encode() != checksum:
                logger.error("line %d of %s does not fit its checksum and is not replayed", number, path)
                continue
            data = json.loads(text)
            entry = Entry(FINISH, UUID(data["call"]), None, None, data["ended"], 0.0)
            entry.duration, entry.link = data["duration"], data["link"]
            entry.ending = Ending(
                data["outcome"],
                data["error_class"],
                data["detail"],
                data["result"],
                data["result_bytes"],
                data["result_sha256"],
                data["detail_reason"],
            )
            yield entry
