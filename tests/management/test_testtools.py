"""`testtools`: what it runs, as whom, what it prints, and its exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pages import tool_test_seed as seed
from tests.pages import try_seed
from tests.real_servers import Hub

ROOT = Path(__file__).parents[2]
MODULES = {"TOOLHUB_TOOL_MODULES": "catalog.examples,tests.pages.try_tools"}


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(seed=seed.seed, env=MODULES) as hub:
        yield hub


def testtools(hub: Hub, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", "testtools", *arguments],
        cwd=ROOT,
        env=hub.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


testtools.__test__ = False  # type: ignore[attr-defined]


def as_json(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_it_runs_beside_the_server_and_its_exit_status_says_whether_all_passed(hub: Hub) -> None:
    done = testtools(hub, "--tool", "try_add")
    assert done.returncode == 1, done.stderr
    assert "passed try_add: passes" in done.stdout and "passed try_add: own" in done.stdout
    assert "failed try_add: fails: The result does not contain “four”." in done.stdout
    assert "2 passed, 1 failed, 0 skipped." in done.stdout
    assert hub.call(seed.results)["passes"][0] == "passed", "the page shows it as well"
    call = next(row for row in hub.call(try_seed.list_calls) if "'passes'" in row["credential"])
    assert (call["transport"], call["credential"]) == ("test", "test case 'passes', run by testtools")


def test_as_json_every_test_has_its_code_and_its_call(hub: Hub) -> None:
    found = as_json(testtools(hub, "--json"))
    assert (found["passed"], found["failed"], found["skipped"]) == (2, 1, 1)
    by_name = {line["test"]: line for line in found["tests"]}
    assert by_name["fails"]["code"] == "test.text" and by_name["fails"]["call"]
    assert by_name["changing"]["status"] == "skipped" and "--changing" in by_name["changing"]["problem"]


def test_a_test_without_a_user_runs_as_who_saved_it_and_a_changing_tool_needs_a_word(hub: Hub) -> None:
    found = {line["test"]: line for line in as_json(testtools(hub, "--json", "--tool", "try_add"))["tests"]}
    assert (found["own"]["status"], found["own"]["user"]) == ("passed", "root")
    (changed,) = as_json(testtools(hub, "--json", "--tool", "try_limited", "--changing"))["tests"]
    assert (changed["status"], changed["code"]) == ("failed", "test.status"), "root has no grant"
    hub.call(seed.give_to, name="helper", test="passes")
    (left,) = [line for line in as_json(testtools(hub, "--json"))["tests"] if line["test"] == "passes"]
    assert left["status"] == "skipped" and "may not try tools as this user" in left["problem"]
    hub.call(seed.forget_editors)
    (gone,) = as_json(testtools(hub, "--json", "--tool", "try_limited", "--changing"))["tests"]
    assert gone["status"] == "skipped" and "who saved it is gone" in gone["problem"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--tool", "nothing"), "has no test cases"),
        (("--tool", "try_limited"), "No test case ran"),
    ],
)
def test_nothing_to_run_is_no_success(hub: Hub, arguments: tuple[str, ...], says: str) -> None:
    done = testtools(hub, *arguments)
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr
