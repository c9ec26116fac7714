"""What one process of several does with the limits of a test: `python -m tests.catalog.metering.apart NAME ARGUMENTS`.

It reads the database of the test, and the Redis that TOOLHUB_REDIS_URL names.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.real_servers import ROOT

WAIT_SECONDS = 240


@contextmanager
def process(
    folder: Path, work: Callable[..., None], arguments: Mapping[str, Any], redis: str = ""
) -> Iterator[subprocess.Popen[str]]:
    """Another process of this installation that does `work`: it answers lines, and continues at a line."""
    plain = {key: value for key, value in os.environ.items() if not key.startswith(("TOOLHUB_", "PYTEST_"))}
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.catalog.metering.apart", work.__name__, json.dumps(arguments)],
        cwd=ROOT,
        env={
            **plain,
            "DJANGO_SETTINGS_MODULE": "toolhub.settings",
            "TOOLHUB_DATA_DIR": str(folder),
            "TOOLHUB_DATABASE_URL": database_address(),
            "TOOLHUB_REDIS_URL": redis,
            "TOOLHUB_REDIS_TIMEOUT_MS": "10000",
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        try:
            yield child
        finally:
            child.kill()


def read_line(child: subprocess.Popen[str]) -> Any:
    """The next answer."""
    assert child.stdout is not None
    line = child.stdout.readline()
    assert line, "the process ended without an answer"
    return json.loads(line)


def go_on(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.flush()


def database_address() -> str:
    """The database of this test, as another process names it."""
    from django.db import connection

    values = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{quote(str(values['NAME']))}"
    name, password = quote(values["USER"]), quote(values["PASSWORD"])
    return f"postgresql://{name}:{password}@{values['HOST']}:{values['PORT']}/{values['NAME']}"


# --- in the other process --------------------------------------------------------------------------------------------


def answer(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def take(limit_id: int, tries: int, at: str) -> None:
    """Wait for a line, try so often, and answer how many calls were admitted; then wait for another line."""
    from catalog.metering import quotas
    from tests.catalog.metering.rules import find_rule

    charges = [quotas.Charge(find_rule(limit_id), "everyone", 1)]
    admitted = 0
    answer("ready")
    sys.stdin.readline()
    for _ in range(tries):
        try:
            quotas.take(charges, datetime.fromisoformat(at))
        except quotas.QuotaReached:
            continue
        admitted += 1
    answer(admitted)
    sys.stdin.readline()


def run(limit_id: int, tries: int, lease_seconds: float) -> None:
    """Wait for a line, start so many calls, answer how many were admitted, and let them run until another line."""
    from catalog.metering.running import RunningReached, Slot, Slots
    from tests.catalog.metering.rules import find_rule

    slots, pairs = Slots(lease_seconds), [(find_rule(limit_id), "everyone")]

    async def enter() -> Slot | None:
        try:
            return await slots.enter(pairs)
        except RunningReached:
            return None

    async def enter_all() -> list[Slot]:
        return [slot for slot in await asyncio.gather(*(enter() for _ in range(tries))) if slot is not None]

    answer("ready")
    sys.stdin.readline()
    entered = asyncio.run(enter_all())
    answer(len(entered))
    sys.stdin.readline()
    for slot in entered:
        slot.leave()


if __name__ == "__main__":
    import django

    django.setup()
    works: dict[str, Callable[..., None]] = {"take": take, "run": run}
    works[sys.argv[1]](**json.loads(sys.argv[2]))
