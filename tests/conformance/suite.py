"""The official conformance suite: install it once into a cache of the user, run it, read what it found."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conftest import missing

PACKAGE = "@modelcontextprotocol/conformance"
VERSION = "0.2.0-alpha.12"
NODE = "22"
"""The suite needs Node 22, which is a package like any other."""
HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("TOOLHUB_TEST_CACHE") or Path.home() / ".cache" / "toolhub-tests")
FOLDER = CACHE / f"conformance-{VERSION}"
INSTALL_SECONDS = 600
TRIES = 3
"""A registry that does not answer once is asked again."""
RUN_SECONDS = 1200
SCENARIO_MS = 180_000
RESULT = re.compile(r"server-(?P<scenario>.+?)-\d{4}-\d{2}-\d{2}T[\w.:-]+\Z")


@contextmanager
def _alone() -> Iterator[None]:
    """Test processes that run side by side install once."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "conformance.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def install() -> Path:
    """The folder the suite is installed in; skips the test where that is not possible."""
    npm = shutil.which("npm")
    with _alone():
        if (FOLDER / "complete").exists():
            return FOLDER
        if npm is None:
            missing("node", "npm is not installed")
        for attempt in range(TRIES):
            problem = _fill(npm or "npm")
            if not problem:
                (FOLDER / "complete").touch()
                break
            if attempt == TRIES - 1:
                missing("node", f"the conformance suite cannot be installed: {problem}")
    return FOLDER


def _fill(npm: str) -> str:
    """What went wrong, or nothing."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    (FOLDER / "package.json").write_text("{}")
    try:
        done = subprocess.run(
            [npm, "install", "--no-audit", "--no-fund", f"{PACKAGE}@{VERSION}", f"node@{NODE}"],
            cwd=FOLDER,
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"not within {INSTALL_SECONDS} s"
    return done.stderr[-500:] if done.returncode else ""


class Report:
    """What one run found."""

    def __init__(self, status: int, output: str, folder: Path) -> None:
        self.status, self.output = status, output
        self.checks: dict[str, list[dict[str, object]]] = {}
        for path in sorted(folder.glob("server-*/checks.json")):
            match = RESULT.match(path.parent.name)
            assert match, path
            self.checks[match["scenario"]] = json.loads(path.read_text())

    def with_status(self, status: str) -> dict[str, list[str]]:
        """Scenario -> ids of its checks that ended like this."""
        found = {
            scenario: [str(check["id"]) for check in checks if check["status"] == status]
            for scenario, checks in self.checks.items()
        }
        return {scenario: ids for scenario, ids in found.items() if ids}

    def green(self) -> set[str]:
        return set(self.checks) - set(self.with_status("FAILURE"))

    def why(self) -> str:
        """Everything that is not fine, for the message of a failed test."""
        lines = [
            f"{scenario}: {check['status']} {check['id']}: {check.get('errorMessage', '')} {check.get('details', '')}"
            for scenario, checks in self.checks.items()
            for check in checks
            if check["status"] in {"FAILURE", "WARNING"}
        ]
        return "\n".join(line[:600] for line in lines)


def run(url: str, token: str, output: Path, *arguments: str) -> Report:
    folder = install()
    entry = folder / "node_modules" / PACKAGE / "dist" / "index.js"
    node = folder / "node_modules" / "node" / "bin" / "node"
    done = subprocess.run(
        [str(node), str(entry), "server", "--url", url, "-o", str(output), "--timeout", str(SCENARIO_MS), *arguments],
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("TOOLHUB_")},
            "NODE_OPTIONS": f"--require {HERE / 'bearer.cjs'}",
            "TOOLHUB_TEST_TOKEN": token,
            "TOOLHUB_TEST_SUITE": str(entry.parent),
        },
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
    )
    return Report(done.returncode, done.stdout + done.stderr, output)
