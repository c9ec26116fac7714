"""Example tools that really work, one prompt and two resources: what a good definition looks like, and a place to try.

File tools stay in the workspace folder (TOOLHUB_WORKSPACE_DIR), where links and special files are not allowed.
"""

from __future__ import annotations

import asyncio
import csv
import fcntl
import io
import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import quote

from pydantic import Field

from catalog import workspace
from catalog.functions import Context, prompt, resource, resource_updated, tool
from catalog.functions.content import ToolError, User

CSV_BYTES = 10_000_000
MAX_CONFIG = 1000
Path_ = Annotated[
    str,
    Field(
        description="Path relative to the workspace, with forward slashes, as in reports/2026.csv.",
        min_length=1,
        max_length=500,
    ),
]


@tool(title="Calculate a sum", read_only=True, idempotent=True, open_world=False, timeout=5)
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
class ColumnSummary:
    column: str
    operation: str
    result: float | None
    rows: int
    skipped: int


@tool(title="Analyze a CSV column", read_only=True, idempotent=True, open_world=False)
def analyze_csv(
    path: Path_,
    column: Annotated[
        str, Field(description="Name of the column, exactly as in the first line of the file.", max_length=200)
    ],
    operation: Annotated[
        Literal["sum", "average", "count", "min", "max"],
        Field(description="What to calculate; count counts the cells that are not empty."),
    ] = "sum",
) -> ColumnSummary:
    """Calculate the sum, average, count, minimum or maximum of one column of a CSV file in the workspace. Use it for
    questions about numbers in a table, instead of reading the whole file. Cells that are not numbers are skipped and
    counted in the answer. Changes nothing."""
    text = workspace.read(path, CSV_BYTES).decode("utf-8-sig", "replace")
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        names = [name.strip() for name in reader.fieldnames or []]
        reader.fieldnames = names
        if column not in names:
            raise ToolError(f"There is no column {column!r}. The file has: {', '.join(names)[:1000] or 'no columns'}.")
        numbers: list[float] = []
        rows = filled = 0
        for row in reader:
            rows += 1
            cell = (row[column] or "").strip()
            filled += bool(cell)
            if cell and (number := _number(cell)) is not None:
                numbers.append(number)
    except csv.Error as error:
        raise ToolError(f"This is not a CSV file that can be read: {error} (line {reader.line_num}).") from None
    if operation == "count":
        return ColumnSummary(column, operation, filled, rows, rows - filled)
    calculate: dict[str, Callable[[list[float]], float]] = {
        "sum": math.fsum,
        "average": lambda found: math.fsum(found) / len(found),
        "min": min,
        "max": max,
    }
    if not numbers and operation != "sum":
        return ColumnSummary(column, operation, None, rows, rows)
    try:
        result = calculate[operation](numbers)
    except OverflowError:
        raise ToolError("The numbers are too large.") from None
    return ColumnSummary(column, operation, result, rows, rows - len(numbers))


def _number(cell: str) -> float | None:
    try:
        number = float(cell)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


@tool(title="Read a file", read_only=True, idempotent=True, open_world=False)
def read_file(path: Path_) -> str:
    """Read a text file of the workspace and return its whole content, up to 1 MB. Use list_directory first when you do
    not know its path, and analyze_csv to calculate with a table. Changes nothing."""
    try:
        return workspace.read(path).decode("utf-8")
    except UnicodeDecodeError:
        raise ToolError(f"{path!r} is not a text file in UTF-8.") from None


@tool(
    title="Write a file",
    read_only=False,
    destructive=True,
    idempotent=False,
    open_world=False,
    max_argument_bytes=1_100_000,
)
def write_file(
    path: Path_,
    content: Annotated[str, Field(description="The text to write, up to 1 MB.", max_length=1_000_000)],
    append: Annotated[
        bool, Field(description="True adds the text to the end of the file; false replaces the whole file.")
    ] = False,
) -> str:
    """Write text to a file of the workspace, making the file and its folders when they are missing. An existing file is
    replaced unless append is true; the old content is then lost."""
    size = workspace.write(path, content.encode("utf-8", "replace"), append=append)
    _announce(path)
    return f"{'Added to' if append else 'Wrote'} {path}: it has {size} bytes now."


@dataclass(slots=True)
class Listing:
    entries: list[workspace.Entry]
    truncated: bool


@tool(title="List a directory", read_only=True, idempotent=True, open_world=False)
def list_directory(
    path: Annotated[
        str, Field(description="Folder relative to the workspace; empty is the workspace itself.", max_length=500)
    ] = "",
    recursive: Annotated[bool, Field(description="True lists the folders inside as well.")] = False,
) -> Listing:
    """List the files and folders of a folder in the workspace with size and time of change, sorted by path, at most
    1000. Use it to find the path of a file before reading it. Changes nothing."""
    found, truncated = workspace.list_entries(path, recursive=recursive)
    return Listing(found, truncated)


@tool(title="Delete a file", read_only=False, destructive=True, idempotent=True, open_world=False)
def delete_file(path: Path_) -> str:
    """Delete one file of the workspace for good. There is no way to get it back: ask the person first. Folders are
    refused."""
    workspace.delete(path)
    _announce(path)
    return f"Deleted {path}."


