"""Which process a writer is, and whether that process still lives."""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path

living: set[int] = set()
"""The writers of this very process that have not ended."""


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


@cache
def here() -> str:
    """Where a process id means something: the machine, its boot, and the namespace of process ids (a container's)."""
    boot = _read("/proc/sys/kernel/random/boot_id")[:13]
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return f"{socket.gethostname()[:120]} {boot} {namespace}".strip()


def born(pid: int) -> int:
    """When the process started, in clock ticks since boot; 0 where the system does not tell."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    # Field 22 of proc(5); the command's name, which may hold blanks, is cut off with the two fields before.
    return int(fields[19]) if len(fields) > 19 and fields[0] not in {"Z", "X"} else 0


def lives(pid: int, since: int) -> bool:
    """Whether the process of that id, started at that time, is there. A zombie is not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return born(pid) == since


# A child process has none of its parent's writers.
os.register_at_fork(after_in_child=living.clear)
