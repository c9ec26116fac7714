"""`python -m tests.bench`: toolhub against its ceiling and its rivals, in turn on this machine; ratios and JSON.

Every round measures every server one after the other, so that a noisy moment of the machine hits all of them; the
numbers are medians over the rounds. The workloads, of which `--only` chooses some:

call-1, call-8, call-64   `tools/call` of a Python function, so many at a time: toolhub, the ceiling, the rivals
websocket                 the same over 64 WebSockets, against toolhub's own HTTP
list                      `tools/list` with 10, 1,000 and 10,000 tools, of which the caller sees the same ten
api                       an `http_api` tool that asks a server on this machine, against the Python function, 64 each
listening                 calls, 64 at a time, while ten people hold 500 streams open: half `subscriptions/listen` of
                          2026-07-28, half GET streams of 2025-11-25; against the same server while nobody listens
postgres                  the audit log in PostgreSQL (`--database`, an empty one) against SQLite, 64 at a time
memory                    what the process holds before and after `--calls` calls
conditions                calls, 64 at a time, under three conditions and under none, in alternating pairs
limits                    calls, 64 at a time, under a limit of each kind and under none, in alternating pairs
credentials               calls, 64 at a time, with the token of a connected app and with a personal one, in alternating
                          pairs
versions                  calls, 64 at a time, of this checkout and of the one in `--against`, in alternating pairs
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench import servers
from tests.bench.catalogue import LIMITS

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
STREAMS = 500
WORKLOADS = (
    "call-1",
    "call-8",
    "call-64",
    "websocket",
    "list",
    "api",
    "listening",
    "memory",
    "postgres",
    "conditions",
    "limits",
    "credentials",
    "versions",
)


def spec(running: servers.Running, method: str, name: str = "", *, expect: str, path: str = "/mcp") -> dict[str, Any]:
    params: dict[str, Any] = {"_meta": META}
    if name:
        params |= {"name": name, "arguments": {"a": 1, "b": 2}}
    return {
        "host": "127.0.0.1",
        "port": running.port,
        "path": path,
        "expect": expect,
        "body": json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}),
        "headers": {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": method,
            **({"Mcp-Name": name} if name else {}),
            "Authorization": f"Bearer {running.token or 'none'}",
        },
    }


def load(
    running: servers.Running, what: dict[str, Any], connections: int, seconds: float, *extra: str
) -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "tests.bench.load",
        "--connections",
        str(connections),
        "--seconds",
        str(seconds),
        *extra,
    ]
    before = running.cpu_seconds()
    done = subprocess.run(
        command, input=json.dumps(what), capture_output=True, text=True, cwd=servers.ROOT, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    answer: dict[str, Any] = json.loads(done.stdout)
    if answer["errors"] or not answer["requests"]:
        raise SystemExit(f"The load saw errors: {answer}")
    # The warm-up second costs CPU too; the share below is of the whole run.
    answer["cpu_us"] = round(1e6 * (running.cpu_seconds() - before) / answer["requests"] * seconds / (seconds + 1))
    return answer


def compare(parties: dict[str, Any], rounds: int) -> dict[str, dict[str, float]]:
    """`parties`: name -> a function that runs one round. Medians per name."""
    seen: dict[str, list[dict[str, Any]]] = {name: [] for name in parties}
    for _ in range(rounds):
        for name, run in parties.items():
            seen[name].append(run())
    keys = ("per_second", "p50_ms", "p99_ms", "cpu_us")
    return {name: {key: statistics.median(each[key] for each in all_) for key in keys} for name, all_ in seen.items()}


def show(title: str, results: dict[str, dict[str, float]], base: str) -> None:
    sys.stdout.write(f"\n{title}\n")
    for name, row in results.items():
        ratio = row["per_second"] / results[base]["per_second"]
        sys.stdout.write(
            f"  {name:<22}{row['per_second']:>9.0f}/s  p50 {row['p50_ms']:>8.2f} ms  p99 {row['p99_ms']:>8.2f} ms"
            f"  {row['cpu_us']:>6.0f} us CPU  {ratio:>5.2f} x {base}\n"
        )
    sys.stdout.flush()


def calls(connections: int, rounds: int, seconds: float) -> dict[str, dict[str, float]]:
    with ExitStack() as stack:
        hub = stack.enter_context(servers.hub())
        ceiling = stack.enter_context(servers.ceiling())
        stock = stack.enter_context(servers.ceiling(stock=True))
        rivals = {kind: stack.enter_context(servers.rival(kind)) for kind in ("fastmcp", "sdk")}
        call = {"expect": '"3"'}
        return compare(
            {
                "toolhub": lambda: load(hub, spec(hub, "tools/call", "add", **call), connections, seconds),
                "ceiling": lambda: load(ceiling, spec(ceiling, "tools/call", "add", **call), connections, seconds),
                "ceiling (stock)": lambda: load(stock, spec(stock, "tools/call", "add", **call), connections, seconds),
                **{
                    kind: lambda server=server: load(
                        server, spec(server, "tools/call", "add", **call), connections, seconds
                    )
                    for kind, server in rivals.items()
                },
            },
            rounds,
        )


def websocket(rounds: int, seconds: float) -> dict[str, dict[str, float]]:
    with servers.hub() as hub:
        http = spec(hub, "tools/call", "add", expect='"3"')
        socket = spec(hub, "tools/call", "add", expect='"3"', path="/ws/mcp")
        socket["headers"] = {"Authorization": f"Bearer {hub.token}"}
        return compare(
            {
                "toolhub WebSocket": lambda: load(hub, socket, 64, seconds, "--websocket"),
                "toolhub HTTP": lambda: load(hub, http, 64, seconds),
            },
            rounds,
        )


def lists(rounds: int, seconds: float) -> dict[str, dict[str, float]]:
    with ExitStack() as stack:
        hubs = {
            count: stack.enter_context(
                # The same ten for every size: what grows is what this caller does not see.
                servers.hub(tools=count, visible=10)
            )
            for count in (10, 1_000, 10_000)
        }
        return compare(
            {
                f"{count:,} tools": lambda hub=hub: load(hub, spec(hub, "tools/list", expect='"add"'), 8, seconds)
                for count, hub in hubs.items()
            },
            rounds,
        )


def apis(rounds: int, seconds: float) -> dict[str, dict[str, float]]:
    with servers.api() as address, servers.hub(api=address) as hub:
        remote = spec(hub, "tools/call", "remote_add", expect="sum")
        return compare(
            {
                "http_api tool": lambda: load(hub, remote, 64, seconds),
                "Python function": lambda: load(hub, spec(hub, "tools/call", "add", expect='"3"'), 64, seconds),
            },
            rounds,
        )


def listening(rounds: int, seconds: float) -> dict[str, dict[str, float]]:
    with servers.hub(listeners=10) as hub:
        call = spec(hub, "tools/call", "add", expect='"3"')

        def listened_to() -> dict[str, Any]:
            with servers.listeners(hub, STREAMS):
                return load(hub, call, 64, seconds)

        return compare(
            {f"{STREAMS} streams": listened_to, "nobody listens": lambda: load(hub, call, 64, seconds)}, rounds
        )


def postgres(rounds: int, seconds: float, database: str) -> dict[str, dict[str, float]]:
    with servers.hub() as light, servers.hub(database=database) as heavy:
        return compare(
            {
                "SQLite": lambda: load(light, spec(light, "tools/call", "add", expect='"3"'), 64, seconds),
                "PostgreSQL": lambda: load(heavy, spec(heavy, "tools/call", "add", expect='"3"'), 64, seconds),
            },
            rounds,
        )


def memory(total: int) -> dict[str, Any]:
    with servers.hub() as hub:
        what = spec(hub, "tools/call", "add", expect='"3"')
        load(hub, what, 64, 2)
        before = hub.memory_mb()
        load(hub, what, 64, 600, "--total", str(total))
        after = hub.memory_mb()
    sys.stdout.write(f"\nMemory: {before:.0f} MB, after {total:,} calls {after:.0f} MB\n")
    return {"before_mb": round(before, 1), "after_mb": round(after, 1), "calls": total}


def pairs(parties: dict[str, Callable[[], dict[str, Any]]], rounds: int) -> dict[str, Any]:
    """Ratios of the first to the second, pair by pair: calls per second, and CPU for a call, which is less noisy."""
    first, second = parties
    found = []
    for number in range(rounds):
        order = (first, second) if number % 2 == 0 else (second, first)
        runs = {name: parties[name]() for name in order}
        ratios = {key: runs[first][key] / runs[second][key] for key in ("per_second", "cpu_us")}
        found.append(ratios)
        for name in parties:
            sys.stdout.write(f"{runs[name]['per_second']:>9.0f}/s {runs[name]['cpu_us']:>5.0f} us CPU {name:<9}")
        sys.stdout.write(f"{ratios['per_second']:>7.2f} {ratios['cpu_us']:>5.2f}\n")
        sys.stdout.flush()
    medians = {key: statistics.median(pair[key] for pair in found) for key in ("per_second", "cpu_us")}
    sys.stdout.write(f"  median: {medians['per_second']:.3f} of its calls, {medians['cpu_us']:.3f} of its CPU a call\n")
    return {"medians": medians, "pairs": found}


def conditions(rounds: int, seconds: float) -> dict[str, Any]:
    with servers.hub(conditions=True) as hub:

        def run(name: str) -> dict[str, Any]:
            return load(hub, spec(hub, "tools/call", name, expect='"3"'), 64, seconds)

        return pairs({"three": lambda: run("bounded_add"), "none": lambda: run("add")}, rounds)


def limits(rounds: int, seconds: float) -> dict[str, Any]:
    """Ratios to calls without a limit. All of them are calls of one person: one counter has all the work."""
    with servers.hub(limits=True) as hub:

        def run(name: str) -> dict[str, Any]:
            return load(hub, spec(hub, "tools/call", name, expect='"3"'), 64, seconds)

        return {
            kind: pairs({kind: partial(run, f"{kind}_add"), "none": partial(run, "add")}, rounds) for kind in LIMITS
        }


def credentials(rounds: int, seconds: float) -> dict[str, Any]:
    with servers.hub(app=True) as hub:
        personal = spec(hub, "tools/call", "add", expect='"3"')
        (token,) = hub.listeners
        app = {**personal, "headers": {**personal["headers"], "Authorization": f"Bearer {token}"}}
        return pairs(
            {"app": lambda: load(hub, app, 64, seconds), "personal": lambda: load(hub, personal, 64, seconds)}, rounds
        )


def versions(rounds: int, seconds: float, against: Path) -> dict[str, Any]:
    with servers.hub() as here, servers.hub(root=against) as there:

        def run(hub: servers.Running) -> dict[str, Any]:
            return load(hub, spec(hub, "tools/call", "add", expect='"3"'), 64, seconds)

        return pairs({"here": lambda: run(here), "there": lambda: run(there)}, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only",
        default="call-1,call-8,call-64,websocket,list,api,listening,memory",
        help=f"some of {', '.join(WORKLOADS)}",
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--calls", type=int, default=50_000, help="for `memory`")
    parser.add_argument("--database", default="", help="for `postgres`: an empty database, postgresql://...")
    parser.add_argument("--against", type=Path, metavar="DIR", help="for `versions`: a checkout of another version")
    parser.add_argument("--json", help="write all results to this file")
    options = parser.parse_args()
    results: dict[str, Any] = {}
    for name in options.only.split(","):
        if name.startswith("call-"):
            results[name] = calls(int(name[5:]), options.rounds, options.seconds)
            show(f"tools/call, {name[5:]} at a time", results[name], "ceiling")
        elif name == "websocket":
            results[name] = websocket(options.rounds, options.seconds)
            show("tools/call over WebSocket, 64 sockets", results[name], "toolhub HTTP")
        elif name == "list":
            results[name] = lists(options.rounds, options.seconds)
            show("tools/list, 8 at a time, by size of the catalogue", results[name], "10 tools")
        elif name == "api":
            results[name] = apis(options.rounds, options.seconds)
            show("tools/call of an HTTP API, 64 at a time", results[name], "Python function")
        elif name == "listening":
            results[name] = listening(options.rounds, options.seconds)
            show(f"tools/call, 64 at a time, while {STREAMS} streams are open", results[name], "nobody listens")
        elif name == "postgres":
            results[name] = postgres(options.rounds, options.seconds, options.database)
            show("tools/call, 64 at a time, by database", results[name], "SQLite")
        elif name == "conditions":
            sys.stdout.write("\ntools/call, 64 at a time, under three conditions and under none in turn\n")
            results[name] = conditions(options.rounds, options.seconds)
        elif name == "limits":
            sys.stdout.write("\ntools/call, 64 at a time, under a limit and under none in turn\n")
            results[name] = limits(options.rounds, options.seconds)
        elif name == "credentials":
            sys.stdout.write("\ntools/call, 64 at a time, with both kinds of token in turn\n")
            results[name] = credentials(options.rounds, options.seconds)
        elif name == "versions":
            if options.against is None:
                parser.error("versions needs --against DIR")
            sys.stdout.write("\ntools/call, 64 at a time, this checkout and the other in turn\n")
            results[name] = versions(options.rounds, options.seconds, options.against.resolve())
        elif name == "memory":
            results[name] = memory(options.calls)
        else:
            parser.error(f"unknown workload {name!r}")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=2)


if __name__ == "__main__":
    main()
