"""A server that is told to stop while all sorts of things are going on: every call ends with an outcome, in time."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.client import HttpClient, RpcError, WebSocketClient
from tests.e2e import blocking_tools
from tests.polling import wait_until_async
from tests.real_servers import ROOT, Hub

MODERN = "2026-07-28"
CONCURRENT_CALLS = 20
MAX_STOP_SECONDS, SLOW_MACHINE_SECONDS = 30.0, 20.0
STOP_SECONDS = 15
"""Seconds for calls to finish: enough for those that are let go although the machine stands still for a while."""


def send_raw(hub: Hub, head: str, body: bytes = b"") -> socket.socket:
    """A connection that has sent just this."""
    connection = socket.create_connection(("127.0.0.1", hub.port), timeout=60)
    connection.sendall(head.replace("\n", "\r\n").encode() + b"\r\n" + body)
    return connection


async def is_refused(client: Any) -> bool:
    """Whether a call is refused now."""
    try:
        await client.call("say_hello")
    except RpcError as refusal:
        return "stopping" in refusal.message
    return False


async def test_every_call_ends_and_so_does_the_server_whatever_is_open(tmp_path: Path) -> None:
    env = {"TOOLHUB_TOOL_MODULES": blocking_tools.MODULES, "TOOLHUB_STOP_SECONDS": str(STOP_SECONDS)}
    with Hub(env=env, seed=blocking_tools.seed) as hub:
        assert hub.process is not None
        token = hub.seeded["alice"]
        client = HttpClient(hub.mcp_url, token, MODERN)
        session = HttpClient(hub.mcp_url, token, "2025-11-25")
        await session.initialize()
        await session.listen()
        post = f"POST /mcp HTTP/1.1\nHost: 127.0.0.1\nAuthorization: Bearer {token}\nContent-Type: application/json\n"
        idle = send_raw(hub, "GET /healthz HTTP/1.1\nHost: 127.0.0.1\n")
        assert await asyncio.to_thread(idle.recv, 1000)
        halves = [
            send_raw(hub, f"{post}Content-Length: 1000\n"),
            send_raw(hub, f"{post}Content-Length: 1000\n", b'{"jsonrpc":'),
        ]
        halves.append(send_raw(hub, f"{post}Transfer-Encoding: chunked\n", b"a\r\n0123456789\r\n"))
        async with WebSocketClient(hub.ws_url, token, "2025-11-25") as watching, WebSocketClient(
            hub.ws_url, token, MODERN
        ) as busy:  # fmt: skip
            free, never = tmp_path / "free", tmp_path / "never"
            calls = []
            for number in range(CONCURRENT_CALLS):
                who: Any = busy if number % 4 == 3 else client
                arguments = {"file": str(never if number % 2 else free), "started": str(tmp_path / f"s{number}")}
                calls.append(asyncio.ensure_future(who.text("hold_until", arguments)))
            await wait_until_async(
                lambda: all((tmp_path / f"s{number}").exists() for number in range(CONCURRENT_CALLS))
            )
            signalled = time.monotonic()
            hub.process.send_signal(signal.SIGTERM)
            # A connection with calls under way stays, for their answers; nothing new begins on it.
            await wait_until_async(lambda: is_refused(busy))
            with pytest.raises(ConnectionRefusedError):
                await asyncio.to_thread(send_raw, hub, "GET /healthz HTTP/1.1\nHost: 127.0.0.1\n")
            free.touch()
            assert await watching.closed() == 1001
            done = await asyncio.gather(*calls, return_exceptions=True)
            assert await busy.closed() == 1001
        assert await asyncio.to_thread(hub.process.wait, 120) == 0
        assert time.monotonic() - signalled < MAX_STOP_SECONDS + SLOW_MACHINE_SECONDS
        finished, cut_off = done[::2], done[1::2]
        outcomes = hub.call(blocking_tools.get_outcomes, name="hold_until")
        assert {outcomes[id] for id in finished} == {"ok"}, "who was answered is on record as answered"
        assert sorted(outcomes.values()) == ["cancelled"] * 10 + ["ok"] * 10
        assert all(isinstance(error, RpcError | ConnectionError) for error in cut_off), cut_off
        assert "running" not in hub.call(blocking_tools.get_outcomes, name="say_hello").values()
        for connection in (idle, *halves):
            await asyncio.to_thread(read_to_end, connection)
        assert json.loads(hub.manage("verifycalls", "--json"))["ok"]
        for one in (client, session):
            await one._cancel_background()
            await one.http.aclose()


def read_to_end(connection: socket.socket) -> None:
    """The server has closed it, with or without an answer."""
    with connection:
        try:
            while connection.recv(65536):
                pass
        except ConnectionResetError:
            pass


def test_workers_that_are_only_starting_are_no_failure_of_a_stop() -> None:
    # One write each: two prints could interleave their text and their line ends.
    worker = r"import os, time; os.write(1, b'1\n'); time.sleep(600)"
    code = (
        "import sys; from toolhub.management.workers import Supervisor, listen;"
        f"sys.exit(Supervisor(listen('127.0.0.1', 0), [sys.executable, '-c', {worker!r}], 2, 60).run())"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert [process.stdout.readline(), process.stdout.readline()] == [b"1\n", b"1\n"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.postgres
async def test_a_database_that_hangs_does_not_keep_the_server_from_stopping() -> None:
    with Hub(postgres=True) as hub:
        assert hub.process is not None
        with psycopg.connect(hub.environment()["TOOLHUB_DATABASE_URL"]) as held:
            held.execute("LOCK TABLE access_servingprocess IN ACCESS EXCLUSIVE MODE")
            waits = (
                "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'access_servingprocess'::regclass"
                " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            )
            await wait_until_async(
                lambda: (held.execute(waits).fetchone() or (0,))[0], 60, "the server waits for the lock"
            )
            hub.process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(hub.process.wait, MAX_STOP_SECONDS + SLOW_MACHINE_SECONDS) == 0
