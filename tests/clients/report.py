"""What every client is asked to do, what it must have seen, and what must be logged afterwards.

One use of the hub is the same for all of them: list the tools, call `calculate_sum`, `analyze_csv` and `long_task` with
progress, and try `delete_file`, which nobody was granted. A client reports as plain data (see `foreign/`).
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.clients import catalogue
from tests.clients.catalogue import Person
from tests.real_servers import Hub

WAIT_SECONDS = 300.0
NAME = "toolhub-tests"
"""What clients call themselves that let themselves be named."""
TOOLS = [
    "calculate_sum",
    "analyze_csv",
    "list_directory",
    "read_file",
    "search_files",
    "set_config",
    "add_log",
    "create_issue",
    "long_task",
    "draw_chart",
    "play_tone",
    "attach_guide",
    "ask_me",
    "get_weather",
    "run_sql_query",
]
"""The list, in its order."""
CALLS: dict[str, dict[str, Any]] = {
    "calculate_sum": {"a": 0.5, "b": 5.25},
    "analyze_csv": {"path": "samples/sales.csv", "column": "revenue"},
    "long_task": {"seconds": 0.6, "steps": 3},
}
REFUSED = "delete_file"
SUM = "5.75"
SUMMARY = {
    "path": "samples/sales.csv",
    "rows": 6,
    "results": [{"column": "revenue", "operation": "sum", "result": 2270.5, "skipped": 0}],
}
DONE = "Done after 0.6 s in 3 steps."
PROGRESS = [[0, 3, "step 1 of 3"], [1, 3, "step 2 of 3"], [2, 3, "step 3 of 3"], [3, 3, "done"]]
PROGRESS_BEFORE_MESSAGES = [[value, total, None] for value, total, _ in PROGRESS]
"""At 2024-11-05 a report of progress had no message."""
STRUCTURED_SINCE = "2025-06-18"


def run(
    hub: Hub,
    command: Sequence[str],
    where: Path,
    version: str,
    uses: Sequence[tuple[str, str]],
    somebody: Callable[[], Person],
) -> None:
    """Start a foreign client, let it use the hub in each of these pairs of transport and revision, and check all."""
    people = [somebody() for _ in uses]
    task = {
        "http": hub.mcp_url,
        "websocket": hub.ws_url,
        "name": NAME,
        "calls": CALLS,
        "refused": REFUSED,
        "uses": [
            {"transport": transport, "revision": revision, "token": person.token}
            for person, (transport, revision) in zip(people, uses, strict=True)
        ],
    }
    answer = json.loads(output(command, where, json.dumps(task)))
    assert answer["version"] == version
    for report, person, (transport, revision) in zip(answer["reports"], people, uses, strict=True):
        check(report, revision)
        check_audit_log(hub, person, transport=transport, revision=revision)


def output(command: Sequence[str], where: Path, given: str = "", status: int = 0) -> str:
    """What a client writes to stdout, started in this folder as in its home."""
    done = subprocess.run(
        command,
        input=given,
        env=clean_environment(where),
        cwd=where,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
    )
    assert done.returncode == status, f"{done.args}: {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def clean_environment(home: Path, **more: str) -> dict[str, str]:
    """An environment in which a client finds no settings of ours, no proxy, and a home folder of its own."""
    ours = ("TOOLHUB_", "PYTHON", "NODE_", "DJANGO_")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(ours) and not name.lower().endswith("_proxy")
    }
    return {**kept, "HOME": str(home), **more}


def check(report: dict[str, Any], revision: str) -> None:
    """The values a client must have got."""
    assert report["revision"] == revision
    assert report["tools"] == TOOLS
    assert report["sum"] == SUM
    assert json.loads(report["csv"]) == SUMMARY
    assert report["structured"] == (SUMMARY if revision >= STRUCTURED_SINCE else None)
    assert report["long"] == DONE
    # Clients deliver progress beside the result: when both come in one packet, some drop what came last.
    seen = report["progress"]
    wanted = PROGRESS_BEFORE_MESSAGES if revision == "2024-11-05" else PROGRESS
    assert len(seen) >= 2 and seen == wanted[: len(seen)], seen
    assert f"Unknown tool: {REFUSED}" in report["refused"]


def check_audit_log(
    hub: Hub, person: Person, *, transport: str, revision: str, client: str = NAME, refused: bool = True
) -> None:
    """The calls of `check` are logged, each once, as what they were."""
    rows = hub.call(catalogue.list_calls, user=person.name)
    tried = [(name, "ok") for name in CALLS] + ([(REFUSED, "refused")] if refused else [])
    assert sorted((row["name"], row["outcome"]) for row in rows) == sorted(tried)
    assert {(row["transport"], row["revision"]) for row in rows} == {(transport, revision)}
    assert {row["client_name"] for row in rows} == {client}
    for row in rows:
        if row["name"] in CALLS:
            assert json.loads(row["arguments"]) == CALLS[row["name"]]
