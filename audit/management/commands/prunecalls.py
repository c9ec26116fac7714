"""`prunecalls --older-than 90d`: remove old calls now."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from audit import retention
from audit.writing.stores.base import StoreUnavailable


class Command(BaseCommand):
    help = (
        "Remove old calls, or only their arguments and results. The audit log can still be verified afterwards. "
        "The removal is logged."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--older-than", required=True, metavar="AGE", help="minimum age, such as 90d or 12w")
        parser.add_argument(
            "--bodies-only", action="store_true", help="keep the calls and remove only their arguments and results"
        )
        parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")

    def handle(self, *, older_than: str, bodies_only: bool, yes: bool, **_: Any) -> None:
        try:
            before = timezone.now() - retention.parse_age(older_than)
        except ValueError as error:
            raise CommandError(f"--older-than: {error}") from None
        if not yes:
            self._confirm(retention.count_due(before), bodies_only, older_than)
        try:
            done = retention.prune(before, retention.BODIES if bodies_only else retention.ROWS)
        except StoreUnavailable as error:
            raise CommandError(f"Nothing was removed: {error}. Try again.") from error
        self.stdout.write(f"Removed {_format_count(done.bodies, done.rows, bodies_only)} older than {older_than}.")

    def _confirm(self, counts: dict[str, int], bodies_only: bool, older_than: str) -> None:
        what = _format_count(counts[retention.BODIES], counts[retention.ROWS], bodies_only)
        question = f"Permanently remove {what} older than {older_than}?"
        if not sys.stdin.isatty():
            raise CommandError(f"{question} Add --yes to confirm without a terminal.")
        if input(f"{question} Type yes: ").strip().lower() != "yes":
            raise CommandError("Nothing was removed.")


def _format_count(bodies: int, rows: int, bodies_only: bool) -> str:
    return f"arguments and results of {bodies} calls" if bodies_only else f"{rows} calls"
