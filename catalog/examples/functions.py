"""Example tools that really work: a sum, a few small files of the workspace, and a task that takes its time."""

from __future__ import annotations

import asyncio
import fcntl
import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from catalog import workspace
from catalog.examples.files import announce
from catalog.examples.results import Facts, with_sentence
from catalog.functions import Context, result_schema, tool
from catalog.functions.content import Structured, ToolError

MAX_ENTRIES = 1000
T = TypeVar("T")
_ID = "^[A-Za-z0-9._-]{1,100}$"


@tool(
    title="Calculate a sum",
    read_only=True,
    idempotent=True,
    open_world=False,
    timeout=5,
    output_schema={"type": "number", "description": "The sum."},
)
async def calculate_sum(
    a: Annotated[float, Field(description="The first number.")],
    b: Annotated[float, Field(description="The second number.")],
) -> float:
    """Add two numbers and return their sum. Use it for exact arithmetic instead of calculating yourself. Changes
    nothing."""
    total = a + b
    if not math.isfinite(total):
        raise ToolError("The sum is too large for a number.")
    return total


@dataclass(slots=True)
class Saved(Facts):
    key: str
    """The name under which it is saved."""
    replaced: bool
    """Whether there was an older one."""


@tool(
    title="Set a configuration value",
    read_only=False,
    destructive=False,
    idempotent=True,
    open_world=False,
    output_schema=result_schema(Saved),
)
def set_config(
    key: Annotated[
        str, Field(description="Name of the setting: letters, digits, dot, hyphen and underscore.", pattern=_ID)
    ],
    value: Annotated[str, Field(description="The value it gets.", max_length=10_000)],
) -> Structured:
    """Set one value in the workspace's config.json: it is added when it is new and replaced when it exists. Calling it
    again with the same value changes nothing more."""
    known = _save("config.json", "settings", key, value)
    return with_sentence(Saved(key, known), f"{'Replaced' if known else 'Added'} {key}.")


@tool(
    title="Add or replace a record",
    read_only=False,
    destructive=True,
    idempotent=True,
    open_world=False,
    output_schema=result_schema(Saved),
)
def upsert_record(
    id: Annotated[str, Field(description="Record ID: letters, digits, dot, hyphen and underscore.", pattern=_ID)],
    title: Annotated[str, Field(description="One line that says what it is.", min_length=1, max_length=200)],
    status: Annotated[Literal["open", "done"], Field(description="Where it stands.")] = "open",
) -> Structured:
    """Save one record in the workspace's records.json: it is added when its id is new, else replaced as a whole, and
    the old values cannot be brought back. Calling it again with the same values changes nothing more."""
    known = _save("records.json", "records", id, {"title": title, "status": status})
    return with_sentence(Saved(id, known), f"{'Replaced' if known else 'Added'} {id}.")


@dataclass(slots=True)
class Issue(Facts):
    number: int
    """The number in this repository."""
    owner: str
    """The account that owns the repository."""
    repo: str
    """The name of the repository."""
    title: str
    """The title."""
    state: str
    """open: new issues are."""


@tool(
    title="Create an issue",
    read_only=False,
    destructive=False,
    idempotent=False,
    open_world=False,
    output_schema=result_schema(Issue),
)
def create_issue(
    owner: Annotated[
        str,
        Field(
            description="The account or organisation that owns the repository, as in django.",
            pattern="^[A-Za-z0-9-]{1,39}$",
        ),
    ],
    repo: Annotated[
        str,
        Field(
            description="The name of the repository without its owner, as in channels.",
            pattern="^[A-Za-z0-9._-]{1,100}$",
        ),
    ],
    title: Annotated[str, Field(description="What the issue is about, in one line.", min_length=1, max_length=256)],
    body: Annotated[str, Field(description="The whole description, in Markdown.", max_length=20_000)] = "",
) -> Structured:
    """Create an issue in the workspace's own tracker, the file issues.json, and return its number. Use it to try how
    issues are filed; nothing leaves this hub (github_create_issue files on GitHub). Not idempotent: each call makes a
    new issue, also when there is one with this title already."""

    def change(issues: dict[str, Any]) -> Issue:
        prefix = f"{owner}/{repo}#"
        number = 1 + max((int(key.removeprefix(prefix)) for key in issues if key.startswith(prefix)), default=0)
        issues[f"{prefix}{number}"] = {"title": title, "body": body, "state": "open"}
        return Issue(number, owner, repo, title, "open")

    made = _change("issues.json", "issues", change)
    return with_sentence(made, f"Created issue {owner}/{repo}#{made.number}: {title}")


