"""The database goes away beneath a real server: stopped, hanging, locked. Nothing runs unrecorded, nothing is lost."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.audit.stores import Cluster
from tests.audit.test_store_away import lock_file
from tests.client import HttpClient, RpcError
from tests.e2e import blocking_tools
from tests.polling import wait_until_async
from tests.real_servers import Hub

MODERN = "2026-07-28"
MAX_REFUSAL_SECONDS, SLOW_MACHINE_SECONDS = 3.0, 17.0
LOCKED_SECONDS = 30.0 if os.environ.get("TOOLHUB_TEST_LONG") else 5.0
ENV = {"TOOLHUB_TOOL_MODULES": blocking_tools.MODULES, "TOOLHUB_RECORD_TIMEOUT_MS": "3000"}


@contextmanager
def stop_cluster(cluster: Cluster) -> Iterator[None]:
    cluster.stop("immediate")
    try:
        yield
    finally:
        cluster.start()


async def assert_refused(client: HttpClient) -> None:
    began = time.monotonic()
    with pytest.raises(RpcError, match="calls cannot be logged now"):
        await client.call("say_hello")
    assert time.monotonic() - began < MAX_REFUSAL_SECONDS + SLOW_MACHINE_SECONDS


async def call_until_accepted(call: Callable[[], Awaitable[str]], begun: Callable[[], bool] = lambda: False) -> str:
    """The answer of a call while the database is there.

    A disk that stands still for three seconds looks the same as a database that is away, and what is refused for it has
    not begun: it is asked again.
    """
    until = time.monotonic() + 60
    while True:
        try:
            return await call()
        except RpcError as refusal:
            if "calls cannot be logged now" not in refusal.message or begun() or time.monotonic() > until:
                raise


async def check_outage(
    hub: Hub, folder: Path, away: Callable[[], AbstractContextManager[None]], least: float = 0.0
) -> None:
    """A call before, calls that run meanwhile, refusals, and calls afterwards by the same process."""
    assert hub.process is not None
    pid = hub.process.pid
    folder.mkdir()
    counted = hub.call(blocking_tools.get_outcomes, name="say_hello")

    async def status(path: str) -> int:
        found: int = (await asyncio.to_thread(hub.get, path))[0]
        return found

    async def is_status(path: str, wanted: int) -> bool:
        return await status(path) == wanted

    async with HttpClient(hub.mcp_url, hub.seeded["alice"], MODERN) as client:

        async def hello() -> str:
            return await client.text("say_hello")

        async def hold(started: Path) -> str:
            arguments = {"file": str(folder / "free"), "started": str(started)}
            return await call_until_accepted(lambda: client.text("hold_until", arguments), started.exists)

        assert await call_until_accepted(hello) == "hello"
        running = [client.background(hold(folder / f"s{number}")) for number in range(5)]
        await wait_until_async(lambda: all((folder / f"s{number}").exists() for number in range(5)))
        until = time.monotonic() + least
        context = away()
        await asyncio.to_thread(context.__enter__)
        try:
            await assert_refused(client)
            await asyncio.gather(*(assert_refused(client) for _ in range(20)))
            assert sorted(await client.tools()) == ["hold_until", "say_hello"]
            assert await status("/readyz") == 503
            assert await status("/healthz") == 200
            # Who is running comes to its end, and hears of it.
            (folder / "free").touch()
            ids = await asyncio.gather(*running)
            while time.monotonic() < until:
                await assert_refused(client)
                assert await status("/healthz") == 200
        finally:
            await asyncio.to_thread(context.__exit__, None, None, None)
        await wait_until_async(lambda: is_status("/readyz", 200), 60)
        assert await call_until_accepted(hello) == "hello"

        async def ended() -> dict[str, str]:
            found: dict[str, str] = await asyncio.to_thread(hub.call, blocking_tools.get_outcomes, name="hold_until")
            return found

        await wait_until_async(lambda: are_all_ok(ended, ids), 60)
        hellos = {
            id: outcome
            for id, outcome in hub.call(blocking_tools.get_outcomes, name="say_hello").items()
            if id not in counted
        }
        assert sorted(outcome for outcome in hellos.values() if outcome != "refused") == ["ok", "ok"]
    assert hub.process.poll() is None and hub.process.pid == pid
    assert json.loads(await asyncio.to_thread(hub.manage, "verifycalls", "--json"))["ok"]


async def are_all_ok(ended: Callable[[], Awaitable[dict[str, str]]], ids: list[str]) -> bool:
    outcomes = await ended()
    return all(outcomes[id] == "ok" for id in ids)


async def test_while_sqlite_is_locked_by_another_process_nothing_runs(tmp_path: Path) -> None:
    with Hub(env=ENV, seed=blocking_tools.seed) as hub:
        file = hub.folder / "data" / "toolhub.sqlite3"
        await check_outage(hub, tmp_path / "locked", lambda: lock_file(file), LOCKED_SECONDS)
        assert hub.stop() == 0


@pytest.mark.postgres
async def test_while_postgresql_is_stopped_or_hangs_nothing_runs(tmp_path: Path) -> None:
    cluster = Cluster()
    try:
        cluster.sql("CREATE DATABASE hub")
        with Hub(env={**ENV, "TOOLHUB_DATABASE_URL": cluster.url("hub")}, seed=blocking_tools.seed) as hub:
            ways: dict[str, Any] = {"stopped": lambda: stop_cluster(cluster), "frozen": cluster.freeze}
            for name, away in ways.items():
                await check_outage(hub, tmp_path / name, away)
            assert hub.stop() == 0
    finally:
        cluster.remove()
