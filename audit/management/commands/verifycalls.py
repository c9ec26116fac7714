"""Verification of the audit log, or of a case file.

`manage.py verifycalls [--head FILE] [--keys FILE] [--recent] [--json]`, or `verifycalls --bundle FILE [--keys FILE]`.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from audit.case_files import examination
from audit.format import keys, timestamps
from audit.format.keys import TrustedKeys
from audit.integrity import verification
from audit.integrity.checkpoints import SignedCheckpoint, read_file
from audit.integrity.messages import Problem
from toolhub import invisible


class Command(BaseCommand):
    help = (
        "Verify the audit log: every hash chain, call, admin change and checkpoint. If an entry was changed, deleted, "
        "added or moved, print the first one and exit with status 1. Entries after the last checkpoint are counted as "
        "not yet covered. With --bundle, verify a case file instead, without the database."
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
            "--keys",
            type=Path,
            metavar="FILE",
            help="the public keys to trust, one per line, newest first: what --public-key printed. Without it, the "
            "keys in TOOLHUB_RECORD_KEY and TOOLHUB_RECORD_OLD_KEYS are trusted",
        )
        parser.add_argument(
            "--public-key",
            action="store_true",
            help="only print the public key of this installation, to keep outside of it for --keys",
        )
        parser.add_argument(
            "--recent", action="store_true", help="verify only what was logged after the last checkpoint"
        )
        parser.add_argument(
            "--bundle",
            type=Path,
            metavar="FILE",
            help="verify a case file instead of the audit log. On another machine, give the public key of the "
            "installation that made it with --keys, and get that key from its operator, never with the file",
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["public_key"]:
            self.stdout.write(keys.public_key())
            return
        if options["bundle"]:
            if options["head"] or options["recent"]:
                raise CommandError("--bundle cannot be combined with --head or --recent")
            self._verify_bundle(options["bundle"], _read_keys(options["keys"]), as_json=options["json"])
            return
        external, trusted = _read_external(options["head"]), _read_keys(options["keys"])
        report = verification.run(external, recent=options["recent"], trusted=trusted)
        if options["json"]:
            self.stdout.write(
                json.dumps(
                    {
                        "ok": report.ok,
                        "first": report.first or None,
                        "problems": [str(problem) for problem in report.problems],
                        "findings": _list_findings(report.problems),
                        "outside_head": report.outside_head,
                        "through": report.through or None,
                        "links": report.links,
                        "covered": report.links - report.uncovered,
                        "uncovered": report.uncovered,
                        "checkpoint": report.checkpoint,
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

    def _verify_bundle(self, path: Path, trusted: TrustedKeys, *, as_json: bool) -> None:
        try:
            report = examination.examine(path, trusted)
        except OSError as error:
            raise CommandError(f"--bundle: {error}") from error
        if as_json:
            found = {
                "ok": report.ok,
                "problems": [str(problem) for problem in report.problems],
                "findings": _list_findings(report.problems),
                "calls": report.calls,
                "changes": report.changes,
                "key": report.key or None,
                "is_earlier_key": report.is_earlier_key,
                "manifest": report.manifest or None,
            }
            self.stdout.write(json.dumps(found))
        elif report.ok:
            self._print_bundle(report)
        else:
            # Names in a file of others may hold sequences that change what a terminal shows.
            self.stdout.write(f"BROKEN {invisible.show(str(report.problems[0]))}")
            for problem in report.problems[1:]:
                self.stdout.write(f"       {invisible.show(str(problem))}")
            if len(report.problems) >= examination.MAX_PROBLEMS:
                self.stdout.write("       (further problems are not listed)")
        if not report.ok:
            sys.exit(1)

    def _print_bundle(self, report: examination.CaseReport) -> None:
        manifest = report.manifest
        text = (
            f"OK {report.calls} calls and {report.changes} changes are as {manifest['installation']} logged them; "
            f"made by {manifest['made_by']} at {manifest['made_at']}, signed with key {report.key}."
        )
        self.stdout.write(invisible.show(text))
        if report.is_earlier_key:
            self.stdout.write(
                f"EARLIER KEY {report.key} is not the newest trusted key. If it leaked, whoever has it can have made "
                "this file at any time."
            )

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
        elif report.checkpoint is None and report.uncovered:
            self.stdout.write(
                f"NOT YET COVERED {count}: no checkpoint was signed yet, so deletions could go unnoticed."
            )
        elif report.outside_head:
            self.stdout.write(f"OK {count}, compared with an external checkpoint.")
        else:
            self.stdout.write(
                f"No problems found in {count}. No external checkpoint was given (--head FILE): deleting the newest "
                "entries together with their checkpoints could go unnoticed."
            )
        if report.checkpoint is not None and report.uncovered:
            at = timestamps.from_ms(report.checkpoint_at)
            self.stdout.write(
                f"NOT YET COVERED {report.uncovered} newer entries: the last checkpoint is {report.checkpoint}, signed "
                f"at {at:%Y-%m-%d %H:%M:%S} UTC. What was deleted after them could go unnoticed until the next one."
            )


def _list_findings(problems: list[Problem]) -> list[dict[str, Any]]:
    return [
        {
            "problem": str(problem),
            "subject": str(problem.subject),
            "code": problem.finding.code,
            "params": {name: str(value) for name, value in problem.finding.params.items()},
        }
        for problem in problems
    ]


def _read_external(path: Path | None) -> list[SignedCheckpoint] | None:
    if path is None:
        return None
    try:
        return read_file(path)
    except (OSError, ValueError) as error:
        raise CommandError(f"--head: {error}") from error


def _read_keys(path: Path | None) -> TrustedKeys:
    """Return the keys to trust. Raise CommandError for a file or a setting that names no valid key."""
    try:
        return TrustedKeys.from_settings() if path is None else TrustedKeys.from_file(path)
    except (OSError, ValueError) as error:
        raise CommandError(f"{'TOOLHUB_RECORD_OLD_KEYS' if path is None else '--keys'}: {error}") from error
