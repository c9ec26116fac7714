"""Two processes store large results at once, and together stay within the quotas."""

from __future__ import annotations

import asyncio

import pytest

from tests.client import HttpClient
from tests.e2e import quota_tools
from tests.real_servers import Hub

USER_BYTES, ALL_BYTES = 3_000_000, 5_000_000
ENV = {
    "TOOLHUB_TOOL_MODULES": quota_tools.MODULES,
    "TOOLHUB_STORED_RESULTS_USER_MB": "3",
    "TOOLHUB_STORED_RESULTS_MB": "5",
}


@pytest.mark.parametrize("postgres", [False, pytest.param(True, marks=pytest.mark.postgres)])
async def test_two_processes_that_store_at_once_stay_within_the_quotas(postgres: bool) -> None:
    with Hub(postgres=postgres, env=ENV, seed=quota_tools.seed) as hub:
        writing = asyncio.create_task(asyncio.to_thread(hub.call, quota_tools.store_many, username="bob", number=60))
        async with HttpClient(hub.mcp_url, hub.seeded["alice"], "2026-07-28") as client:
            answers = await asyncio.gather(*(client.call("quota_large") for _ in range(60)))
            most = await writing
            used = await asyncio.to_thread(hub.call, quota_tools.count_used)
            assert most <= ALL_BYTES and used[""] <= ALL_BYTES
            assert 0 < used.get("alice", 0) <= USER_BYTES and 0 < used.get("bob", 0) <= USER_BYTES
            links = [answer["content"][1]["uri"] for answer in answers]
            assert len(set(links)) == 60
