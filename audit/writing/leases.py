"""Registration of a process as the writer of its own hash chain, and the head of a chain.

Also the identity of a writer's process, and whether that process is still alive.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Collection
from functools import cache
from pathlib import Path

from audit.format import chain, keys, timestamps
from audit.format.chain import Chain
from audit.writing import sql
from audit.writing.stores.base import Store, StoreUnavailable


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


@cache
def process_scope() -> str:
    """Return the scope of a process id: the machine, its boot, and the namespace of process ids (a container's)."""
    boot = _read("/proc/sys/kernel/random/boot_id")[:13]
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return f"{socket.gethostname()[:120]} {boot} {namespace}".strip()


def process_start(pid: int) -> int:
    """Return the start time of the process, in clock ticks since boot; 0 where the system does not report it."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    # Field 22 of proc(5). The split drops the pid and the command's name, which may contain spaces.
    return int(fields[19]) if len(fields) > 19 and fields[0] not in {"Z", "X"} else 0


def is_running(pid: int, start: int) -> bool:
    """Return whether the process with that id and start time is running. A zombie is not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return process_start(pid) == start


_MAX_TRIES = 20


def open_chain(store: Store, used: Collection[int] = ()) -> Chain:
    """Register the process as a writer and return its chain. The first link covers the writer's own values.

    `used` are the numbers of the process's earlier chains, which are never used again, even if they are gone. Raise
    StoreUnavailable when no chain can be opened.
    """
    problem: Exception | None = None
    for attempt in range(_MAX_TRIES):
        try:
            return _register_writer(store, used, next_free=attempt < _MAX_TRIES // 2)
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001
            # Processes that start together may choose the same number: one of them gets it, the others try again.
            problem = error
    raise StoreUnavailable("no chain can be opened") from problem


def _register_writer(store: Store, used: Collection[int], *, next_free: bool) -> Chain:
    now, pid = timestamps.now_ms(), os.getpid()
    store.begin()
    try:
        last_writer = int(store.fetch(sql.LAST_WRITER, (chain.MAX_WRITER,))[0][0] or 0)
        last_link = int(store.fetch(sql.LAST_LINK, (chain.link_id(chain.MAX_WRITER + 1, 0),))[0][0] or 0)
        number = max(last_writer, chain.split_link_id(last_link)[0], chain.LAST_ACTION_CHAIN, *used) + 1
        if number > chain.MAX_WRITER or not next_free:
            number = random_number()  # a row that was added outside the log has the largest number, or the next one
        values = [number, process_scope()[:200], pid, process_start(pid), now]
        started = store.encode_time(now)
        store.execute(sql.REGISTER, (*values[:4], started, started, False))
        links = Chain(number)
        links.add(chain.OPENED, str(number), chain.content(values))
        links.authenticate(keys.mac_key())
        store.execute(sql.INSERT_LINK, links.rows[0])
        store.commit()
    except BaseException:
        store.rollback()
        raise
    links.rows = []
    return links


def random_number() -> int:
    """Return the number of a chain that is very likely free."""
    return chain.LAST_ACTION_CHAIN + 1 + secrets.randbelow(chain.MAX_WRITER - chain.LAST_ACTION_CHAIN)


def head_of(store: Store, writer: int) -> tuple[int, str]:
    """Return the sequence and the hash of the chain's last link in the database."""
    found = store.fetch(sql.HEAD, (chain.link_id(writer, 0), chain.link_id(writer + 1, 0)))
    return (int(found[0][0]), str(found[0][1])) if found else (0, chain.START_HASH)
