"""The workspace: the one folder that file tools may touch.

Every step of a path is opened relative to the one before, and no link is followed, so that nothing that is swapped in
meanwhile leads out of it. A file with a second name (a hard link) may be the same file as one outside, so it is neither
read nor appended to; its name can be replaced or deleted. This is checked on the open file, not on a name.
"""

from __future__ import annotations

import errno
import heapq
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from django.conf import settings

from catalog.errors import ToolError

MAX_READ_BYTES = 1_000_000
MAX_WRITE_BYTES = 1_000_000
MAX_FILE_BYTES = 20_000_000
MAX_ENTRIES = 1000
MAX_DEPTH = 32
MAX_OPEN_ATTEMPTS = 20
"""A file that is replaced while it is opened is opened again, so often."""
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a FIFO would wait for its other end.
_FILE_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Entry:
    path: str
    type: str
    """file, folder, or other (links of both kinds, devices: named, never opened)."""
    size: int
    modified: str


def root() -> Path:
    """Return the folder, created if it is missing."""
    folder = Path(settings.WORKSPACE_DIR)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def split_path(path: str) -> list[str]:
    """Return the steps of a path below the workspace. Raises ToolError for a path that could lead anywhere else."""
    if "\0" in path or len(path) > 1000:
        raise ToolError("The path is too long or contains a NUL character.")
    if path.startswith(("/", "~")) or "\\" in path or (len(path) > 1 and path[1] == ":"):
        raise ToolError(f"{_quote_path(path)} is not relative to the workspace: give a path such as reports/2026.csv.")
    steps = [step for step in path.split("/") if step not in ("", ".")]
    if ".." in steps:
        raise ToolError(f"{_quote_path(path)} leaves the workspace: '..' is not allowed.")
    if len(steps) > MAX_DEPTH:
        raise ToolError("The path has too many folders.")
    return steps


def read(path: str, max_bytes: int = MAX_READ_BYTES) -> bytes:
    """Return the whole file, if it is at most `max_bytes` long."""
    with _file(path, os.O_RDONLY) as descriptor:
        size = os.fstat(descriptor).st_size
        if size > max_bytes:
            raise ToolError(
                f"{_quote_path(path)} has {size} bytes, more than the {max_bytes} that can be read at once."
            )
        data = b""
        while chunk := os.read(descriptor, max_bytes + 1 - len(data)):
            data += chunk
            if len(data) > max_bytes:
                raise ToolError(f"{_quote_path(path)} has more than the {max_bytes} bytes that can be read at once.")
        return data


def size_of(path: str) -> int:
    """Return the size of an ordinary file in bytes. Raises ToolError when there is none."""
    with _file(path, os.O_RDONLY) as descriptor:
        return os.fstat(descriptor).st_size


def write(path: str, data: bytes, *, append: bool = False) -> int:
    """Replace the file, or append to it, and create its folders; return its new size."""
    if len(data) > MAX_WRITE_BYTES:
        raise ToolError(f"{len(data)} bytes are more than the {MAX_WRITE_BYTES} that can be written at once.")
    steps = _file_steps(path)
    with _folder(steps[:-1], path, make=True) as folder:
        name = steps[-1]
        if append:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
            with _open_regular(name, flags, folder, path) as descriptor:
                size = os.fstat(descriptor).st_size + len(data)
                if size > MAX_FILE_BYTES:
                    raise ToolError(f"{_quote_path(path)} would grow beyond {MAX_FILE_BYTES} bytes.")
                with _translate_errors(path):
                    _write_all(descriptor, data)
                return size
        _check_regular(name, folder, path)
        # Written beside and moved into place: a reader sees the old file or the new one.
        draft = f".{name[:100]}.{secrets.token_hex(8)}"
        try:
            with _translate_errors(path):  # the folder may be swapped for another or removed, the disk may be full
                descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE_FLAGS, 0o600, dir_fd=folder)
                try:
                    _write_all(descriptor, data)
                finally:
                    os.close(descriptor)
                os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(draft, dir_fd=folder)
            raise
        return len(data)


@contextmanager
def open_file(path: str) -> Iterator[int]:
    """Open an ordinary file and yield its descriptor: for a program that reads it as its input."""
    with _file(path, os.O_RDONLY) as descriptor:
        os.set_blocking(descriptor, True)
        yield descriptor


@contextmanager
def open_folder(path: str = "") -> Iterator[int]:
    """Open a folder and yield its descriptor: for a program that runs in it."""
    with _folder(split_path(path), path or ".") as descriptor:
        yield descriptor


def delete(path: str) -> None:
    """Remove one file; folders and links are rejected."""
    steps = _file_steps(path)
    with _folder(steps[:-1], path) as folder:
        if not _check_regular(steps[-1], folder, path):
            raise ToolError(f"There is no file {_quote_path(path)}.")
        with _translate_errors(path):
            os.unlink(steps[-1], dir_fd=folder)