@dataclass(slots=True)
class Logged(Facts):
    line: str
    """The line as it was written."""


@tool(
    title="Add a log entry",
    read_only=False,
    destructive=False,
    idempotent=False,
    open_world=False,
    output_schema=result_schema(Logged),
)
def add_log(
    message: Annotated[str, Field(description="What happened, on one line.", min_length=1, max_length=2000)],
    level: Annotated[Literal["info", "warning", "error"], Field(description="How serious it is.")] = "info",
) -> Structured:
    """Add one line with the current time to the workspace's log.txt. Not idempotent: calling it twice adds two lines,
    so do not repeat it when a call seems to have failed; read log.txt first."""
    time = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    line = f"{time} {level.upper()} {' '.join(message.split())}"
    workspace.write("log.txt", f"{line}\n".encode("utf-8", "replace"), append=True)
    announce("log.txt")
    return with_sentence(Logged(line), f"Logged: {line}")


@dataclass(slots=True)
class Finished(Facts):
    seconds: float
    """How long it took."""
    steps: int
    """How many steps it reported."""


@tool(
    title="Run a long task",
    read_only=True,
    idempotent=True,
    open_world=False,
    timeout=600,
    task_support="optional",
    output_schema=result_schema(Finished),
)
async def long_task(
    ctx: Context,
    seconds: Annotated[float, Field(description="How long it takes.", ge=0, le=300)] = 5,
    steps: Annotated[int, Field(description="How many times it reports progress.", ge=1, le=1000)] = 5,
) -> Structured:
    """Wait for the given time and report progress along the way. Use it to try how a client shows progress, how a call
    is cancelled and how a limit answers. Changes nothing."""
    for step in range(steps):
        await ctx.progress(step, steps, f"step {step + 1} of {steps}")
        await asyncio.sleep(seconds / steps)
    await ctx.progress(steps, steps, "done")
    return with_sentence(Finished(seconds, steps), f"Done after {seconds:g} s in {steps} steps.")


def _save(file: str, what: str, key: str, value: Any) -> bool:
    """Save one value in a JSON file of the workspace; return whether it replaced another one."""

    def change(current: dict[str, Any]) -> bool:
        known = key in current
        current[key] = value
        return known

    return _change(file, what, change)


def _change(file: str, what: str, change: Callable[[dict[str, Any]], T]) -> T:
    """Change the object in a JSON file of the workspace, one process at a time. Raises ToolError when it is damaged."""
    with _Locked(f"{file.removesuffix('.json')}.lock"):
        try:
            current = json.loads(workspace.read(file))
        except ToolError:
            current = {}
        except ValueError:
            raise ToolError(f"{file} is damaged: it is not JSON. Repair or delete it first.") from None
        if not isinstance(current, dict):
            raise ToolError(f"{file} is damaged: it is not an object. Repair or delete it first.")
        result = change(current)
        if len(current) > MAX_ENTRIES:
            raise ToolError(f"There are {MAX_ENTRIES} {what} already.")
        workspace.write(file, json.dumps(current, indent=2, sort_keys=True).encode())
    announce(file)
    return result


class _Locked:
    """Read, change, write of one file at a time, between processes too."""

    def __init__(self, name: str) -> None:
        # Beside the workspace: a file inside it could be swapped by the tools themselves.
        self._path = Path(workspace.root()).with_name(f".{workspace.root().name}.{name}")

    def __enter__(self) -> None:
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def __exit__(self, *exc: object) -> None:
        os.close(self._descriptor)
