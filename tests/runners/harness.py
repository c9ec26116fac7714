"""For tests of runners without a database: a context, a program that says what it was given, what is left running."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from audit.types import Caller, Credential
from catalog.functions.channel import NullChannel
from catalog.functions.context import Context
from catalog.functions.results import Produced, produce
from catalog.processes import launch
from catalog.runners import factory
from tests.catalog.pipeline import RecordingChannel
from tests.polling import wait_until_async

CALLER = Caller(Credential(7, "alice", "token:7", "laptop", frozenset({3}), None), "http", "2025-11-25", "192.0.2.7")
MARK = "TOOLHUB_TEST_MARK"


def make_context(secrets: Mapping[str, str] | None = None, channel: Any = None) -> Context:
    return Context(CALLER, channel or NullChannel(), "tool", uuid4(), None, secrets or {})


async def run(kind: str, settings: Mapping[str, Any], arguments: Mapping[str, Any], **options: Any) -> Any:
    return await factory.prepare(kind, dict(settings))(dict(arguments), make_context(**options))


async def produce_result(
    kind: str, settings: Mapping[str, Any], arguments: Mapping[str, Any], **options: Any
) -> Produced:
    return produce(await run(kind, settings, arguments, **options))


def texts(result: Produced) -> list[str]:
    return [block["text"] for block in result.content]


def make_script(folder: Path, name: str, source: str) -> str:
    """A program in Python that can be started without a shell; its path."""
    path = folder / name
    path.write_text(f"#!{sys.executable} -IS\n{source}")
    path.chmod(0o755)
    return str(path)


def find_marked(mark: str) -> list[int]:
    """Processes that were started with this mark in their environment and have not ended."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                environment = Path(f"/proc/{name}/environ").read_bytes()
                state = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if f"{MARK}={mark}".encode() in environment.split(b"\0") and state not in "ZX":
                found.append(int(name))
    return found


async def wait_until_nothing_left(mark: str = "") -> None:
    await wait_until_async(
        lambda: not launch.count_running() and not (mark and find_marked(mark)), 60, "no process of the tool is left"
    )


async def cancel_run(kind: str, settings: Mapping[str, Any], arguments: Mapping[str, Any], started: Path) -> None:
    """Run until the program has made the file `started`, then cancel the call."""
    task = asyncio.ensure_future(run(kind, settings, arguments))
    await wait_until_async(lambda: started.exists() or task.done(), 60, "the program runs")
    assert not task.done(), task
    task.cancel()
    try:
        await asyncio.wait_for(task, 30)
    except asyncio.CancelledError:
        return
    raise AssertionError("the call was not cancelled")


__all__ = [
    "RecordingChannel",
    "cancel_run",
    "find_marked",
    "make_context",
    "make_script",
    "produce_result",
    "run",
    "texts",
    "wait_until_nothing_left",
]
