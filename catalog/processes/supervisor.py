"""The supervisor of one program and all its descendants: a script of its own, which imports nothing of the hub.

    python -I -S supervisor.py FD        FD: an anonymous file with the order, which receives the report

It adopts every orphan below it (PR_SET_CHILD_SUBREAPER), so that a process cannot escape by a second fork, a new
session or a new group. When the program has ended, when the supervisor gets a signal to stop (SIGTERM: gently, SIGINT:
at once), when there are too many processes or when the hub is gone, it ends all remaining processes, and removes the
temporary folder.

Fork bombs are limited as follows: the processes are counted every few hundredths of a second, and above the limit the
whole tree is stopped (SIGSTOP) and killed. In between, a bomb grows as fast as its reduced priority lets it: to some
hundred processes. A supervisor of root is scheduled before it; where the hub does not run as root, RLIMIT_NPROC is a
hard bound. In a container of root without CAP_SYS_NICE, a bomb of many sessions may take seconds to end: give such a
container a limit of processes (`--pids-limit`).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys
import time
from typing import Any

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 36, 38
POLL_SECONDS = 0.02
WATCHED = frozenset({signal.SIGCHLD, signal.SIGTERM, signal.SIGINT})


def list_descendants(ancestor: int) -> dict[int, str]:
    """Return {pid: state} of all live processes below `ancestor`."""
    parents: dict[int, tuple[int, str]] = {}
    for name in os.listdir("/proc"):
        if name[0] in "0123456789":
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    state, parent = file.read().rpartition(b")")[2].split(None, 2)[:2]
            except (OSError, ValueError):
                continue
            parents[int(name)] = (int(parent), state.decode())
    found: dict[int, str] = {}
    for pid in parents:
        at = pid
        chain: list[int] = []
        while at in parents and at != ancestor and at not in found and len(chain) < 10_000:
            chain.append(at)
            at = parents[at][0]
        if at == ancestor or at in found:
            found.update((one, parents[one][1]) for one in chain)
    return {pid: state for pid, state in found.items() if state not in "ZX"}


def send_signal(pids: Any, number: int) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def reap() -> dict[int, int]:
    """Collect all ended children: {pid: status}."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = status


def end_all(group: int, status: dict[int, int]) -> None:
    """Kill until no process remains. All are stopped first, so that none starts another meanwhile."""
    with contextlib.suppress(OSError):
        os.killpg(group, signal.SIGKILL)
    while True:
        status.update(reap())
        remaining = list_descendants(os.getpid())
        if not remaining:
            return
        fresh = [pid for pid, state in remaining.items() if state != "T"]
        if fresh and len(remaining) > 8:
            send_signal(fresh, signal.SIGSTOP)
            remaining = list_descendants(os.getpid())
        send_signal(remaining, signal.SIGKILL)
        signal.sigtimedwait({signal.SIGCHLD}, 0.005)


def limit(order: dict[str, Any]) -> None:
    """Apply the limits, in the child, before the program replaces it."""
    limits = dict(order["limits"])
    processes = limits.pop("NPROC", None)
    if processes is not None and os.getuid() != 0:
        limits["NPROC"] = processes + _tasks_of_user()
    for name, value in limits.items():
        which = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(which)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        # One second between the signal that a program may catch and the one that it cannot.
        top = value + 1 if name == "CPU" and (hard == resource.RLIM_INFINITY or hard > value) else value
        resource.setrlimit(which, (value, top))
    with contextlib.suppress(OSError):
        os.nice(order["nice"])


def _tasks_of_user() -> int:
    count, user = 0, os.getuid()
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{name}").st_uid == user:
                    count += len(os.listdir(f"/proc/{name}/task"))
    return count


def start(order: dict[str, Any], libc: Any) -> int:
    """Start the program in a session of its own; return its pid.

    The forked copy exits with 126 or 127 when the program cannot be started.
    """
    pid = os.fork()
    if pid:
        return pid
    status = 126
    try:
        os.setsid()
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if order["folder_fd"] is not None:
            os.fchdir(order["folder_fd"])
        else:
            os.chdir(order["folder"])
        limit(order)
        for number in range(1, signal.NSIG):
            if number not in (signal.SIGKILL, signal.SIGSTOP) and number not in range(32, 34):
                with contextlib.suppress(OSError, ValueError):
                    signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        os.closerange(3, 4096)
        os.umask(0o077)
        os.execve(order["program"], order["arguments"], order["environment"])  # noqa: S606
    except FileNotFoundError:
        status = 127
    finally:
        os._exit(status)


def main() -> None:
    descriptor = int(sys.argv[1])
    os.set_inheritable(descriptor, False)
    with os.fdopen(descriptor, "r+b", buffering=0) as file:
        order = json.loads(file.read())
        signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
        hub = os.getppid()
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        # A supervisor must be scheduled before a fork bomb. Needs a privilege; without it, see the module docstring.
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
        status: dict[int, int] = {}
        began = time.monotonic()
        pid = start(order, libc)
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):  # otherwise the readers would wait for this process too
            os.dup2(nothing, number)
        why = watch(pid, hub, order, status)
        end_all(pid, status)
        if order["folder"]:
            import shutil

            shutil.rmtree(order["folder"], ignore_errors=True)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        report = {
            "why": why,
            "status": os.waitstatus_to_exitcode(status[pid]) if pid in status else None,
            "seconds": time.monotonic() - began,
            "cpu_seconds": used.ru_utime + used.ru_stime,
        }
        file.seek(0)
        file.truncate()
        file.write(json.dumps(report).encode())


def watch(pid: int, hub: int, order: dict[str, Any], status: dict[int, int]) -> str:
    """Wait until the program has ended or must end; return the reason."""
    max_processes, wait, max_wait, before = order["processes"], POLL_SECONDS, order["look"], 0
    ending_at = None
    while True:
        received = signal.sigtimedwait(WATCHED, wait)
        status.update(reap())
        if pid in status:
            return "ended" if ending_at is None else "stopped"
        if os.getppid() != hub:
            return "orphaned"
        if received is not None and received.si_signo == signal.SIGINT:
            return "stopped"
        if received is not None and received.si_signo == signal.SIGTERM and ending_at is None:
            ending_at = time.monotonic() + order["grace"]
            send_signal(list_descendants(os.getpid()), signal.SIGTERM)
            send_signal([pid], signal.SIGCONT)
        if ending_at is not None and time.monotonic() >= ending_at:
            return "stopped"
        counted_at = time.monotonic()
        count = len(list_descendants(os.getpid()))
        if count > max_processes:
            return "processes"
        wait = max(
            POLL_SECONDS, 25 * (time.monotonic() - counted_at), min(2 * wait, max_wait) if count == before else 0.0
        )
        before = count


if __name__ == "__main__":
    main()
