"""The verdict of `.ci/run` about a run of tests: its own function, on folders with tests that fail a few times."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FLAKY = """
from pathlib import Path

def test_again():
    tries = Path(__file__ + ".tries")
    tries.write_text((tries.read_text() if tries.exists() else "") + "x")
    assert len(tries.read_text()) > {failures}

def test_fine():
    pass
"""


@dataclass(frozen=True)
class Verdict:
    status: int
    lines: list[str]
    tries: dict[str, int]


@pytest.fixture
def judge(tmp_path: Path) -> Callable[..., Verdict]:
    """judge({"tests/test_a.py": 1}): run files whose first test fails so often, as `.ci/run` does."""
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, module in (("python", ""), ("pytest", "-m pytest -p xdist")):
        (programs / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {module} "$@"\n')
        (programs / name).chmod(0o755)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -q -n 2 --dist loadfile\n")

    def make(files: dict[str, int], **contents: str) -> Verdict:
        for path, failures in files.items():
            file = tmp_path / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(contents.get("text", FLAKY).format(failures=failures))
        script = f"source {shlex.quote(str(ROOT / '.ci' / 'run'))}; run_tests .venv/bin/pytest"
        done = subprocess.run(
            ["bash", "-c", script],
            env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert not done.stderr
        tries = {path: tmp_path / f"{path}.tries" for path in files}
        return Verdict(
            done.returncode,
            done.stdout.splitlines(),
            {path: len(file.read_text()) for path, file in tries.items() if file.exists()},
        )

    return make


def test_a_green_run_is_two_lines(judge: Callable[..., Verdict]) -> None:
    verdict = judge({"tests/test_a.py": 0, "tests/test_b.py": 0})
    assert verdict.status == 0
    summary, seconds = verdict.lines
    assert summary.startswith("4 passed in ") and seconds.startswith("tests: ok (")


def test_tests_that_fail_once_are_run_again_alone_and_named_at_the_end(judge: Callable[..., Verdict]) -> None:
    verdict = judge({"tests/test_a.py": 1, "tests/test_b.py": 0, "tests/test_c.py": 1, "tests/test_d.py": 1})
    assert verdict.status == 0
    assert verdict.lines[0].startswith("3 failed, 5 passed in ")
    assert sorted(verdict.lines[2:]) == [f"FLAKY: tests/test_{name}.py::test_again" for name in "acd"]
    assert verdict.tries == {f"tests/test_{name}.py": tries for name, tries in zip("abcd", (2, 1, 2, 2), strict=True)}


def test_tests_that_fail_again_are_named_last(judge: Callable[..., Verdict]) -> None:
    verdict = judge({"tests/test_a.py": 9, "tests/test_b.py": 1, "tests/test_c.py": 9})
    assert verdict.status == 1
    assert verdict.lines[0] == "FAILED: tests"
    assert sorted(verdict.lines[-2:]) == [f"FAILED: tests/test_{name}.py::test_again" for name in "ac"]
    assert "FLAKY: tests/test_b.py::test_again" in verdict.lines[:-2]


def test_more_than_three_are_not_run_again(judge: Callable[..., Verdict]) -> None:
    files = {f"tests/test_{name}.py": 1 for name in "abcd"}
    verdict = judge(files)
    assert verdict.status == 1 and verdict.tries == dict.fromkeys(files, 1)
    assert sorted(verdict.lines[-4:]) == [f"FAILED: {file}::test_again" for file in files]


@pytest.mark.parametrize("file", ["tests/audit/test_verify.py", "tests/test_egress.py"])
def test_audit_and_security_get_no_second_try(judge: Callable[..., Verdict], file: str) -> None:
    verdict = judge({file: 1, "tests/test_a.py": 1})
    assert verdict.status == 1 and verdict.tries == {file: 1, "tests/test_a.py": 1}
    assert sorted(verdict.lines[-2:]) == sorted([f"FAILED: {file}::test_again", "FAILED: tests/test_a.py::test_again"])


def test_the_files_of_audit_kills_isolation_and_security_are_known() -> None:
    files = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "tests").rglob("test_*.py"))]
    script = f'source {shlex.quote(str(ROOT / ".ci" / "run"))}; grep -E "$never_retried"'
    done = subprocess.run(["bash", "-c", script], input="\n".join(files), capture_output=True, text=True, timeout=60)
    never = set(done.stdout.splitlines())
    words = (
        "audit/",
        "access/",
        "oauth/test_tokens",
        "kill",
        "isolat",
        "hostile",
        "attack",
        "injection",
        "secret",
        "denials",
        "egress",
    )
    assert {file for file in files if any(word in file for word in words)} <= never
    assert len(files) / 6 < len(never) < len(files) / 2


def test_a_file_that_cannot_be_read_is_named(judge: Callable[..., Verdict]) -> None:
    verdict = judge({"tests/test_a.py": 0}, text="import nothing_of_this_name")
    assert verdict.status == 1
    assert verdict.lines[-1] == "FAILED: tests/test_a.py"


def test_a_run_that_cannot_begin_fails(judge: Callable[..., Verdict], tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    verdict = judge({"tests/test_a.py": 0})
    assert verdict.status == 1
    assert verdict.lines[-1].startswith("FAILED: pytest ended with status ")
