"""An import of hundreds of tools into SQLite, beside a client that calls all the time."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client import HttpClient
from tests.e2e import seed
from tests.factories import TWO_NUMBERS
from tests.real_servers import Hub

MODERN = "2026-07-28"
TOOLS = 800
"""Enough that one transaction over all of them would hold the database for longer than a call waits."""
MIN_CALLS = 50
RECORD_SECONDS = 3.0
"""The default of TOOLHUB_RECORD_TIMEOUT_MS: a call that waits longer for the audit log is denied."""


def create_users() -> str:
    tokens = seed.create_cast()
    seed.grant_tool("calculate_sum", ["alice"])
    return tokens["alice"]


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub(seed=create_users) as running:
        yield running


def count_tools() -> int:
    from catalog.models import Tool

    return Tool.objects.count()


async def call_until(client: HttpClient, done: asyncio.Event) -> list[float]:
    """The seconds that each call took; one that is denied fails the test."""
    seconds: list[float] = []
    while not done.is_set():
        started = time.monotonic()
        assert float(await client.text("calculate_sum", {"a": 1, "b": len(seconds)})) == 1 + len(seconds)
        seconds.append(time.monotonic() - started)
    return seconds


@pytest.mark.parametrize("options", [["--plan"], []], ids=["plan", "import"])
async def test_no_call_is_refused_while_hundreds_of_tools_are_imported(
    hub: Hub, tmp_path: Path, options: list[str]
) -> None:
    entries: list[dict[str, Any]] = [
        {
            "name": f"many_{number}",
            "description": f"Adds two numbers, in way {number}.",
            "settings": {"function": "calculate_sum"},
            "input_schema": TWO_NUMBERS,
            "toolsets": ["Many"],
        }
        for number in range(TOOLS)
    ]
    file = tmp_path / "catalogue.json"
    file.write_text(json.dumps({"toolhub": 1, "toolsets": [{"name": "Many"}], "tools": entries}))
    async with HttpClient(hub.mcp_url, hub.seeded, MODERN) as client:
        done = asyncio.Event()
        calling = asyncio.create_task(call_until(client, done))
        printed = await asyncio.to_thread(hub.manage, "importtools", str(file), *options)
        done.set()
        seconds = await calling
    assert f"reate{'' if options else 'd'} {TOOLS + 1}," in printed
    assert hub.call(count_tools) == (1 if options else TOOLS + 1)
    assert len(seconds) >= MIN_CALLS and max(seconds) < RECORD_SECONDS, f"{len(seconds)} calls, {max(seconds):.2f} s"
    assert hub.call(seed.count_calls, name="calculate_sum", outcome="ok") == len(seconds)
    assert json.loads(hub.manage("verifycalls", "--json"))["ok"]
