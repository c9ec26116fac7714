"""The end of a worker process."""

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


def test_a_thread_that_never_ends_does_not_keep_the_process() -> None:
    with tempfile.TemporaryDirectory() as folder:
        env = {"DJANGO_SETTINGS_MODULE": "toolhub.settings", "TOOLHUB_DATA_DIR": folder, "PATH": ""}
        done = subprocess.run([sys.executable, "-c", STUCK], cwd=ROOT, env=env, capture_output=True, timeout=120)
    assert done.returncode == 7, done.stderr
