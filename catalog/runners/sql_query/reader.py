"""Reads SQLite databases for the hub, in a process of its own: a script, which imports nothing of the hub.

    python -I -S reader.py        one request for each line of stdin, one answer for each line of stdout, both in JSON

SQLite cannot be interrupted inside of one function: `printf` can write for minutes, `instr` can compare for hours, and
no limit of SQLite prevents both. So the kernel ends this process when a query is over its time, and refuses it memory
and temporary files beyond a limit, whether or not the hub is still there.

A request: {"uri", "statement", "values", "rows", "bytes", "seconds"}. An answer: {"columns", "rows", "cut"} or
{"error": one of time, memory, write, open, other; "message"}; with "last": true the process ends after it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import math
import os
import resource
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

CHECK_INTERVAL_STEPS = 10_000
"""Number of SQLite instructions between two checks of the time."""
GRACE_SECONDS = 0.5
"""Seconds after its time in which a query that can be interrupted still answers with what it has."""
MAX_VALUE_BYTES = 16_777_216
MAX_MEMORY_BYTES = 536_870_912
MAX_TEMPORARY_FILE_BYTES = 268_435_456
"""Maximum size of a file into which SQLite sorts what does not fit into its memory."""
REUSE_BYTES = 100_663_296
"""A process that has used more memory than this is not used for another query."""
_ALLOWED_ACTIONS = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
_DENIED_FUNCTIONS = frozenset({"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"})


def collect(
    columns: list[str], rows: Iterable[Any], bounds: Mapping[str, Any], is_over: Callable[[], bool]
) -> dict[str, Any]:
    """Return {"columns", "rows", "cut"} within the bounds "rows", "bytes" and "seconds".

    "cut" is the reason why the rows are incomplete, or "".
    """
    columns = _make_unique(columns)
    found: list[dict[str, Any]] = []
    size = 0
    cut = ""
    for row in rows:
        if is_over():
            cut = f"after {bounds['seconds']:g} s"
            break
        if len(found) >= bounds["rows"]:
            cut = f"after {bounds['rows']} rows"
            break
        shown = {name: _to_json_value(value) for name, value in zip(columns, row, strict=True)}
        size += len(json.dumps(shown, ensure_ascii=False).encode("utf-8", "surrogatepass"))
        if size > bounds["bytes"]:
            cut = f"after {bounds['bytes']} bytes"
            break
        found.append(shown)
    return {"columns": columns, "rows": found, "cut": cut}


def read(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rows of one statement on a read-only connection of its own. Raises sqlite3.Error and others."""
    until = time.monotonic() + float(request["seconds"])

    def is_over() -> bool:
        return time.monotonic() > until

    with contextlib.closing(
        sqlite3.connect(request["uri"], uri=True, timeout=min(5.0, request["seconds"]))
    ) as connection:
        connection.execute("PRAGMA query_only=ON")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.set_authorizer(_authorise)
        connection.set_progress_handler(is_over, CHECK_INTERVAL_STEPS)
        values = {
            name: json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else value
            for name, value in request["values"].items()
        }
        cursor = connection.execute(request["statement"], values)
        return collect([column[0] for column in cursor.description or ()], cursor, request, is_over)


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rows, or the error."""
    try:
        return read(request)
    except MemoryError:
        return {"error": "memory", "message": "", "last": True}
    except (sqlite3.Error, OverflowError, UnicodeError) as error:
        return {"error": _classify(error), "message": str(error)[:300]}


def _classify(error: Exception) -> str:
    message = str(error)
    if isinstance(error, sqlite3.OperationalError):
        if "interrupted" in message:
            return "time"
        if "unable to open" in message:
            return "open"
    if isinstance(error, sqlite3.DatabaseError) and ("not authorized" in message or "readonly" in message):
        return "write"
    return "other"


def _authorise(action: int, first: str | None, second: str | None, *_: Any) -> int:
    if action not in _ALLOWED_ACTIONS or (
        action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _DENIED_FUNCTIONS
    ):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _make_unique(columns: list[str]) -> list[str]:
    """Make column names unique, so that two columns of one name keep both their values."""
    made: list[str] = []
    for column in columns:
        name, number = column, 2
        while name in made:
            name, number = f"{column}_{number}", number + 1
        made.append(name)
    return made


def _to_json_value(value: Any) -> Any:
    """Convert a value to JSON; types that JSON lacks become text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (bytes, memoryview)):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, (list, tuple)):
        return [_to_json_value(item) for item in value]
    if isinstance(value, dict):
        return {str(name): _to_json_value(item) for name, item in value.items()}
    return str(value)


def _measure_peak() -> int:
    """Return the most memory that this process had, in bytes; `ru_maxrss` would count its parent's."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        return next((int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:")), 0)


def main() -> None:
    for which, most in (
        (resource.RLIMIT_AS, MAX_MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, MAX_TEMPORARY_FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(which)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (most, most))
    with contextlib.suppress(OSError):
        os.nice(5)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    output = sys.stdout.buffer
    for line in sys.stdin.buffer:
        request = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, request["seconds"] + GRACE_SECONDS)
        found = answer(request)
        signal.setitimer(signal.ITIMER_REAL, 0)
        if _measure_peak() > REUSE_BYTES:
            found["last"] = True
        output.write(json.dumps(found).encode() + b"\n")
        output.flush()
        if found.get("last"):
            return


if __name__ == "__main__":
    main()
