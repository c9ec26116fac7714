"""Tools of other MCP servers that must run as tasks (2025-11-25): polled, answered, cancelled with the call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from django.contrib.auth.models import User

from catalog.errors import CANCELLED_BY_CLIENT
from catalog.models import Tool
from catalog.models import Upstream as Row
from catalog.policy import snapshot
from catalog.runners.upstream_mcp import pool
from catalog.upstreams import discovery
from tests import factories
from tests.catalog import pipeline
from tests.polling import wait_until_async
from tests.runners.task_upstream import TaskUpstream

pytestmark = pytest.mark.django_db(transaction=True)
LOCAL = ["127.0.0.0/8"]


@pytest.fixture(autouse=True)
async def _close_connections() -> AsyncIterator[None]:
    yield
    await pool.close()
    await snapshot.stop()


@pytest.fixture(autouse=True)
def around(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    monkeypatch.setattr("mcp.client.session.DISCOVER_TIMEOUT_SECONDS", 120.0)
    settings.ALLOW_PRIVATE_NETWORKS = LOCAL


async def publish(upstream: TaskUpstream, user: User) -> None:
    def work() -> None:
        made = Row(name="other", url=upstream.url, timeout=120.0, allowed_networks=LOCAL)
        made.full_clean()
        made.save()
        found = discovery.discover(made, None, "discovered")
        outcome = discovery.import_items(made, found, [one.value for one in discovery.candidates(made, found)])
        assert outcome.imported == ["slow", "either"], outcome.refused
        for row in Tool.objects.all():
            row.timeout = 120.0
            row.save()
            factories.grant(user, row)

    await pipeline.run_in_database(work)
    upstream.ledger.clear()


async def test_a_task_that_fails_or_never_starts_is_an_error_of_the_tool(alice: User) -> None:
    with TaskUpstream(ends="cancelled") as upstream:
        await publish(upstream, alice)
        ended = await pipeline.call(alice, "slow")
        assert ended.is_error and pipeline.text(ended) == "The upstream server other cancelled the task."
        upstream._task = lambda status: {"taskId": "t1"}  # type: ignore[method-assign]
        wrong = await pipeline.call(alice, "slow")
        assert wrong.is_error and "did not start a task" in pipeline.text(wrong)
    assert [call.outcome for call in await pipeline.logged_calls()] == ["tool_error", "tool_error"]


async def test_a_tool_that_must_run_as_a_task_is_polled_and_its_result_is_the_result_of_the_call(alice: User) -> None:
    with TaskUpstream(polls=3) as upstream:
        await publish(upstream, alice)
        channel = pipeline.RecordingChannel()
        result = await pipeline.call(alice, "slow", {}, channel)
        assert not result.is_error and pipeline.text(result) == "done" and result.structured == {"n": 1}
        assert upstream.methods() == ["tools/call", "tasks/get", "tasks/get", "tasks/get", "tasks/result"]
        assert [data for _, data, _ in channel.lines] == ["it is working"]
        (started,) = [entry for entry in upstream.ledger if entry["method"] == "tools/call"]
        assert 60_000 <= started["params"]["task"]["ttl"] <= 200_000


async def test_a_tool_that_may_run_as_a_task_is_called_plainly(alice: User) -> None:
    with TaskUpstream() as upstream:
        await publish(upstream, alice)
        assert pipeline.text(await pipeline.call(alice, "either")) == "at once"
        assert upstream.methods() == ["tools/call"]


async def test_a_cancelled_call_cancels_the_task(alice: User) -> None:
    with TaskUpstream(polls=10_000) as upstream:
        await publish(upstream, alice)
        running = asyncio.create_task(pipeline.call(alice, "slow"))
        await asyncio.to_thread(upstream.polled.wait, 60)
        running.cancel(CANCELLED_BY_CLIENT)
        with pytest.raises(asyncio.CancelledError):
            await running

        async def told() -> bool:
            return "tasks/cancel" in upstream.methods()

        await wait_until_async(told, 60)
    (call,) = await pipeline.logged_calls()
    assert call.outcome == "cancelled"
