"""The first pages of a new process beside the later ones: `python -m tests.bench.first_page [--rounds 5]`.

Each round starts `manage.py serve` on the embedded default, has 50 calls made while it loads what the first pages need,
and then opens the sign-in page, signs in, and opens the admin, four times, each time as somebody new. Printed is what
each took for the first visitor, divided by the median of the later ones of that process: on the clock, and of the
processor. 1 means that a first visitor notices nothing. `--at-once` opens the pages as soon as the process is ready.
`--against DIR` measures another checkout in turn.

A sign-in is mostly the hash of the password, which is slow on purpose: 370 of its 500 ms of processor time.

Measured in one round on a busy machine, of the processor, first visitor to later ones: sign-in page 3.0 (6.0 before
the first pages were loaded at the start), sign-in 1.6 (1.4), admin 1.3 (2.6). After the
visits, the process has 2% more memory.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.bench import servers
from tests.bench.__main__ import load, spec
from tests.bench.visitor import PASSWORD, Visitor

VISITORS, CALLS = 4, 50
LOADED = "first pages were loaded"
LOAD_SECONDS = 60.0
MAKE_ROOT = f"""
from django.contrib.auth.models import User
User.objects.create_superuser("root", "root@example.com", "{PASSWORD}")
"""


@contextmanager
def installation(root: Path) -> Iterator[tuple[dict[str, str], str]]:
    """Make tables, an administrator and a tool; yield the environment, and the token of the tool's user."""
    data = tempfile.mkdtemp(prefix="toolhub-bench-")
    plain = {name: value for name, value in os.environ.items() if not name.startswith("TOOLHUB_")}
    env = plain | {
        "TOOLHUB_DATA_DIR": data,
        "TOOLHUB_TOOL_MODULES": "catalog.examples,tests.bench.functions",
        "TOOLHUB_VERIFY_SECONDS": "0",
    }

    def run(*command: str) -> str:
        done = subprocess.run([sys.executable, *command], cwd=root, env=env, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    try:
        run("manage.py", "migrate", "--verbosity", "0")
        run("manage.py", "shell", "--verbosity", "0", "-c", MAKE_ROOT)
        yield env, run("-m", "tests.bench.catalogue")
    finally:
        shutil.rmtree(data, ignore_errors=True)


def run_round(root: Path, env: dict[str, str], token: str, *, at_once: bool) -> dict[str, float]:
    port = servers.free_port()
    log = Path(env["TOOLHUB_DATA_DIR"]) / "bench.log"
    began = time.monotonic()
    with log.open("w") as output:
        started = subprocess.Popen(
            [sys.executable, "manage.py", "serve", "--port", str(port)],
            cwd=root,
            env=env,
            stdout=output,
            stderr=output,
        )
    try:
        servers.wait_for(port, started, "/readyz")
        running = servers.Running(started, port, token)
        found = {"ready s": time.monotonic() - began, "ready cpu s": running.cpu_seconds()}
        if not at_once:
            calls = load(running, spec(running, "tools/call", "add", expect='"3"'), 1, 600, "--total", str(CALLS))
            found |= {"calls p50 ms": calls["p50_ms"], "calls p99 ms": calls["p99_ms"]}
            deadline = time.monotonic() + LOAD_SECONDS
            while LOADED not in log.read_text() and time.monotonic() < deadline and root == servers.ROOT:
                time.sleep(0.1)
        rows: dict[str, list[tuple[float, float]]] = {"sign-in page": [], "sign-in": [], "admin": []}
        for _ in range(VISITORS):
            visitor = Visitor(port)

            def note(name: str, ask: Any) -> Any:
                cpu = running.cpu_seconds()
                answer = ask()
                rows[name].append((answer.seconds, running.cpu_seconds() - cpu))
                return answer

            page = note("sign-in page", lambda visitor=visitor: visitor.get("/sign-in/"))
            note("sign-in", lambda visitor=visitor, page=page: visitor.sign_in("root", page))
            note("admin", lambda visitor=visitor: visitor.get("/admin/"))
        for name, ((wall, cpu), *later) in rows.items():
            found[f"{name} first ms"], found[f"{name} first cpu ms"] = wall * 1000, cpu * 1000
            found[f"{name} later cpu ms"] = statistics.median(one[1] for one in later) * 1000
            found[f"{name} ratio"] = wall / statistics.median(one[0] for one in later)
            found[f"{name} cpu ratio"] = cpu / max(statistics.median(one[1] for one in later), 0.01)
        found["memory MB"] = running.memory_mb()
        return found
    finally:
        started.terminate()
        started.wait(60)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--at-once", action="store_true")
    parser.add_argument("--against", type=Path, metavar="DIR", help="a checkout of another version")
    options = parser.parse_args()
    roots = [servers.ROOT, *([options.against.resolve()] if options.against else [])]
    rows: dict[Path, list[dict[str, float]]] = {root: [] for root in roots}
    for _ in range(options.rounds):
        for root in roots:
            with installation(root) as (env, token):
                rows[root].append(run_round(root, env, token, at_once=options.at_once))
    for name in rows[servers.ROOT][0]:
        values = [statistics.median(row[name] for row in rows[root]) for root in roots]
        sys.stdout.write(f"{name:28}" + "".join(f"{value:10.2f}" for value in values) + "\n")


if __name__ == "__main__":
    main()
