"""`exporttools [FILE]`: export the whole catalogue as YAML or JSON, secrets by name only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from catalog.exchange import exporter, files


class Command(BaseCommand):
    help = "Write the whole catalogue to FILE (JSON when it ends in .json, else YAML), or to stdout as YAML."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", nargs="?", metavar="FILE", help="the file to write (default: stdout)")

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["file"]
        try:
            text = files.write(exporter.export_catalogue(), as_json=bool(name) and name.lower().endswith(".json"))
        except ValueError as error:
            raise CommandError(f"The catalogue cannot be exported: {error}.") from None
        if not name:
            self.stdout.write(text, ending="")
            return
        try:
            Path(name).write_text(text, encoding="utf-8")
        except OSError as error:
            raise CommandError(f"{name} cannot be written: {error.strerror}.") from None
