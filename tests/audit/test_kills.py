"""kill -9 at random moments under load. Two hundred of them are a command: `python -m tests.bench.kill --kills 200`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.audit.stores import AuditStore
from tests.bench import kill


def test_kills_lose_nothing_that_was_acknowledged_and_nothing_runs_unlogged(
    sqlite_store: AuditStore, tmp_path: Path
) -> None:
    result = kill.run(4, 1, sqlite_store.url, tmp_path, workers=1, tables=False)
    assert result["problems"] == []
    assert result["acknowledged"] > 0


@pytest.mark.postgres
def test_kills_of_one_of_two_workers_leave_the_calls_of_the_other_alone(
    postgres_store: AuditStore, tmp_path: Path
) -> None:
    result = kill.run(3, 2, postgres_store.url, tmp_path, workers=2, tables=False)
    assert result["problems"] == []
    assert result["acknowledged"] > 0
