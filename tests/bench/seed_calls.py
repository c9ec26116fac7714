"""Fill a database: `python -m tests.bench.seed_calls --database sqlite:////tmp/large.sqlite3`.

Makes the tables, 10,000 tools, 1,000 users with groups, grants, limits and tokens (see `estate`), and a million calls,
in the database that `--database` or the settings name. The calls look like a year that gets busier: nine in ten fine, a
few busy people and tools. They are written past the recorder and without links, because only reading is measured with
them: `verifycalls` rightly calls them inserted. With `--links` every call goes through the recorder instead, slower by
far, and the audit log verifies.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import django

from tests.bench.estate import WORDS, grow, tool_name, user_name

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "toolhub.settings")

BATCH_ROWS = 20_000
YEAR_MS = 365 * 86_400_000
OUTCOMES = (
    ("ok", 900), ("tool_error", 40), ("invalid_arguments", 25), ("refused", 15), ("limited", 10), ("timeout", 5),
    ("cancelled", 3), ("unknown_tool", 2),
)  # fmt: skip
CLIENTS = (("claude-code", "2.1.0"), ("Claude Desktop", "1.4"), ("cursor-vscode", "1.9"), ("inspector", "0.18"))

Named = list[tuple[int, str]]
"""Keys and names, the busiest first."""


def pick(chance: random.Random, busiest: float, among: Named) -> tuple[int, str]:
    """One of the first few half of the time; else any of the first two thirds: the others did nothing yet."""
    if chance.random() < 0.5:
        return among[min(int(chance.expovariate(busiest)), len(among) - 1)]
    return among[int(chance.random() * max(1, len(among) * 2 // 3))]


def make_rows(count: int, users: Named, tools: Named, moment: Any, span_ms: int) -> Iterator[tuple[Any, ...]]:
    chance = random.Random(7)
    names, weights = zip(*OUTCOMES, strict=True)
    now = time.time_ns() // 1_000_000
    for number in range(count):
        ms = now - 1000 - int(span_ms * (1 - number / count) ** 2)
        key = UUID(int=(ms << 80) | (0x7 << 76) | (0x8 << 60) | chance.getrandbits(60)).hex
        user_id, username = pick(chance, 0.06, users)
        client, version = CLIENTS[number % len(CLIENTS)]
        outcome = chance.choices(names, weights)[0]
        tool_id, tool = pick(chance, 0.05, tools)
        duration = int(chance.lognormvariate(9, 1.5))
        arguments = (
            f'{{"number":{number},"text":"{chance.choice(WORDS)} {chance.choice(WORDS)} {chance.choice(WORDS)}",'
            f'"path":"/data/{chance.choice(WORDS)}/{number % 977}.csv","limit":{number % 50}}}'
        )
        result = f'{{"content":[{{"text":"{chance.choice(WORDS)} {number}","type":"text"}}],"isError":false}}'
        yield (
            key, user_id, username, f"token:{user_id}", "laptop", client, version,
            ("http", "websocket")[number % 9 == 0], "2025-11-25", "192.0.2.1", "tools/call", tool, tool_id,
            "d" * 64, "grant 1: everyone", "", str(number), moment(ms), arguments, outcome, "", "", "", len(result),
            "e" * 64, moment(ms + duration // 1000), duration, result, 0, 0, 0, "",
        )  # fmt: skip


def seed(count: int, users: Named, tools: Named, span_ms: int = YEAR_MS) -> None:
    from audit.writing.stores import open_store

    store = open_store()
    batch: list[tuple[Any, ...]] = []
    done = 0
    for row in make_rows(count, users, tools, store.encode_time, span_ms):
        batch.append(row)
        if len(batch) == BATCH_ROWS or done + len(batch) == count:
            store.write(batch, (), ())
            done += len(batch)
            batch = []
            sys.stderr.write(f"\r{done:,} of {count:,}")
    store.close()
    sys.stderr.write("\n")


async def log_calls(count: int, users: Named, tools: Named) -> None:
    from audit import recorder
    from audit.types import Caller, Credential

    chance = random.Random(7)
    left = iter(range(count))

    async def work() -> None:
        for number in left:
            user_id, username = chance.choice(users)
            credential = Credential(user_id, username, f"token:{user_id}", "laptop", None, None)
            caller = Caller(credential, "http", "2025-11-25", "192.0.2.1", *CLIENTS[number % len(CLIENTS)])
            tool_id, tool = tools[number % len(tools)]
            what = recorder.Intent(caller, "tools/call", tool, tool_id, "d" * 64, "grant 1: everyone")
            what.arguments = f'{{"number":{number},"text":"{chance.choice(WORDS)}"}}'
            begun = await recorder.begin(what)
            await recorder.finish(begun, recorder.Ending("ok", result='{"content":[]}', result_bytes=14))
            if number % 10_000 == 0:
                sys.stderr.write(f"\r{number:,} of {count:,}")

    await asyncio.gather(*(work() for _ in range(256)))
    await recorder.stop(60)
    sys.stderr.write("\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", help="sqlite:////path/file or postgresql://user:password@host:port/name")
    parser.add_argument("--tools", type=int, default=10_000)
    parser.add_argument("--users", type=int, default=1_000)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--links", action="store_true", help="through the recorder, so that the record verifies")
    options = parser.parse_args()
    if options.database:
        os.environ["TOOLHUB_DATABASE_URL"] = options.database
    django.setup()

    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.db import connection

    from audit.queries import rollups
    from catalog.models import Tool

    started = time.monotonic()
    call_command("migrate", verbosity=0)
    grow(options.tools, options.users)
    sys.stdout.write(f"{options.tools:,} tools and {options.users:,} users in {time.monotonic() - started:.0f} s\n")
    sys.stdout.flush()
    names = [user_name(number) for number in range(options.users)]
    keys = dict(User.objects.filter(username__startswith="seed").values_list("username", "pk"))
    users = [(keys[name], name) for name in names]
    keys = dict(Tool.objects.filter(name__startswith="tool_").values_list("name", "pk"))
    tools = [(keys[name], name) for name in map(tool_name, range(options.tools))]
    started = time.monotonic()
    if options.links:
        asyncio.run(log_calls(options.calls, users, tools))
    else:
        seed(options.calls, users, tools)
    sys.stdout.write(f"{options.calls:,} calls in {time.monotonic() - started:.0f} s\n")
    sys.stdout.flush()
    started = time.monotonic()
    rollups.catch_up(600)
    with connection.cursor() as cursor:
        # What a year of ordinary use would have taught the planner; PostgreSQL does both by itself, unless it may not.
        cursor.execute("VACUUM ANALYZE" if connection.vendor == "postgresql" else "ANALYZE")
    sys.stdout.write(f"counted and analysed in {time.monotonic() - started:.0f} s\n")


if __name__ == "__main__":
    main()
