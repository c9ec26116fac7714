"""The files named there exist, the longest start first, and a stuck test is ended and named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import scheduling

ROOT = Path(__file__).resolve().parents[1]


def test_every_file_and_folder_that_is_named_exists() -> None:
    assert len(set(scheduling.SLOWEST_FILES)) == len(scheduling.SLOWEST_FILES)
    for path in (*scheduling.SLOWEST_FILES, *scheduling.PATIENT_FOLDERS):
        assert (ROOT / path).exists(), path


def test_the_longest_files_come_first_and_nothing_else_changes_its_place(request: pytest.FixtureRequest) -> None:
    items = request.session.items
    ordered = scheduling.sort_slowest_first(items)
    assert sorted(map(id, ordered)) == sorted(map(id, items))
    files = list(dict.fromkeys(item.nodeid.partition("::")[0] for item in ordered))
    long = [file for file in scheduling.SLOWEST_FILES if file in files]
    assert files[: len(long)] == long


def test_a_stuck_test_is_ended_and_named_and_the_next_one_runs(tmp_path: Path) -> None:
    (tmp_path / "test_stuck.py").write_text(
        "import asyncio, threading, pytest\n"
        "@pytest.mark.timeout(1)\n"
        "def test_thread(): threading.Event().wait()\n"
        "@pytest.mark.timeout(1)\n"
        "@pytest.mark.asyncio\n"
        "async def test_loop(): await asyncio.Event().wait()\n"
        "def test_next(): pass\n"
    )
    options = "-c /dev/null -n 1 -rf -p no:cacheprovider -p no:django -o timeout_method=signal"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options.split(), "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "2 failed, 1 passed" in done.stdout, done.stdout
    assert "FAILED test_stuck.py::test_thread - Failed: Timeout" in done.stdout
    assert "FAILED test_stuck.py::test_loop - Failed: Timeout" in done.stdout
