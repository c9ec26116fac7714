"""The order of test files in a parallel run, and how long a test may take.

pytest-xdist hands out one file after the other. A long one that starts last keeps one process busy while the others
have nothing left to do, so the longest start first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST_FIRST = (
    "tests/browser/test_axe.py",
    "tests/conformance/test_conformance.py",
    "tests/e2e/test_kills.py",
    "tests/browser/test_tool_editor.py",
    "tests/browser/test_hostile_texts.py",
    "tests/clients/test_node_clients.py",
    "tests/clients/test_python_clients.py",
    "tests/browser/test_user_area.py",
    "tests/browser/test_try_and_view.py",
    "tests/e2e/test_stopping.py",
    "tests/e2e/test_lifecycle.py",
    "tests/e2e/test_redis_away.py",
    "tests/e2e/test_quickstart.py",
    "tests/e2e/test_store_away.py",
    "tests/browser/test_live_calls.py",
    "tests/browser/test_walk.py",
    "tests/audit/test_kills.py",
    "tests/pages/test_try.py",
    "tests/pages/test_sessions.py",
    "tests/runners/test_upstream_mcp.py",
    "tests/transports/test_stdio.py",
    "tests/e2e/test_cast.py",
    "tests/e2e/test_isolation.py",
    "tests/test_census.py",
    "tests/audit/test_store_away.py",
    "tests/e2e/test_two_workers.py",
    "tests/e2e/test_fuzz.py",
    "tests/catalog/test_upstreams.py",
    "tests/runners/test_misbehaving.py",
    "tests/management/test_bounds.py",
    "tests/management/test_quickstart.py",
    "tests/management/test_serve.py",
    "tests/upgrade/test_upgrade.py",
)
"""Files that take ten seconds and more, as `pytest --durations=0` measured them on two cores."""

PATIENT = ("tests/browser/", "tests/clients/", "tests/conformance/", "tests/e2e/", "tests/runners/", "tests/upgrade/")
PATIENT_SECONDS = 900
"""These start servers and browsers, and install packages where none of them is in the cache yet."""


def longest_first(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Return the tests of the longest files first, and all others in their order."""
    ranks = {file: rank for rank, file in enumerate(LONGEST_FIRST)}
    return sorted(items, key=lambda item: ranks.get(item.nodeid.partition("::")[0], len(ranks)))


def limit(item: pytest.Item) -> None:
    """Give a test of a patient folder its longer time, unless it names one itself."""
    if item.nodeid.startswith(PATIENT) and item.get_closest_marker("timeout") is None:
        item.add_marker(pytest.mark.timeout(PATIENT_SECONDS))
