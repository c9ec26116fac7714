"""Calls that wait for an approval, on two real workers: approved elsewhere, and with the worker killed beneath them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import proofs
from tests.e2e.raw import ConnectionLost, Raw
from tests.polling import wait_until_async
from tests.real_servers import Hub

pytestmark = [pytest.mark.postgres, pytest.mark.redis]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    ledger = tmp_path_factory.mktemp("approvals") / "ledger"
    env = {"TOOLHUB_TOOL_MODULES": proofs.MODULES, "PROOF_LEDGER": str(ledger), "TOOLHUB_STOP_SECONDS": "5"}
    with Hub(workers=2, postgres=True, redis=True, env=env, seed=seed_with_rules) as running:
        yield running


def seed_with_rules() -> dict[str, str]:
    """Calls of two tools ask bob."""
    from django.contrib.auth.models import User

    from catalog.models import Tool
    from tests.catalog.approvals.waiting import make_rule
    from tests.factories import make_group

    tokens = proofs.seed_everything()
    approvers = make_group("approvers", [User.objects.get(username="bob")])
    for name in ("ledger", "hold"):
        make_rule(Tool.objects.get(name=name), approvers, name=f"Calls of {name}")
    return tokens


def list_requests(tool: str) -> list[list[str]]:
    """State and id of each request for this tool, in order."""
    from catalog.models import Approval

    rows = Approval.objects.filter(tool_name=tool).order_by("created")
    return [[str(row.state), str(row.pk)] for row in rows]


def approve(key: str) -> str:
    """As bob, in another process than those that serve."""
    from django.contrib.auth.models import User

    from catalog.approvals import decisions

    return str(decisions.approve(key, User.objects.get(username="bob")).state)


class Caller:
    """alice, on one connection that stays at one worker, with one call that waits for its answer."""

    def __init__(self, hub: Hub, worker: int, tool: str, arguments: dict[str, Any]) -> None:
        self.hub, self.worker, self.tool, self.arguments = hub, worker, tool, arguments
        self.connection = Raw(hub.port, hub.seeded["alice"])
        self.pid = 0
        self.task: asyncio.Task[Any] | None = None

    async def start(self) -> asyncio.Task[Any]:
        """Call; return once a further request waits, or the call has ended."""
        before = len(await self.requests())
        self.pid = sorted(self.hub.worker_pids())[self.worker]
        with self.hub.pin_to_worker(self.worker):
            await self.connection.ask("GET", "/healthz", self.connection.plain().items())
        call = {"name": self.tool, "arguments": self.arguments}
        self.task = asyncio.ensure_future(self.connection.modern("tools/call", call))
        task = self.task

        async def has_asked() -> bool:
            return task.done() or len(await self.requests()) > before

        await wait_until_async(has_asked, 60, "a request for approval")
        return task

    async def requests(self) -> list[list[str]]:
        found: list[list[str]] = await asyncio.to_thread(self.hub.call, list_requests, tool=self.tool)
        return found

    async def kill_worker(self) -> None:
        """kill -9, and wait until another process has taken its place."""
        os.kill(self.pid, signal.SIGKILL)
        assert self.task is not None
        with pytest.raises(ConnectionLost):
            await self.task
        await wait_until_async(self._has_two_workers, 120, "another worker")

    def _has_two_workers(self) -> bool:
        return len(set(self.hub.worker_pids()) - {self.pid}) == 2

    def leave(self) -> None:
        if self.task is not None:
            self.task.cancel()
        self.connection.close()


def count_runs(hub: Hub) -> int:
    file = Path(hub.extra["PROOF_LEDGER"])
    return len(file.read_text().split()) if file.exists() else 0


async def list_outcomes(hub: Hub, tool: str) -> list[str]:
    rows = await asyncio.to_thread(hub.call, proofs.list_calls, name=tool)
    return sorted(row[2] for row in rows)


async def test_a_call_that_waits_at_one_worker_runs_when_another_process_approves_it(hub: Hub) -> None:
    before = count_runs(hub)
    caller = Caller(hub, 0, "ledger", {"entry": "approved elsewhere"})
    task = await caller.start()
    ((state, key),) = await caller.requests()
    assert state == "waiting" and not task.done() and count_runs(hub) == before
    assert await asyncio.to_thread(hub.call, approve, key=key) == "approved"
    answer = await asyncio.wait_for(task, 60)
    assert answer.result()["content"][0]["text"] == "approved elsewhere"
    assert await caller.requests() == [["used", key]] and count_runs(hub) == before + 1
    assert await list_outcomes(hub, "ledger") == ["ok", "waiting"]
    caller.leave()


async def test_a_request_outlives_the_worker_at_which_its_call_waited_and_runs_once(hub: Hub) -> None:
    before = count_runs(hub)
    arguments = {"entry": "killed while it waits"}
    first = Caller(hub, 0, "ledger", arguments)
    await first.start()
    state, key = (await first.requests())[-1]
    await first.kill_worker()
    assert (await first.requests())[-1] == ["waiting", key] and count_runs(hub) == before
    assert await asyncio.to_thread(hub.call, approve, key=key) == "approved"
    assert count_runs(hub) == before, "nobody calls, so nothing runs"
    again = Raw(hub.port, hub.seeded["alice"])
    answer = await again.modern("tools/call", {"name": "ledger", "arguments": arguments})
    assert answer.result()["content"][0]["text"] == arguments["entry"]
    again.close()
    assert (await first.requests())[-1] == ["used", key] and count_runs(hub) == before + 1
    later = Caller(hub, 1, "ledger", arguments)
    await later.start()
    last_state, last_key = (await later.requests())[-1]
    assert (last_state, last_key != key) == ("waiting", True) and count_runs(hub) == before + 1
    for caller in (first, later):
        caller.leave()
    assert state == "waiting"


async def test_an_approval_is_used_up_by_a_call_whose_worker_is_killed(hub: Hub, tmp_path: Path) -> None:
    before, started = count_runs(hub), tmp_path / "started"
    arguments = {"started": str(started)}
    caller = Caller(hub, 1, "hold", arguments)
    await caller.start()
    ((_state, key),) = await caller.requests()
    await asyncio.to_thread(hub.call, approve, key=key)
    await wait_until_async(started.exists, 60)
    assert await caller.requests() == [["used", key]]
    await caller.kill_worker()
    assert count_runs(hub) == before + 1

    async def has_ended() -> bool:
        return "unknown" in await list_outcomes(hub, "hold")

    await wait_until_async(has_ended, 120, "the end of the killed call in the log")
    again = Caller(hub, 0, "hold", arguments)
    task = await again.start()
    (used, anew) = await again.requests()
    assert used == ["used", key] and anew[0] == "waiting" and not task.done()
    assert count_runs(hub) == before + 1
    for one in (caller, again):
        one.leave()