def list_entries(path: str = "", *, recursive: bool = False) -> tuple[list[Entry], bool]:
    """Return the entries of a folder, sorted by path, and whether there are more than fit."""
    steps = split_path(path)
    found: list[Entry] = []
    with _folder(steps, path or ".") as folder:
        complete = _collect(folder, "/".join(steps), recursive, found, len(steps))
    return sorted(found, key=lambda entry: entry.path), not complete


def _collect(folder: int, prefix: str, recursive: bool, found: list[Entry], depth: int) -> bool:
    with os.scandir(folder) as scanned:
        # No more entries are held than can be shown: a folder may have millions.
        inside = heapq.nsmallest(MAX_ENTRIES + 1 - len(found), scanned, key=lambda entry: entry.name)
    for entry in inside:
        if len(found) >= MAX_ENTRIES:
            return False
        try:
            facts = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        path = f"{prefix}/{entry.name}" if prefix else entry.name
        own = stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1
        kind = "file" if own else "folder" if stat.S_ISDIR(facts.st_mode) else "other"
        modified = datetime.fromtimestamp(int(facts.st_mtime), UTC).isoformat().replace("+00:00", "Z")
        shown = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        found.append(Entry(shown, kind, facts.st_size if kind == "file" else 0, modified))
        if recursive and kind == "folder" and depth < MAX_DEPTH:
            try:
                inner = os.open(entry.name, _FOLDER_FLAGS, dir_fd=folder)
            except OSError:
                continue  # swapped or removed meanwhile
            try:
                if not _collect(inner, path, True, found, depth + 1):
                    return False
            finally:
                os.close(inner)
    return True


@contextmanager
def _file(path: str, flags: int) -> Iterator[int]:
    steps = _file_steps(path)
    with _folder(steps[:-1], path) as folder, _open_regular(steps[-1], flags, folder, path) as descriptor:
        yield descriptor


@contextmanager
def _open_regular(name: str, flags: int, folder: int, path: str) -> Iterator[int]:
    for _ in range(MAX_OPEN_ATTEMPTS):
        with _translate_errors(path):
            descriptor = os.open(name, flags | _FILE_FLAGS, 0o600, dir_fd=folder)
        try:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode):
                raise ToolError(f"{_quote_path(path)} is not an ordinary file.")
            if facts.st_nlink > 1:
                raise ToolError(f"{_quote_path(path)} has a second name (a hard link), which may be outside.")
            if _has_name(descriptor, name, folder):
                yield descriptor
                return
        finally:
            os.close(descriptor)
    raise ToolError(f"{_quote_path(path)} was replaced or removed each time it was opened. Try again.")


def _has_name(descriptor: int, name: str, folder: int) -> bool:
    """Return whether the open file has had this name since it was opened.

    Otherwise its one name may be outside: a hard link that was removed after the file was opened is not counted.
    """
    # Waits for a removal that has begun: it holds the folder's lock until the name is gone for the next line, too.
    with os.scandir(folder) as entries:
        next(entries, None)
    try:
        return os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")) == name
    except OSError:  # a path longer than the system can show
        return False


@contextmanager
def _folder(steps: list[str], path: str, *, make: bool = False) -> Iterator[int]:
    """Open the folder that `steps` lead to and yield its descriptor."""
    descriptor = os.open(root(), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for step in steps:
            with _translate_errors(path):
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(step, 0o700, dir_fd=descriptor)
                inner = os.open(step, _FOLDER_FLAGS, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def _file_steps(path: str) -> list[str]:
    steps = split_path(path)
    if not steps or path.endswith("/"):
        raise ToolError(f"{_quote_path(path)} names a folder, not a file.")
    return steps


def _check_regular(name: str, folder: int, path: str) -> bool:
    """Return whether there is such a file. Raises ToolError unless it is an ordinary one."""
    try:
        facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ToolError(f"{_quote_path(path)} cannot be used: {os.strerror(error.errno or 0)}.") from None
    if not stat.S_ISREG(facts.st_mode):
        raise ToolError(f"{_quote_path(path)} is not an ordinary file.")
    return True


@contextmanager
def _translate_errors(path: str) -> Iterator[None]:
    """Turn errors of the system into sentences that do not reveal the place of the workspace."""
    try:
        yield
    except FileNotFoundError:
        raise ToolError(f"There is no {_quote_path(path)}.") from None
    except (NotADirectoryError, IsADirectoryError):
        raise ToolError(
            f"{_quote_path(path)}: a folder and a file are mixed up, or a link stands in the way."
        ) from None
    except OSError as error:
        # O_NOFOLLOW fails with ELOOP for a link, O_NONBLOCK with ENXIO for a FIFO without a reader.
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EFBIG):
            raise ToolError(f"{_quote_path(path)} cannot be used: {os.strerror(error.errno)}.") from error
        raise ToolError(f"{_quote_path(path)} cannot be opened: links and special files are not allowed.") from error


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _quote_path(path: str) -> str:
    return repr(path[:200])
