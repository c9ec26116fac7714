"""`python -m tests.conformance`: every selection of the official suite on every set-up, with the suite's own time-outs.

The tests run what a revision requires, with longer time-outs for a busy machine. This runs what the suite has, as a
stranger would, and needs a machine with nothing else to do. It prints one line for each run and every failure and
warning; the exit status is 1 when a check failed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

SELECTIONS = (
    *(("--requirements", revision) for revision in ("2025-11-25", "2026-07-28")),
    *(("--suite", name) for name in ("active", "draft", "pending", "all")),
    *(
        ("--suite", "all", "--spec-version", revision)
        for revision in ("2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
    ),
)


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    from tests.conformance import catalogue, suite
    from tests.conformance.test_conformance import SET_UPS
    from tests.real_servers import Hub

    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--set-up", action="append", choices=SET_UPS, help="one set-up; repeat for several")
    parser.add_argument("--output", type=Path, help="folder for the results of the suite; temporary by default")
    options = parser.parse_args()
    folder = options.output or Path(tempfile.mkdtemp(prefix="conformance-"))
    suite.install()
    failed = False
    for set_up in options.set_up or SET_UPS:
        env = {"TOOLHUB_TOOL_MODULES": "tests.conformance.fixtures"}
        with Hub(env=env, seed=catalogue.fill, **SET_UPS[set_up]) as hub:
            for selection in SELECTIONS:
                started = time.monotonic()
                output = folder / set_up / "-".join(selection).replace("--", "")
                report = suite.run(hub.mcp_url, hub.seeded, output, *selection, scenario_ms=None)
                checks = sum(map(len, report.checks.values()))
                failures = sum(map(len, report.with_status("FAILURE").values()))
                warnings = sum(map(len, report.with_status("WARNING").values()))
                failed |= bool(failures) or not checks
                sys.stdout.write(
                    f"{set_up:<12} {' '.join(selection):<44} {len(report.checks):>3} scenarios {checks:>4} checks"
                    f" {failures:>3} failed {warnings:>3} warnings {time.monotonic() - started:>5.0f} s\n"
                )
                if problems := report.describe_problems():
                    sys.stdout.write(problems + "\n")
                if not checks:
                    sys.stdout.write(report.output[-4000:])
                sys.stdout.flush()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