@tool(title="Set a configuration value", read_only=False, destructive=False, idempotent=True, open_world=False)
def set_config(
    key: Annotated[
        str,
        Field(
            description="Name of the setting: letters, digits, dot, hyphen and underscore.",
            pattern="^[A-Za-z0-9._-]{1,100}$",
        ),
    ],
    value: Annotated[str, Field(description="The value it gets.", max_length=10_000)],
) -> str:
    """Set one value in the workspace's config.json: it is added when it is new and replaced when it exists. Calling it
    again with the same value changes nothing more."""
    with _locked("config.lock"):
        try:
            current = json.loads(workspace.read("config.json"))
        except ToolError:
            current = {}
        except ValueError:
            raise ToolError("config.json is damaged: it is not JSON. Repair or delete it first.") from None
        if not isinstance(current, dict):
            raise ToolError("config.json is damaged: it is not an object. Repair or delete it first.")
        if key not in current and len(current) >= MAX_CONFIG:
            raise ToolError(f"There are {MAX_CONFIG} settings already.")
        known = key in current
        current[key] = value
        workspace.write("config.json", json.dumps(current, indent=2, sort_keys=True).encode())
    _announce("config.json")
    return f"{'Replaced' if known else 'Added'} {key}."


@tool(title="Add or replace a record", read_only=False, destructive=True, idempotent=True, open_world=False)
def upsert_record(
    id: Annotated[
        str,
        Field(
            description="Record ID: letters, digits, dot, hyphen and underscore.",
            pattern="^[A-Za-z0-9._-]{1,100}$",
        ),
    ],
    title: Annotated[str, Field(description="One line that says what it is.", min_length=1, max_length=200)],
    status: Annotated[Literal["open", "done"], Field(description="Where it stands.")] = "open",
) -> str:
    """Save one record in the workspace's records.json: it is added when its id is new, else replaced as a whole,
    which loses the old values. Calling it again with the same values changes nothing more."""
    with _locked("records.lock"):
        try:
            records = json.loads(workspace.read("records.json"))
        except ToolError:
            records = {}
        except ValueError:
            raise ToolError("records.json is damaged: it is not JSON. Repair or delete it first.") from None
        if not isinstance(records, dict):
            raise ToolError("records.json is damaged: it is not an object. Repair or delete it first.")
        if id not in records and len(records) >= MAX_CONFIG:
            raise ToolError(f"There are {MAX_CONFIG} records already.")
        known = id in records
        records[id] = {"title": title, "status": status}
        workspace.write("records.json", json.dumps(records, indent=2, sort_keys=True).encode())
    _announce("records.json")
    return f"{'Replaced' if known else 'Added'} {id}."


@tool(title="Add a log entry", read_only=False, destructive=False, idempotent=False, open_world=False)
def add_log(
    message: Annotated[str, Field(description="What happened, on one line.", min_length=1, max_length=2000)],
    level: Annotated[Literal["info", "warning", "error"], Field(description="How serious it is.")] = "info",
) -> str:
    """Add one line with the current time to the workspace's log.txt. Not idempotent: calling it twice adds two lines,
    so do not repeat it when a call seems to have failed; read log.txt first."""
    time = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    line = f"{time} {level.upper()} {' '.join(message.split())}\n"
    workspace.write("log.txt", line.encode("utf-8", "replace"), append=True)
    _announce("log.txt")
    return f"Logged: {line.strip()}"


@tool(
    title="Run a long task",
    read_only=True,
    idempotent=True,
    open_world=False,
    timeout=600,
    task_support="optional",
)
async def long_task(
    ctx: Context,
    seconds: Annotated[float, Field(description="How long it takes.", ge=0, le=300)] = 5,
    steps: Annotated[int, Field(description="How many times it reports progress.", ge=1, le=1000)] = 5,
) -> str:
    """Wait for the given time and report progress along the way. Use it to try how a client shows progress, how a call
    is cancelled and how a limit answers. Changes nothing."""
    for step in range(steps):
        await ctx.progress(step, steps, f"step {step + 1} of {steps}")
        await asyncio.sleep(seconds / steps)
    await ctx.progress(steps, steps, "done")
    return f"Done after {seconds:g} s in {steps} steps."


def _paths(typed: str) -> list[str]:
    found, _ = workspace.list_entries(recursive=True)
    return [entry.path for entry in found if entry.type == "file" and entry.path.startswith(typed)]


@prompt(title="Explain a file", complete={"path": _paths})
def explain_file(
    path: Annotated[str, Field(description="The file to explain, relative to the workspace.")],
    audience: Annotated[Literal["expert", "beginner"], Field(description="Whom to explain it to.")] = "beginner",
) -> list[object]:
    """Ask for an explanation of one file of the workspace, for an expert or a beginner."""
    text = workspace.read(path, 100_000).decode("utf-8", "replace")
    return [User(f"Explain the file {path} to {'an expert' if audience == 'expert' else 'a beginner'}:\n\n{text}")]


def _announce(path: str) -> None:
    """Tell those who watch the file, if `workspace_file` serves it: it serves those at the top of the workspace."""
    [*folders, name] = workspace.split_path(path)
    if not folders:
        resource_updated(f"workspace://{quote(name, safe='')}")


@resource(
    "workspace://{path}",
    title="A file of the workspace",
    description="The content of a text file at the top of the workspace.",
    complete={"path": _paths},
)
def workspace_file(path: str) -> str:
    return workspace.read(path).decode("utf-8", "replace")


class _locked:
    """Read, change, write of one file at a time, between processes too."""

    def __init__(self, name: str) -> None:
        # Beside the workspace: a file inside it could be swapped by the tools themselves.
        self._path = Path(workspace.root()).with_name(f".{workspace.root().name}.{name}")

    def __enter__(self) -> None:
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def __exit__(self, *exc: object) -> None:
        os.close(self._descriptor)
