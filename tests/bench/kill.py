"""Kill processes that record, at random moments under load, and look at what is left.

    python -m tests.bench.kill --kills 200 --seed 1 [--database URL] [--workers 2] [--folder DIR] [--json]

Each worker is a process of its own that begins, runs and ends calls as fast as it can. What "ran" writes the call's id
into a ledger (one write(2) to a file, which survives a kill), and whoever has an outcome acknowledged writes that id
into another. A worker is killed with SIGKILL at a random moment and replaced by the next. After the last kill:

- every acknowledged call has its outcome in the database;
- every call in the ledger was begun, which is: it is in the database;
- no call is without an outcome once `closecalls` has run, and none of a living process was closed;
- the chain verifies against the checkpoints that were kept outside.

The database is an SQLite file in the folder unless one is named, which must be empty.

With `--server [--postgres]` it is a real server that is killed, and clients that call over the network: `kill_server`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CONCURRENT_CALLS = 16


def environment(database: str, folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TOOLHUB_")}
    return {
        **kept,
        "DJANGO_SETTINGS_MODULE": "toolhub.settings",
        "TOOLHUB_DATA_DIR": str(folder),
        "TOOLHUB_DATABASE_URL": database,
        "TOOLHUB_MIN_FREE_MB": "1",
        "TOOLHUB_CHECKPOINT_SECONDS": "1",
        "TOOLHUB_CHECKPOINT_FILE": str(folder / "heads.jsonl"),
        "TOOLHUB_LOG_LEVEL": "ERROR",
    }


def work(folder: Path) -> None:
    """One worker: calls until it is killed."""
    import django

    django.setup()

    from audit import recorder
    from audit.types import Caller, Credential

    caller = Caller(Credential(1, "load", "token:1", "bench", None, None), "http", "2025-11-25", "127.0.0.1")
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    ledger, answers = os.open(folder / "ledger", flags, 0o600), os.open(folder / "answers", flags, 0o600)

    told = asyncio.Event()

    def tell(word: str) -> None:
        sys.stdout.write(f"{word}\n")
        sys.stdout.flush()

    async def calls() -> None:
        while True:
            try:
                begun = await recorder.begin(recorder.Intent(caller, "tools/call", "ledger"))
            except recorder.AuditLogUnavailable:
                await asyncio.sleep(0.01)
                continue
            os.write(ledger, f"{begun.id.hex}\n".encode())
            await asyncio.sleep(random.random() * 0.002)
            await recorder.finish(begun, recorder.Ending("ok", result='{"content":[]}', result_bytes=14))
            os.write(answers, f"{begun.id.hex}\n".encode())
            if not told.is_set():
                told.set()
                tell("loaded")

    async def everything() -> None:
        tell("ready")
        await asyncio.gather(*(calls() for _ in range(CONCURRENT_CALLS)))

    asyncio.run(everything())


class Worker:
    def __init__(self, database: str, folder: Path) -> None:
        command = [sys.executable, "-m", "tests.bench.kill", "--work", "--folder", str(folder)]
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment(database, folder), stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.process.stdout.readline()

    def wait_for_load(self) -> None:
        """Returns when its first call was acknowledged."""
        assert self.process.stdout is not None
        self.process.stdout.readline()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def manage(database: str, folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "manage.py", *args]
    return subprocess.run(
        command, cwd=ROOT, env=environment(database, folder), capture_output=True, text=True, check=False
    )


def read_ids(path: Path) -> set[str]:
    return {line for line in path.read_text().splitlines() if len(line) == 32} if path.exists() else set()


def outcomes(database: str) -> dict[str, str]:
    query = "SELECT id, outcome FROM audit_call"
    if database.startswith("sqlite"):
        import sqlite3

        connection: Any = sqlite3.connect(database.removeprefix("sqlite:///"), timeout=30)
    else:
        import psycopg

        connection = psycopg.connect(database)
    try:
        return {str(id).replace("-", ""): outcome for id, outcome in connection.execute(query).fetchall()}
    finally:
        connection.close()


def run(kills: int, seed: int, database: str, folder: Path, workers: int, tables: bool = True) -> dict[str, Any]:
    """What was found; `problems` is empty when every promise was kept."""
    chance = random.Random(seed)
    if tables:
        made = manage(database, folder, "migrate", "--verbosity", "0")
        if made.returncode:
            raise RuntimeError(made.stderr)
    began = time.monotonic()
    running = [Worker(database, folder) for _ in range(workers)]
    try:
        for _ in range(kills):
            # From the first moments of a process, when it opens its chain, to some time under load.
            at = chance.randrange(workers)
            if chance.random() < 0.8:
                running[at].wait_for_load()
            time.sleep(chance.random() * chance.choice((0.02, 0.3, 1.0)))
            running[at].kill()
            running[at] = Worker(database, folder)
        for worker in running:
            worker.wait_for_load()
        time.sleep(0.5)
    finally:
        for worker in running:
            worker.kill()
    acknowledged, ledger = read_ids(folder / "answers"), read_ids(folder / "ledger")
    problems = []
    closed = manage(database, folder, "closecalls")
    if closed.returncode:
        problems.append(f"closecalls failed: {closed.stderr[-500:]}")
    found = outcomes(database)
    if lost := [id for id in acknowledged if found.get(id) != "ok"]:
        problems.append(
            f"{len(lost)} acknowledged calls have no outcome 'ok', first {min(lost)}: {found.get(min(lost))}"
        )
    if unrecorded := ledger - set(found):
        problems.append(f"{len(unrecorded)} calls ran and are not on record, first {min(unrecorded)}")
    if still := [id for id, outcome in found.items() if outcome == "running"]:
        problems.append(f"{len(still)} calls have no outcome, first {min(still)}")
    head = folder / "heads.jsonl"
    kept = ["--head", str(head)] if head.exists() else []
    verified = manage(database, folder, "verifycalls", "--json", *kept)
    if verified.returncode:
        problems.append(f"verifycalls: {verified.stdout[-500:]}{verified.stderr[-500:]}")
    return {
        "kills": kills,
        "seed": seed,
        "workers": workers,
        "database": database.split(":", 1)[0],
        "seconds": round(time.monotonic() - began, 1),
        "calls": len(found),
        "acknowledged": len(acknowledged),
        "ran": len(ledger),
        "unknown": sum(outcome == "unknown" for outcome in found.values()),
        "links": json.loads(verified.stdout)["links"] if not verified.returncode else None,
        "problems": problems,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill processes that record, and look at what is left.")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database", default="", help="an empty PostgreSQL database; else an SQLite file is made")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--server", action="store_true", help="kill a real server under load instead")
    parser.add_argument("--postgres", action="store_true", help="with --server: two workers, PostgreSQL and Redis")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="with --server: no more kills after this")
    options = parser.parse_args()
    if options.server:
        from tests.bench import kill_server

        result = kill_server.run(options.kills, options.seed, options.postgres, options.minutes * 60)
        sys.stdout.write(json.dumps(result, indent=1) + "\n")
        return 1 if result["problems"] else 0
    if options.work:
        work(options.folder)
        return 0
    folder = options.folder or Path(tempfile.mkdtemp(prefix="thub-kill-"))
    folder.mkdir(parents=True, exist_ok=True)
    database = options.database or f"sqlite:///{folder}/kill.sqlite3"
    result = run(options.kills, options.seed, database, folder, options.workers)
    sys.stdout.write(json.dumps(result, indent=1) + "\n")
    return 1 if result["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
