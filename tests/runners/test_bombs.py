"""The fork bombs of the tests end by themselves, after a bounded number of processes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.runners.bombs import MAX_FORKS, make_bomb


@pytest.mark.parametrize("detached", [False, True])
def test_a_bomb_without_a_supervisor_ends_after_a_bounded_number_of_processes(detached: bool) -> None:
    # Each process writes one byte when it ends; the pipe ends when the last of them is gone.
    source = make_bomb(detached=detached, seconds=2) + "\nos.write(1, b'x')\n"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, timeout=120, check=True)
    assert len(done.stdout) == MAX_FORKS + 1
