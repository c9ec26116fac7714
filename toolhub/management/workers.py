"""Several worker processes behind one listening socket: started, replaced when they die, and stopped together."""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

log = logging.getLogger("toolhub.workers")

MIN_LIFE_SECONDS = 5.0
"""Seconds below which a worker's life counts as short: it is replaced with growing delay, up to every 30 s."""


def listen(host: str, port: int) -> socket.socket:
    """Return the socket that all workers accept from. Raises OSError when the address is in use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host.strip("[]"), port))
    listener.listen(1024)
    return listener


class Supervisor:
    """Runs `command` `count` times with the listener's descriptor, until a signal; `run` returns the exit status."""

    def __init__(self, listener: socket.socket, command: Sequence[str], count: int, stop_seconds: float) -> None:
        self.listener, self.command, self.count, self.stop_seconds = listener, list(command), count, stop_seconds
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self.started_at: dict[int, float] = {}
        self.quick_deaths = 0
        self.stopping = False

    def run(self) -> int:
        # A pipe that signals write to makes every wait of the loop below end at once.
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, self.on_signal)
        for _ in range(self.count):
            self.start()
        while not self.stopping:
            ready, _, _ = select.select([reader], [], [], 5.0)
            if ready:
                os.read(reader, 4096)
            if not self.stopping:
                self.replace_dead()
        return self.stop()

    def on_signal(self, number: int, frame: object) -> None:
        if number != signal.SIGCHLD:
            self.stopping = True

    def start(self) -> None:
        descriptor = self.listener.fileno()
        # A worker that asked for its parent's id itself might ask after the parent's end, and never notice.
        arguments = ["--descriptor", str(descriptor), "--supervisor", str(os.getpid())]
        worker = subprocess.Popen([*self.command, *arguments], pass_fds=[descriptor])
        self.running[worker.pid] = worker
        self.started_at[worker.pid] = time.monotonic()
        log.info("Worker %d started", worker.pid)

    def replace_dead(self) -> None:
        for pid, worker in list(self.running.items()):
            status = worker.poll()
            if status is None:
                continue
            del self.running[pid]
            lived = time.monotonic() - self.started_at.pop(pid)
            self.quick_deaths = self.quick_deaths + 1 if lived < MIN_LIFE_SECONDS else 0
            log.error("Worker %d ended with status %s after %.0f s; another takes its place", pid, status, lived)
            pause = min(30.0, 2.0 ** (self.quick_deaths - 1)) if self.quick_deaths else 0.0
            deadline = time.monotonic() + pause
            while not self.stopping and time.monotonic() < deadline:
                time.sleep(0.1)
            if not self.stopping:
                self.start()

    def stop(self) -> int:
        self.listener.close()
        for worker in self.running.values():
            worker.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + self.stop_seconds
        status = 0
        for worker in self.running.values():
            try:
                ended = worker.wait(max(0.1, deadline - time.monotonic()))
                # A worker killed before it handled signals had not started to serve either: no call was lost.
                status = status if ended in {0, -signal.SIGTERM} else ended
            except subprocess.TimeoutExpired:
                log.error("Worker %d did not stop in time and was killed", worker.pid)
                worker.kill()
                status = worker.wait() or 1
        return abs(status)


def worker_command(*arguments: str) -> list[str]:
    """Return the command that starts this program again: a new interpreter process with the same manage.py."""
    return [sys.executable, os.path.abspath(sys.argv[0]), *arguments]
