"""Cost of the text index for the writing of calls: `python -m tests.bench.text_index --database sqlite:////tmp/x.db`.

Eight clients log calls with a pause of 4 ms after each, in turn while the job of the index works on older calls and
while it does not, in one process. Their rate falls when a call waits longer. The number is the median of the ratios of
neighbouring rounds, and the aim is 0.97 or more.
The database must be empty. It is filled with `--calls` calls that the job has to index.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import threading
import time

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "toolhub.settings")


CLIENTS, PAUSE_SECONDS = 8, 0.004


async def log_calls(seconds: float) -> float:
    """Return calls a second."""
    from audit import recorder
    from audit.types import Caller, Credential

    credential = Credential(1, "seed0000", "token:1", "laptop", None, None)
    caller = Caller(credential, "http", "2025-11-25", "192.0.2.1", "inspector", "1.0")
    end = time.monotonic() + seconds
    done = 0

    async def work() -> None:
        nonlocal done
        while time.monotonic() < end:
            what = recorder.Intent(caller, "tools/call", "add", 1, "d" * 64, "grant 1: everyone")
            what.arguments = f'{{"a":{done},"b":2}}'
            begun = await recorder.begin(what)
            await recorder.finish(begun, recorder.Ending("ok", result='{"content":[]}', result_bytes=14))
            done += 1
            await asyncio.sleep(PAUSE_SECONDS)

    await asyncio.gather(*(work() for _ in range(CLIENTS)))
    await recorder.stop(60)
    return done / seconds


def index_until(stopped: threading.Event) -> None:
    """Do the work of the job again and again, with its pauses."""
    from django.db import connection

    from audit.queries import text_index

    while not stopped.is_set():
        text_index.update()
    connection.close()


def measure(seconds: float, *, indexing: bool) -> float:
    from audit.queries import text_index

    stopped = threading.Event()
    text_index.JOB_SECONDS = seconds / 4
    job = threading.Thread(target=index_until, args=(stopped,))
    if indexing:
        job.start()
    try:
        return asyncio.run(log_calls(seconds))
    finally:
        stopped.set()
        if indexing:
            job.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", required=True, help="sqlite:////path/file or postgresql://user@host:port/name")
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    os.environ["TOOLHUB_DATABASE_URL"] = options.database
    django.setup()

    from django.core.management import call_command

    from audit.models import CallText
    from tests.bench.seed_calls import seed

    call_command("migrate", verbosity=0)
    seed(options.calls, [(1, "seed0000")], [(1, "add")])
    measure(1.0, indexing=False)
    ratios = []
    for number in range(options.rounds):
        pair = {
            indexing: measure(options.seconds, indexing=indexing) for indexing in (number % 2 == 0, number % 2 == 1)
        }
        ratios.append(pair[True] / pair[False])
        sys.stdout.write(f"{pair[True]:8.0f}/s while indexing {pair[False]:8.0f}/s without  {ratios[-1]:.3f}\n")
        sys.stdout.flush()
    indexed = CallText.objects.count()
    sys.stdout.write(f"median {statistics.median(ratios):.3f}; {indexed:,} calls were indexed meanwhile\n")


if __name__ == "__main__":
    main()
