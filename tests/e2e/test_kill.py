"""kill -9 in the middle of calls: what ran is logged; what nobody saw the end of is `unknown` after the restart."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import proofs
from tests.e2e.raw import ConnectionLost, Raw
from tests.polling import wait_until_async
from tests.real_servers import Hub

BURST = 8
"""Connections that call without a pause when the server is killed."""


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    env = {"TOOLHUB_TOOL_MODULES": proofs.MODULES, "PROOF_LEDGER": str(tmp_path / "ledger")}
    with Hub(env=env, seed=proofs.seed_everything) as running:
        yield running


async def test_a_call_that_was_running_when_the_server_was_killed_becomes_unknown(hub: Hub, tmp_path: Path) -> None:
    token = hub.seeded["alice"]
    started = tmp_path / "started"
    answered: set[str] = set()
    lost: list[str] = []

    async def hold() -> None:
        async with Raw(hub.port, token) as connection:
            with contextlib.suppress(ConnectionLost):
                await connection.modern("tools/call", {"name": "hold", "arguments": {"started": str(started)}})
                raise AssertionError("a killed server has answered")

    async def call(number: int) -> None:
        async with Raw(hub.port, token) as connection:
            for count in range(10_000):
                entry = f"{number}.{count}"
                try:
                    answer = await connection.modern("tools/call", {"name": "ledger", "arguments": {"entry": entry}})
                except ConnectionLost:
                    lost.append(entry)
                    return
                assert answer.result()["content"][0]["text"] == entry
                answered.add(entry)

    calls = [asyncio.ensure_future(hold()), *(asyncio.ensure_future(call(number)) for number in range(BURST))]
    await wait_until_async(started.exists, 60)
    await wait_until_async(lambda: len(answered) > 20, 60)
    await asyncio.to_thread(hub.kill)
    await asyncio.gather(*calls)
    assert len(lost) == BURST

    (held,) = await asyncio.to_thread(hub.call, proofs.list_calls, name="hold")
    assert held[2] == "running", "its record was there before it ran, and nobody has guessed its end"
    await asyncio.to_thread(hub.start)

    async def at_rest() -> bool:
        return "running" not in await asyncio.to_thread(hub.call, proofs.count_by_outcome)

    await wait_until_async(at_rest, 60, "no call is left running")
    ((_, user, outcome, arguments, detail),) = await asyncio.to_thread(hub.call, proofs.list_calls, name="hold")
    assert (user, outcome) == ("alice", "unknown") and str(started) in arguments and detail
    ran = Path(hub.extra["PROOF_LEDGER"]).read_text().split()
    rows = await asyncio.to_thread(hub.call, proofs.list_calls, name="ledger")
    assert {row[2] for row in rows} <= {"ok", "unknown"}
    assert set(ran) <= {row[0] for row in rows} | {held[0]}, "a call ran that is not on record"
    kept = {row[3] for row in rows if row[2] == "ok"}
    assert all(any(f'"{entry}"' in arguments for arguments in kept) for entry in answered), (
        "an answer without an outcome"
    )
    await asyncio.to_thread(hub.manage, "verifycalls")
    async with Raw(hub.port, token) as connection:
        answer = await connection.modern("tools/call", {"name": "plus", "arguments": {"a": 1, "b": 2}})
        assert answer.result()["content"][0]["text"] in {"3", "3.0"}
