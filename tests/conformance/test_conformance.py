"""The official suite against real servers, with a real token: every scored scenario of both requirement sets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import suite
from tests.real_servers import Hub

SET_UPS: dict[str, dict[str, Any]] = {
    "sqlite": {},
    "one-worker": {"postgres": True, "redis": True},
    "two-workers": {"postgres": True, "redis": True, "workers": 2},
}
STORES = [pytest.mark.postgres, pytest.mark.redis]
SETS = ("2025-11-25", "2026-07-28")
GREEN = Path(__file__).with_name("green.txt")
SKIPPED = {"2025-11-25": {}, "2026-07-28": {"tasks-status-notifications": ["tasks-status-notifications"]}}
"""What the suite itself always skips."""
SCORED = {"2025-11-25": 30, "2026-07-28": 37}
UNSCORED = {
    "2025-11-25": {"server-session-lifecycle", "json-schema-2020-12", "server-sse-polling"},
    "2026-07-28": {"json-schema-2020-12", "http-header-validation", "http-custom-header-server-validation"},
}


def manifest(requirements: str) -> set[str]:
    lines = GREEN.read_text(encoding="utf-8").splitlines()
    return {line.split()[1] for line in lines if line.startswith(f"{requirements} ")}


@pytest.fixture(scope="module", params=[pytest.param(name, marks=STORES if SET_UPS[name] else []) for name in SET_UPS])
def hub(request: pytest.FixtureRequest) -> Iterator[Hub]:
    from tests.conformance import catalogue

    suite.install()
    env = {"TOOLHUB_TOOL_MODULES": "tests.conformance.fixtures"}
    with Hub(env=env, seed=catalogue.fill, **SET_UPS[request.param]) as running:
        yield running


@pytest.mark.node
@pytest.mark.parametrize("requirements", SETS)
def test_every_required_scenario_is_green_and_none_warns(hub: Hub, requirements: str, tmp_path: Path) -> None:
    report = suite.run(hub.mcp_url, hub.seeded, tmp_path, "--requirements", requirements)
    assert report.checks, report.output[-4000:]
    assert manifest(requirements) - report.green() == set(), report.describe_problems()
    assert report.green() - manifest(requirements) == set(), "green and not in green.txt: add them"
    assert report.with_status("WARNING") == {}, report.describe_problems()
    assert report.with_status("SKIPPED") == SKIPPED[requirements]
    assert report.status == 0, report.output[-4000:]


@pytest.mark.parametrize("requirements", SETS)
def test_the_manifest_has_every_required_scenario(requirements: str) -> None:
    names = manifest(requirements)
    tasks = {name for name in names if name.startswith("tasks-")}
    assert names >= UNSCORED[requirements]
    assert len(tasks) == (10 if requirements == "2026-07-28" else 0)
    assert len(names) == SCORED[requirements] + len(UNSCORED[requirements]) + len(tasks)
