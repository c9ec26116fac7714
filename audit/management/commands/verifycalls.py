"""`manage.py verifycalls [--head FILE] [--recent] [--json]`"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from audit.integrity import verify
from audit.integrity.checkpoints import Head, read_file


class Command(BaseCommand):
    help = (
        "Verify the record: every chain, every call and action, every checkpoint. "
        "Exit status 1 and the first bad record when something was changed, removed, added or moved."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--head",
            type=Path,
            metavar="FILE",
            help="checkpoints that were kept outside the database (TOOLHUB_CHECKPOINT_FILE, or lines of the log): "
            "only with one can the removal of the newest records be seen",
        )
        parser.add_argument("--recent", action="store_true", help="only what came after the last checkpoint")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        report = verify.run(_kept(options["head"]), recent=options["recent"])
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
            self._tell(report)
        if not report.ok:
            sys.exit(1)

    def _tell(self, report: verify.Report) -> None:
        count = (
            f"{report.links} links of {report.chains} chains, {report.calls} calls, {report.checkpoints} checkpoints"
        )
        if not report.ok:
            self.stdout.write(f"BROKEN {report.first}")
            for problem in report.problems[1:]:
                self.stdout.write(f"       {problem}")
            if len(report.problems) >= verify.ENOUGH:
                self.stdout.write("       (and no more is listed)")
        elif report.outside_head:
            self.stdout.write(f"OK {count}, compared with a head that was kept outside.")
        else:
            self.stdout.write(
                f"Nothing is wrong with {count}. There was no outside head to compare with (--head FILE): "
                "whether the newest records were removed, together with their checkpoints, cannot be seen."
            )


def _kept(path: Path | None) -> list[Head] | None:
    if path is None:
        return None
    try:
        return read_file(path)
    except (OSError, ValueError) as error:
        raise CommandError(f"--head: {error}") from error
