"""`manage.py closecalls [--wait]`"""

from __future__ import annotations

import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from audit.recorder import audit_log
from audit.writing.recovery import LEASE, Recovery
from audit.writing.stores.base import StoreAway
from audit.writing.writer import Writer


class Command(BaseCommand):
    help = (
        "End the calls whose process died: outcomes it left in its spool are recorded, the rest become 'unknown'. "
        "A running server does this by itself; calls of processes that live are never touched."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--wait",
            action="store_true",
            help=f"watch processes of other machines for {LEASE:.0f} seconds, to tell whether they live",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        closed, recovery = 0, Recovery()

        def close(writer: Writer) -> None:
            nonlocal closed
            closed += recovery.run(writer)
            deadline = time.monotonic() + LEASE + 1
            while options["wait"] and recovery.watching and time.monotonic() < deadline:
                time.sleep(1)
                closed += recovery.run(writer)

        try:
            audit_log().run_once(close)
        except StoreAway as error:
            raise CommandError(f"the record cannot be written: {error}") from error
        self.stdout.write(f"{closed} calls became unknown.")
        if recovery.watching:
            self.stdout.write("Processes of other machines hold calls as well: --wait tells whether they live.")
