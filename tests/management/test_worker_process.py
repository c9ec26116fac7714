"""The memory of a worker process, and its end."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STUCK = """
import django
django.setup()
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from toolhub.management.worker_process import exit_within
ThreadPoolExecutor(1).submit(Event().wait)
exit_within(0.5, 7)
"""
BUFFERS = """
import django
django.setup()
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from toolhub.management.worker_process import return_freed_memory
return_freed_memory()
THREADS, BYTES = 16, 15_000_000
together = Barrier(THREADS)
def kilobytes():
    with open("/proc/self/status") as file:
        return int(file.read().partition("VmRSS:")[2].split()[0])
def use_buffer(index):
    together.wait()
    buffer = bytearray(BYTES)
    together.wait()
with ThreadPoolExecutor(THREADS) as pool:
    before = kilobytes()
    for _ in range(5):
        list(pool.map(use_buffer, range(THREADS)))
    print(kilobytes() - before)
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as folder:
        env = {"DJANGO_SETTINGS_MODULE": "toolhub.settings", "TOOLHUB_DATA_DIR": folder, "PATH": ""}
        return subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120
        )


def test_large_buffers_of_many_threads_are_given_back_when_they_are_freed() -> None:
    done = run(BUFFERS)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 20_000, "kilobytes"


def test_a_thread_that_never_ends_does_not_keep_the_process() -> None:
    done = run(STUCK)
    assert done.returncode == 7, done.stderr
