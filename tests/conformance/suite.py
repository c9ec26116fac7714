"""The official conformance suite: install it once into a cache of the user, run it, read what it found."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

from tests.clients.installed import npm_packages

PACKAGE = "@modelcontextprotocol/conformance"
VERSION = "0.2.0-alpha.12"
HERE = Path(__file__).resolve().parent
RUN_SECONDS = 1200
BUSY_SCENARIO_MS = 180_000
"""Time-out of a scenario on a machine that runs other tests at the same time; the suite's own is 30 seconds."""
RESULT = re.compile(r"server-(?P<scenario>.+?)-\d{4}-\d{2}-\d{2}T[\w.:-]+\Z")


def install() -> Path:
    """The folder the suite is installed in; skips the test where that is not possible."""
    return npm_packages(f"{PACKAGE}@{VERSION}")


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

    def describe_problems(self) -> str:
        """Everything that is not fine, for the message of a failed test."""
        lines = [
            f"{scenario}: {check['status']} {check['id']}: {check.get('errorMessage', '')} {check.get('details', '')}"
            for scenario, checks in self.checks.items()
            for check in checks
            if check["status"] in {"FAILURE", "WARNING"}
        ]
        return "\n".join(line[:600] for line in lines)


def run(url: str, token: str, output: Path, *arguments: str, scenario_ms: int | None = BUSY_SCENARIO_MS) -> Report:
    """Run the suite against `url` with a token; `scenario_ms` None leaves the suite its own time-outs."""
    folder = install()
    entry = folder / "node_modules" / PACKAGE / "dist" / "index.js"
    node = folder / "node_modules" / "node" / "bin" / "node"
    timeout = [] if scenario_ms is None else ["--timeout", str(scenario_ms)]
    done = subprocess.run(
        [str(node), str(entry), "server", "--url", url, "-o", str(output), *timeout, *arguments],
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
