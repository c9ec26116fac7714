"""The order of test files in a parallel run, the number of processes, and how long a test may take.

pytest-xdist hands out one file after the other. A long one that starts last keeps one process busy while the others
have nothing left to do, so the longest start first.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

SLOWEST_FILES = (
    "tests/management/test_quickstart.py",
    "tests/e2e/test_attacks.py",
    "tests/conformance/test_conformance.py",
    "tests/browser/test_axe.py",
    "tests/catalog/approvals/test_attacks.py",
    "tests/browser/test_live_log.py",
    "tests/browser/test_tab_order.py",
    "tests/edge/test_channel.py",
    "tests/test_echoes.py",
    "tests/e2e/test_import_beside_calls.py",
    "tests/e2e/test_quickstart.py",
    "tests/browser/test_first_run.py",
    "tests/browser/test_tool_editor.py",
    "tests/e2e/test_backup.py",
    "tests/identity/mfa/test_browser.py",
    "tests/oauth/test_foreign_clients.py",
    "tests/e2e/test_kills.py",
    "tests/upgrade/test_upgrade.py",
    "tests/audit/test_verify.py",
    "tests/management/test_database.py",
    "tests/browser/test_hostile_texts.py",
    "tests/runners/test_upstream_mcp.py",
    "tests/test_census.py",
    "tests/oauth/test_assertions.py",
    "tests/browser/test_try_and_view.py",
    "tests/clients/test_approvals.py",
    "tests/clients/test_node_clients.py",
    "tests/e2e/test_stopping.py",
    "tests/audit/test_kills.py",
    "tests/clients/test_python_clients.py",
    "tests/browser/test_user_area.py",
    "tests/pages/test_try.py",
    "tests/transports/test_stdio.py",
    "tests/e2e/test_store_away.py",
    "tests/audit/test_case_files.py",
    "tests/test_dates.py",
    "tests/identity/test_openid.py",
    "tests/catalog/test_exchange.py",
    "tests/catalog/metering/test_quotas.py",
    "tests/e2e/test_lifecycle.py",
    "tests/e2e/test_redis_away.py",
    "tests/test_ci.py",
    "tests/transports/test_live.py",
    "tests/e2e/test_workers.py",
    "tests/pages/test_scale.py",
    "tests/audit/test_store_away.py",
    "tests/audit/test_recovery.py",
    "tests/pages/test_sessions.py",
    "tests/transports/test_websocket.py",
    "tests/e2e/test_fuzz.py",
    "tests/e2e/test_cast.py",
    "tests/management/test_serve.py",
    "tests/e2e/test_python_client.py",
    "tests/browser/test_walk.py",
    "tests/audit/test_canary.py",
    "tests/runners/test_isolated.py",
    "tests/browser/test_live_calls.py",
    "tests/transports/test_streams.py",
    "tests/e2e/test_kill.py",
    "tests/e2e/test_two_workers.py",
    "tests/transports/test_live_workers.py",
    "tests/runners/test_command.py",
    "tests/runners/test_outside.py",
    "tests/catalog/test_admin.py",
    "tests/test_language.py",
    "tests/catalog/test_schema_bombs.py",
    "tests/catalog/test_upstreams.py",
    "tests/e2e/test_isolation.py",
    "tests/audit/test_statistics.py",
    "tests/test_translations.py",
    "tests/test_invisible.py",
    "tests/conformance/test_fixtures.py",
    "tests/access/test_tools_page.py",
    "tests/audit/test_recorder.py",
    "tests/test_database_cleaner.py",
    "tests/runners/test_misbehaving.py",
    "tests/management/test_bounds.py",
    "tests/access/test_admin.py",
    "tests/server/test_tasks.py",
    "tests/transports/test_live_viewers.py",
    "tests/audit/test_redaction.py",
    "tests/wire/test_jsonrpc.py",
)
"""Files that take ten seconds and more, as `pytest --durations=0` measured them on two cores."""

MAX_PROCESSES = 8

PATIENT_FOLDERS = (
    "tests/browser/",
    "tests/clients/",
    "tests/conformance/",
    "tests/e2e/",
    "tests/runners/",
    "tests/upgrade/",
)
PATIENT_SECONDS = 900
"""These start servers and browsers, and install packages where none of them is in the cache yet."""


def processes() -> int:
    """Return how many processes run tests: two for each processor, because tests wait half of their time."""
    return min(MAX_PROCESSES, 2 * len(os.sched_getaffinity(0)))


def sort_slowest_first(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Return the tests of the longest files first, and all others in their order."""
    ranks = {file: rank for rank, file in enumerate(SLOWEST_FILES)}
    return sorted(items, key=lambda item: ranks.get(item.nodeid.partition("::")[0], len(ranks)))


def set_time_limit(item: pytest.Item) -> None:
    """Give a test of a patient folder its longer time, unless it names one itself."""
    if item.nodeid.startswith(PATIENT_FOLDERS) and item.get_closest_marker("timeout") is None:
        item.add_marker(pytest.mark.timeout(PATIENT_SECONDS))
