"""`manage.py verifycalls [--head FILE] [--recent] [--json]`: verify the audit log."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from audit.integrity import verification
from audit.integrity.checkpoints import SignedCheckpoint, read_file


class Command(BaseCommand):
    help = (
        "Verify the audit log: every hash chain, call, admin change and checkpoint. If an entry was changed, deleted, "
        "added or moved, print the first one and exit with status 1."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--head",
            type=Path,
            metavar="FILE",
            help="external checkpoints: the file from TOOLHUB_CHECKPOINT_FILE, or lines of the server log. Without "
            "them, deleting the newest entries can go unnoticed",
        )
        parser.add_argument(
            "--recent", action="store_true", help="verify only what was logged after the last checkpoint"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        report = verification.run(_read_external(options["head"]), recent=options["recent"])
        if options["json"]:
            self.stdout.write(
                json.dumps(
                    {
                        "ok": report.ok,
                        "first": report.first or None,
                        "problems": [str(problem) for problem in report.problems],
                        "findings": [
                            {
                                "problem": str(problem),
                                "subject": str(problem.subject),
                                "code": problem.finding.code,
                                "params": {name: str(value) for name, value in problem.finding.params.items()},
                            }
                            for problem in report.problems
                        ],
                        "outside_head": report.outside_head,
                        "through": report.through or None,
                        "links": report.links,
                        "calls": report.calls,
                        "chains": report.chains,
                        "checkpoints": report.checkpoints,
                    }
                )
            )
        else:
            self._print_report(report)
        if not report.ok:
            sys.exit(1)

    def _print_report(self, report: verification.Report) -> None:
        count = (
            f"{report.links} entries in {report.chains} hash chains, {report.calls} calls, "
            f"{report.checkpoints} checkpoints"
        )
        if not report.ok:
            self.stdout.write(f"BROKEN {report.first}")
            for problem in report.problems[1:]:
                self.stdout.write(f"       {problem}")
            if len(report.problems) >= verification.MAX_PROBLEMS:
                self.stdout.write("       (further problems are not listed)")
        elif report.outside_head:
            self.stdout.write(f"OK {count}, compared with an external checkpoint.")
        else:
            self.stdout.write(
                f"No problems found in {count}. No external checkpoint was given (--head FILE): deleting the newest "
                "entries together with their checkpoints could go unnoticed."
            )


def _read_external(path: Path | None) -> list[SignedCheckpoint] | None:
    if path is None:
        return None
    try:
        return read_file(path)
    except (OSError, ValueError) as error:
        raise CommandError(f"--head: {error}") from error
