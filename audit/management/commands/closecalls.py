"""`manage.py closecalls [--wait]`: end the calls of processes that died."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from audit.recorder import audit_log
from audit.writing.recovery import LEASE_SECONDS, Recovery
from audit.writing.stores.base import StoreUnavailable
from audit.writing.writer import Writer


class Command(BaseCommand):
    help = (
        "End the calls of processes that died. A status from the spool is logged; without one the call becomes "
        "'unknown'. A running server does this automatically. Calls of running processes are not changed."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--wait",
            action="store_true",
            help=f"watch processes on other machines for {LEASE_SECONDS:.0f} seconds "
            "to find out whether they still run",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        closed, recovery = 0, Recovery()

        def close(writer: Writer) -> None:
            nonlocal closed
            closed += recovery.run(writer)
            deadline = time.monotonic() + LEASE_SECONDS + 1
            while options["wait"] and recovery.is_watching and time.monotonic() < deadline:
                time.sleep(1)
                closed += recovery.run(writer)

        try:
            audit_log().run_once(close)
        except StoreUnavailable as error:
            raise CommandError(f"The audit log cannot be written: {error}") from error
        self.stdout.write(f"{closed} calls became unknown.")
        if recovery.is_watching:
            self.stdout.write(
                "Processes on other machines also have open calls. Add --wait to find out whether they still run."
            )
