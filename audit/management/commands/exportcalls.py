"""`exportcalls`: export calls from the audit log as JSON Lines or CSV."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from audit.export import rows
from audit.queries import periods
from audit.queries.search import CallSearch

FILTERS = {
    "q": "the ID of a call, or text in arguments, result, tool, user, client, rule or error",
    "user": "username; here and below, * stands for any text, as in *weather*",
    "outcome": "ok, tool_error, refused, ..., or not_ok",
    "tool": "name of the tool",
    "method": "tools/call, resources/read or prompts/get",
    "transport": "http, websocket, stdio or admin",
    "client": "name of the client",
    "credential": "name of the credential, or its ID",
    "since": "started at or after this time: 2026-01-31 or 2026-01-31T12:00",
    "until": "started before this time, or on this day",
    "period": f"{', '.join(name for name, _ in periods.CHOICES[:-1])} or {periods.CHOICES[-1][0]}, in UTC",
}


class Command(BaseCommand):
    help = "Export calls, newest first, as JSON Lines or CSV. The export itself is logged."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--format", choices=sorted(rows.FORMATS), default="jsonl")
        parser.add_argument(
            "--output", metavar="FILE", default="-", help="the file to create (default: standard output)"
        )
        for name, text in FILTERS.items():
            parser.add_argument(f"--{name}", default="", help=text)

    def handle(self, *, format: str, output: str, **options: Any) -> None:
        search = CallSearch.from_parameters(options)
        rows.log_export(search, format, "standard output" if output == "-" else Path(output).name)
        if output == "-":
            for chunk in rows.chunks(search, format):
                self.stdout.write(chunk.decode(), ending="")
            return
        try:
            # Only the owner may read the file, and an existing file is not overwritten.
            descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise CommandError(
                f"Cannot write {output}: {error.strerror}. Choose a new file in a folder that you can write to."
            ) from None
        with os.fdopen(descriptor, "wb") as file:
            for chunk in rows.chunks(search, format):
                file.write(chunk)
        sys.stderr.write(f"{output}\n")
