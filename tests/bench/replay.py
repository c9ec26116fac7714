"""Time and memory of a replay: `python -m tests.bench.replay --database sqlite:////tmp/replay.sqlite3`.

Fills an empty database with a catalogue and a million calls in 90 days, of which a tenth are of the last day. Then each
change is replayed over the last day and over all 90 days, in a process of its own without pauses, and after it the same
calls are read and nothing is done with them. `ratio` says how much more processor time the replay takes; `MB` is what
it adds to the memory of its process, at most.

deny         a denial for everybody: no answer depends on arguments
condition    the grant by which everybody may call everything gets a condition: arguments decide about each call
limit        a rate limit for each person on all tools
cost         a quota of cost units for each person on all tools, each of which costs more by one argument
repeats      a limit for each person of calls with the same arguments, of all tools
first time   an approval rule on all tools that asks the first time with a value
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "toolhub.settings")

SPAN_DAYS = 90
CHANGES = ("deny", "condition", "limit", "cost", "repeats", "first time")
READ = "read"


def fill(tools: int, users: int, calls: int) -> None:
    from django.contrib.auth.models import User
    from django.core.management import call_command

    from catalog.models import Tool
    from tests.bench.estate import grow
    from tests.bench.seed_calls import seed

    call_command("migrate", verbosity=0)
    if Tool.objects.exists():
        return
    grow(tools, users)
    people = list(User.objects.filter(username__startswith="seed").order_by("pk").values_list("pk", "username"))
    named = list(Tool.objects.filter(name__startswith="tool_").order_by("pk").values_list("pk", "name"))
    seed(calls, people, named, SPAN_DAYS * 86_400_000)


def make_change(name: str, catalogue: Any) -> Any:
    from catalog.conditions import definitions
    from catalog.policy.changes import Change
    from catalog.policy.definitions import AskRule, GrantRule, LimitRule

    largest = max(catalogue.by_toolset, key=lambda key: len(catalogue.by_toolset[key]))
    if name == "deny":
        return Change(grants=(GrantRule(0, "deny", "toolset", largest, "everyone", None, None, None, frozenset()),))
    if name == "limit":
        return Change(limits=(LimitRule(0, "all", None, "each_user", None, "100/h"),))
    if name == "cost":
        return Change(limits=(LimitRule(0, "all", None, "each_user", None, "2000/day", measure="cost"),))
    if name == "repeats":
        return Change(limits=(LimitRule(0, "all", None, "each_user", None, "5/10m", measure="repeats"),))
    if name == "first time":
        return Change(asks=(AskRule(0, "New paths", "all", None, "person", None, first_time=("path",)),))
    conditions = definitions.parse([{"path": "/limit", "op": "range", "maximum": 25, "optional": True}])
    grant = GrantRule(0, "allow", "toolset", largest, "everyone", None, None, None, frozenset(), conditions=conditions)
    return Change(grants=(grant,), removed_grants=frozenset(rule.id for rule in catalogue.grants))


def run(name: str, days: int) -> dict[str, Any]:
    """Replay one change, or only read the calls; return the seconds, on the wall and of the processor, and the rest."""
    from catalog.policy.definitions import ToolDefinition
    from catalog.policy.loader import Loader
    from catalog.replay import attempts, reach, walk
    from catalog.replay.report import Report, Viewer

    catalogue = Loader().load()
    if name == "cost":
        tools = {
            key: replace(item, cost_argument=("limit",))
            for key, item in catalogue.items.items()
            if isinstance(item, ToolDefinition)
        }
        catalogue = replace(catalogue, items={**catalogue.items, **tools})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began, cpu_began = time.monotonic(), time.process_time()
    if name == READ:
        now = time.time_ns() // 1_000_000
        everything = reach.Reach(dict.fromkeys(catalogue.items), frozenset(), None, frozenset())
        calls = sum(len(batch.calls) for batch in attempts.read(now - days * 86_400_000, now, everything))
        changed: dict[str, int] = {}
    else:
        change, viewer = make_change(name, catalogue), Viewer(None, True)
        *_, report = walk.replay(catalogue, catalogue, change, days, viewer)
        assert isinstance(report, Report)
        calls = report.looked_at
        changed = {f"{one.before} -> {one.after}": one.calls for one in report.changed}
    seconds, cpu = time.monotonic() - began, time.process_time() - cpu_began
    added = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return {"seconds": seconds, "cpu": cpu, "calls": calls, "mb": added, "changed": changed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", required=True, help="sqlite:////path/file or postgresql://user@host:port/name")
    parser.add_argument("--tools", type=int, default=2_000)
    parser.add_argument("--users", type=int, default=500)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--days", default=f"1,{SPAN_DAYS}", help="periods to replay")
    parser.add_argument("--only", default=",".join(CHANGES), help=f"some of {', '.join(CHANGES)}")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ["TOOLHUB_DATABASE_URL"] = options.database
    django.setup()
    if options.one:
        sys.stdout.write(json.dumps(run(options.one, int(options.days))))
        return
    fill(options.tools, options.users, options.calls)
    for days in options.days.split(","):
        for name in options.only.split(","):
            found = []
            for one in (name, READ):
                command = [sys.executable, "-m", "tests.bench.replay", "--database", options.database]
                done = subprocess.run([*command, "--one", one, "--days", days], capture_output=True, check=True)
                found.append(json.loads(done.stdout))
            replayed, ratio = found[0], found[0]["cpu"] / found[1]["cpu"]
            sys.stdout.write(
                f"{name:<12}{replayed['calls']:>10,} calls {replayed['seconds']:>7.1f} s {replayed['cpu']:>7.1f} s CPU"
                f"  ratio {ratio:>5.1f}  {replayed['mb']:>6.1f} MB  {replayed['changed']}\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
