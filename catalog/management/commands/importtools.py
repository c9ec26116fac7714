"""`importtools FILE [--plan]`: apply a catalogue file, completely or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser, no_translations

from audit.text_diff import GONE, NEW, SAME, SKIPPED, lines
from catalog.exchange import files, importer
from catalog.exchange.values import FileError
from toolhub.invisible import show

MAX_VALUE_CHARACTERS = 120
"""Number of characters from which on a difference is shown line by line."""
MARKS = {SAME: " ", GONE: "-", NEW: "+", SKIPPED: "…"}


class Command(BaseCommand):
    help = "Import the catalogue from FILE (YAML or JSON). Importing the same file again changes nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "file", metavar="FILE", help="a file written by exporttools, or one with the same structure"
        )
        parser.add_argument("--plan", action="store_true", help="show the changes without making them")
        parser.add_argument(
            "--prune", action="store_true", help="remove entries that the sections of the file do not contain"
        )

    @no_translations
    def handle(self, *args: Any, **options: Any) -> None:
        name = options["file"]
        try:
            content = files.read(Path(name).read_text(encoding="utf-8-sig"))
            outcome = importer.run(content, plan=options["plan"], prune=options["prune"], source=Path(name).name)
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


def _format_value(text: str) -> str:
    """Return a JSON text with its own line breaks; other values stay JSON."""
    return str(json.loads(text)) if text.startswith('"') else text
