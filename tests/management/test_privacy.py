"""The keys of a running server: hidden from the programs of tools, which run as the same user."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from tests.conftest import missing
from tests.polling import wait_until
from tests.real_servers import Hub

ATTACK = """
import sys
pid = sys.argv[1]
for name in ("environ", "maps"):
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            file.read(1)
        print(name)
    except PermissionError:
        pass
"""
VICTIM = "import sys; from toolhub.privacy import hide_memory; {}; print(1, flush=True); sys.stdin.read()"


LACKS = "-sys_ptrace,-sys_admin,-perfmon"
DROP = ["setpriv", f"--bounding-set={LACKS}", f"--inh-caps={LACKS}"] if os.getuid() == 0 else []
"""Without the privileges that root lacks in a container."""


def attack(pid: int) -> list[str]:
    """What another process of the user reads of this one."""
    command = [*DROP, sys.executable, "-c", ATTACK, str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split()


def is_hidden(pid: int) -> bool:
    return attack(pid) == []


@contextmanager
def start(source: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [*DROP, sys.executable, "-c", VICTIM.format(source)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None and started.stdout.readline() == b"1\n"
        yield started


class ContainedHub(Hub):
    """As in a container: where root has every privilege, it reads whatever it wants."""

    def command(self) -> list[str]:
        command = [*DROP, sys.executable, *super().command()]
        return ["-c", f"import os; os.execvp({command[0]!r}, {command!r})"]


@pytest.fixture(autouse=True)
def traceable() -> None:
    """Where the system hides every process from every other, nothing can be shown."""
    with start("None") as ordinary:
        readable = attack(ordinary.pid)
    if readable != ["environ", "maps"]:
        missing("ptrace", f"only {readable} of an ordinary process can be read")


def test_a_process_that_hides_is_hidden() -> None:
    with start("hide_memory()") as hidden:
        assert attack(hidden.pid) == []


def test_a_server_hides_its_keys() -> None:
    with ContainedHub() as hub:
        assert [attack(pid) for pid in hub.worker_pids()] == [[]]


def test_every_process_of_several_workers_hides_its_keys() -> None:
    with ContainedHub(workers=2, postgres=True, redis=True) as hub:
        assert hub.process is not None
        for pid in (hub.process.pid, *hub.worker_pids()):
            wait_until(partial(is_hidden, pid), what="a worker that may still be starting is hidden")
