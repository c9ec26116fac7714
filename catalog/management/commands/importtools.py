"""`importtools FILE [--plan [--replay 30d]]`: apply a catalogue file, completely or not at all."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser, no_translations

from audit.text_diff import GONE, NEW, SAME, SKIPPED, lines
from catalog.exchange import files, importer
from catalog.exchange.values import FileError
from catalog.policy.changes import NO_CHANGE
from catalog.policy.definitions import Snapshot
from catalog.replay import report_lines, walk
from catalog.replay.report import MAX_DAYS, MIN_DAYS, Report, Viewer
from toolhub.invisible import show

MAX_VALUE_CHARACTERS = 120
"""Number of characters from which on a difference is shown line by line."""
OPERATOR = Viewer(None, may_read_all=True)
"""Who runs commands here can read the database."""
MARKS = {SAME: " ", GONE: "-", NEW: "+", SKIPPED: "…"}


class Command(BaseCommand):
    help = "Import the catalogue from FILE (YAML or JSON). Importing the same file again changes nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "file", metavar="FILE", help="a file written by exporttools, or one with the same structure"
        )
        parser.add_argument("--plan", action="store_true", help="show the changes without making them")
        parser.add_argument(
            "--replay",
            metavar="30d",
            help="with --plan: show which calls of the last 1d to 90d would then have another answer",
        )
        parser.add_argument(
            "--prune", action="store_true", help="remove entries that the sections of the file do not contain"
        )

    @no_translations
    def handle(self, *args: Any, **options: Any) -> None:
        name = options["file"]
        days = _read_days(options["replay"], is_plan=options["plan"])
        try:
            content = files.read(Path(name).read_text(encoding="utf-8-sig"))
            outcome = importer.run(
                content,
                plan=options["plan"],
                prune=options["prune"],
                source=Path(name).name,
                with_snapshots=days is not None,
            )
        except OSError as error:
            raise CommandError(f"{name} cannot be read: {error.strerror}.") from None
        except UnicodeDecodeError:
            raise CommandError(f"{name} is not text in UTF-8.") from None
        except FileError as wrong:
            raise CommandError(f"{name}: {show(str(wrong))} Nothing was imported.") from None
        for change in outcome.changes:
            self.stdout.write(f"{change.mark} {show(change.what)}")
            for member, before, after in change.differences:
                if max(len(before), len(after)) <= MAX_VALUE_CHARACTERS:
                    self.stdout.write(f"    {show(member)}: {show(before)} -> {show(after)}")
                    continue
                self.stdout.write(f"    {show(member)}:")
                for line in lines(_format_value(before), _format_value(after)):
                    text = f"{line.text} more lines" if line.kind == SKIPPED else line.text
                    self.stdout.write(f"      {MARKS[line.kind]} {text}".rstrip())
        counted = {mark: sum(change.mark == mark for change in outcome.changes) for mark in "+~-"}
        will = "Would create" if options["plan"] else "Created"
        self.stdout.write(
            f"{will} {counted['+']}, change{'' if options['plan'] else 'd'} {counted['~']}, "
            f"remove{'' if options['plan'] else 'd'} {counted['-']}; {outcome.unchanged} unchanged."
        )
        if days is not None and outcome.snapshots is not None:
            self._replay(*outcome.snapshots, days)

    def _replay(self, before: Snapshot, after: Snapshot, days: int) -> None:
        for step in walk.replay(before, after, NO_CHANGE, days, OPERATOR):
            if isinstance(step, Report):
                for line in report_lines.describe(step):
                    self.stdout.write(line)


def _read_days(text: str | None, *, is_plan: bool) -> int | None:
    """Return the days of a period such as 30d; None for no replay. Raises CommandError."""
    if text is None:
        return None
    if not is_plan:
        raise CommandError("--replay needs --plan: it shows what an import would change before it is made.")
    found = re.fullmatch(r"([0-9]{1,2})d", text, re.ASCII)
    days = int(found[1]) if found is not None else 0
    if not MIN_DAYS <= days <= MAX_DAYS:
        raise CommandError(
            f"--replay {show(text)}: give a number of days from {MIN_DAYS}d to {MAX_DAYS}d, such as --replay 30d."
        )
    return days


def _format_value(text: str) -> str:
    """Return a JSON text with its own line breaks; other values stay JSON."""
    return str(json.loads(text)) if text.startswith('"') else text
