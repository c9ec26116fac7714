"""Upstream servers that are programs: bounded in memory, processes and output, and ended with all they started."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from catalog.processes import launch
from catalog.runners.upstream_mcp import pipes
from catalog.runners.upstream_mcp.connection import parse
from catalog.runners.upstream_mcp.failures import UpstreamError
from catalog.runners.upstream_mcp.link import Link
from tests.polling import wait_until_async
from tests.runners.harness import make_script

SERVER = """
import json, os, resource, signal, sys, time
def say(answer):
    sys.stdout.write(json.dumps(answer) + "\\n"); sys.stdout.flush()
for line in sys.stdin:
    asked = json.loads(line)
    method, number = asked.get("method"), asked.get("id")
    if number is None:
        continue
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
        result["serverInfo"] = {"name": "x", "version": "1"}
    elif method == "tools/list":
        result = {"tools": []}
    elif method == "tools/call":
        name = asked["params"]["name"]
        if name == "grow":
            bytearray(8 << 30)
        if name == "fork":
            for _ in range(300):
                if os.fork() == 0:
                    time.sleep(60)
                    os._exit(0)
            time.sleep(60)
        if name == "flood":
            while True:
                sys.stdout.write("x" * 65536)
        if name == "values":
            sys.stdout.write("[" + "{}," * 200_000 + "{}]\\n"); sys.stdout.flush(); time.sleep(60)
        if name == "flood aside":
            for _ in range(1000):
                sys.stderr.write("x" * 65536)
        if name == "leave one behind":
            if os.fork() == 0:
                os.setsid(); signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)
        limits = {n: resource.getrlimit(getattr(resource, "RLIMIT_" + n))[0] for n in ("CPU", "DATA", "CORE", "NOFILE")}
        text = json.dumps({"limits": limits, "environment": dict(os.environ), "folder": os.getcwd()})
        result = {"content": [{"type": "text", "text": text}]}
    else:
        say({"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "no"}})
        continue
    say({"jsonrpc": "2.0", "id": number, "result": result})
time.sleep(1000)  # it does not end when its input does
"""


def find_processes(program: str) -> list[int]:
    """Processes that run it; a program that was forked is one more."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                line = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            if program.encode() in line.split(b"\0"):
                found.append(int(name))
    return found


@pytest.fixture
def connect(tmp_path: Path, settings: Any) -> Callable[..., Any]:
    program = make_script(tmp_path, "server", SERVER)
    settings.COMMANDS = [program]

    @asynccontextmanager
    async def connected() -> AsyncIterator[Link]:
        reached = {"upstream": 1, "name": "it", "transport": "stdio", "command": program}
        link = Link(parse({**reached, "timeout": 60}), {})
        await link.open()
        assert len(find_processes(program)) == 1
        try:
            yield link
        finally:
            await asyncio.wait_for(link.wait_closed(), 60)
            await wait_until_async(lambda: not find_processes(program), 60, "nothing of the server is left")

    return connected


async def ask(link: Link, name: str) -> Any:
    return await asyncio.wait_for(link.session.call_tool(name, {}), 120)


@pytest.mark.parametrize("bad", ["grow", "fork", "flood", "values"])
async def test_a_server_that_takes_too_much_is_ended_and_its_call_with_it(
    connect: Any, bad: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipes, "LIMITS", dataclasses.replace(pipes.LIMITS, processes=12))
    async with connect() as link:
        with pytest.raises(Exception, match=r"closed|Connection"):
            await ask(link, bad)


async def test_a_server_has_limits_and_a_clean_environment_and_takes_no_place_of_a_call(connect: Any) -> None:
    async with connect() as link:
        answer = (await ask(link, "say")).content[0].text
        assert '"CORE": 0' in answer and f'"DATA": {pipes.LIMITS.memory_bytes}' in answer
        assert "DJANGO" not in answer and "TOOLHUB_DATABASE" not in answer
        assert launch.count_running() == 0
        assert "thub-upstream-" in answer


async def test_output_to_stderr_does_not_block_a_server(connect: Any) -> None:
    async with connect() as link:
        assert (await ask(link, "flood aside")).content


async def test_background_processes_of_a_server_end_with_its_connection(connect: Any) -> None:
    async with connect() as link:
        assert (await ask(link, "leave one behind")).content


async def test_a_program_that_is_not_listed_any_more_is_not_started(connect: Any, settings: Any) -> None:
    settings.COMMANDS = []
    with pytest.raises(UpstreamError, match="turned off"):
        async with connect():
            pass
