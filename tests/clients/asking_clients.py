"""Clients whose calls ask a person before they run: how each is started, and what it shows of the wait."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any

from tests.clients import installed, node_clients
from tests.clients.catalogue import Person
from tests.clients.node_clients import FOREIGN
from tests.clients.report import WAIT_SECONDS, clean_environment
from tests.clients.versions import FASTMCP_CLIENT, MODERN, SDK_1, TASK, WITH_TASKS, Asked
from tests.real_servers import Hub

ARGUMENTS = {"a": 2, "b": 4}
ERRORS = "errors.txt"
Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Started:
    """What starts a client in a folder of its own, and what it reads from stdin."""

    command: list[str]
    task: Mapping[str, Any]


def python(name: str, *requirements: str) -> list[str]:
    """A script in Python, in an environment with these packages or in this one."""
    return [str(installed.environment(*requirements)) if requirements else sys.executable, str(FOREIGN / name)]


def inspect(hub: Hub, home: Path, person: Person, revision: str, tool: str) -> list[str]:
    era = "modern" if revision == MODERN else "legacy"
    call = ["--method", "tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(ARGUMENTS)]
    return [*node_clients.inspector(hub, node_clients.install(home), person.token), "--protocol-era", era, *call]


PYTHONS: dict[str, tuple[str, ...]] = {
    "python 1": ("approval_python_1.py", SDK_1),
    "python 2": ("approval_python_2.py",),
    "python 2 tasks": ("approval_python_2.py", *WITH_TASKS),
    "bridge": ("approval_python_2.py",),
    "fastmcp": ("approval_fastmcp.py", FASTMCP_CLIENT),
    "agent": ("approval_agent.py", *WITH_TASKS),
}


def start(asked: Asked, hub: Hub, home: Path, person: Person, tool: str) -> Started:
    """What makes this client call this tool as this person."""
    task = {
        "url": hub.mcp_url,
        "token": person.token,
        "revision": asked.revision,
        "tool": tool,
        "arguments": ARGUMENTS,
        "asks": asked.questions,
        "tasks": asked.by_approver == TASK,
    }
    if asked.key == "inspector":
        return Started(inspect(hub, home, person, asked.revision, tool), {})
    if asked.key == "bridge":
        command, environment = node_clients.bridge(hub, node_clients.install(home), person.token)
        task |= {"command": command, "env": environment}
    if asked.key.startswith("typescript"):
        return Started(
            node_clients.script(node_clients.install(home), "approval_typescript.mjs"),
            task | {"sdk": int(asked.key[-1])},
        )
    return Started(python(*PYTHONS[asked.key]), task)


def happen(started: Started, home: Path) -> Iterator[Event]:
    """Everything that the client reports, as it happens; the last is the result."""
    with (
        (home / ERRORS).open("w") as errors,
        subprocess.Popen(
            started.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=clean_environment(home),
            cwd=home,
            text=True,
        ) as process,
    ):
        timer = Timer(WAIT_SECONDS, process.kill)
        timer.start()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(started.task))
        process.stdin.close()
        try:
            if started.task:
                yield from map(json.loads, process.stdout)
            else:
                yield _read_inspector(process.stdout.read())
        finally:
            timer.cancel()
            process.kill()


def _read_inspector(text: str) -> Event:
    result = json.loads(text)["result"]
    return {"result": result["content"][0]["text"], "error": bool(result.get("isError"))}
