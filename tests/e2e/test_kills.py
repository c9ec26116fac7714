"""kill -9 of a real server at random moments under load. Two hundred of them are a command: see tests/bench/kill.py."""

from __future__ import annotations

import os

import pytest

from tests.bench import kill_server

KILLS = 20 if os.environ.get("TOOLHUB_TEST_LONG") else 10
"""On each of the two stores, however long they take."""


@pytest.mark.parametrize("postgres", [False, pytest.param(True, marks=[pytest.mark.postgres, pytest.mark.redis])])
def test_kills_lose_nothing_that_was_acknowledged_and_nothing_runs_unlogged(postgres: bool) -> None:
    result = kill_server.run(KILLS, 3 + postgres, postgres)
    assert result["problems"] == []
    assert result["kills"] == KILLS
    assert result["acknowledged"] > 0
