"""`python -m tests.bench.attacks`: what every attack costs an honest client, with 1,024 descriptors; a table.

    python -m tests.bench.attacks --connections 1100 --seconds 15
    python -m tests.bench.attacks --against ../other --only "header drip"      the server of another checkout

The first row is the same client while nobody attacks. Attackers have an address of their own, `--same-address` gives
them that of the client; `--proxy` lets all come through a trusted proxy. Columns: calls answered and not answered, the
95th percentile of a call and of a probe in milliseconds, the growth of the memory at most and ten seconds later, and
the descriptors before, at most and ten seconds later. With two workers the worse of both is shown.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.e2e import attacks, seed
from tests.e2e.attacks import ATTACKS, FEW, Canary, SmallHub, Target
from tests.real_servers import ROOT

REST_SECONDS = 10.0
QUIET = "(nobody attacks)"


class Watch:
    """The most that was seen, every tenth of a second."""

    def __init__(self, hub: SmallHub) -> None:
        self.hub, self.memory, self.descriptors = hub, hub.memory(), hub.descriptors()

    async def run(self) -> None:
        while True:
            for most, now in ((self.memory, self.hub.memory()), (self.descriptors, self.hub.descriptors())):
                for pid, count in now.items():
                    most[pid] = max(most.get(pid, 0), count)
            await asyncio.sleep(0.1)


def percentile(seconds: list[float], part: float = 0.95) -> str:
    return f"{1000 * sorted(seconds)[int(len(seconds) * part)]:.0f}" if seconds else "-"


def growth(now: dict[int, int], before: dict[int, int]) -> int:
    """Of the worker that grew most, in MB."""
    return round(max(count - before.get(pid, 0) for pid, count in now.items()) / 1e6)


async def measure(hub: SmallHub, name: str, attacker: Target, honest: Target, options: argparse.Namespace) -> None:
    await Canary(honest).run(1.0)
    memory, descriptors = hub.memory(), hub.descriptors()
    canary, watch = Canary(honest), Watch(hub)
    watching = asyncio.create_task(watch.run())
    async with AsyncExitStack() as stack:
        if name != QUIET:
            await stack.enter_async_context(
                attacks.running(name, attacker, min(options.connections, FEW.get(name, options.connections)))
            )
        await canary.run(options.seconds)
    watching.cancel()
    await asyncio.sleep(REST_SECONDS if name != QUIET else 0)
    sys.stdout.write(
        f"| {name} | {len(canary.seconds)} | {len(canary.failures)} | {percentile(canary.seconds)} "
        f"| {percentile(canary.probe_seconds)} | {growth(watch.memory, memory)} | {growth(hub.memory(), memory)} "
        f"| {max(descriptors.values())} | {max(watch.descriptors.values())} | {max(hub.descriptors().values())} |\n"
    )
    sys.stdout.flush()


@contextmanager
def checkout(against: Path | None) -> Iterator[Path]:
    """The folder to serve: this one, or a copy of the other with the tools of these tests."""
    if against is None:
        yield ROOT
        return
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "toolhub"
        shutil.copytree(against, root, ignore=shutil.ignore_patterns(".git", ".venv", "tests", "build"))
        shutil.copytree(ROOT / "tests", root / "tests")
        yield root


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=1100)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--proxy", action="store_true")
    parser.add_argument("--same-address", action="store_true")
    parser.add_argument("--against", type=Path)
    parser.add_argument("--only", nargs="*", default=list(ATTACKS), choices=list(ATTACKS))
    options = parser.parse_args()
    shared = options.workers > 1
    env: dict[str, Any] = {"TOOLHUB_TOOL_MODULES": "tests.e2e.functions,tests.e2e.large_tools"}
    if options.proxy:
        env["TOOLHUB_TRUSTED_PROXIES"] = "127.0.0.1"
    sys.stdout.write(
        "| attack | calls | failed | p95 ms | probe p95 ms | MB at most | MB after | descriptors | at most | after |\n"
    )
    with (
        checkout(options.against) as root,
        SmallHub(
            env=env, seed=seed.seed_attacked, workers=options.workers, postgres=shared, redis=shared, root=root
        ) as hub,
    ):
        hub.may_log_tracebacks = True
        sender = "127.0.0.1" if options.proxy or options.same_address else "127.0.0.66"
        attacker = Target(hub.port, hub.seeded["bob"], sender, "198.51.100.66" if options.proxy else "")
        honest = Target(hub.port, hub.seeded["alice"], forwarded_for="203.0.113.5" if options.proxy else "")
        for name in [QUIET, *options.only]:
            asyncio.run(measure(hub, name, attacker, honest, options))


if __name__ == "__main__":
    main()
