"""`testtools [--tool T] [--changing] [--json]`: run the saved test cases, through the call pipeline.

Exit status 0: every test case that ran passed. 1: one failed. 2: none ran, or a wrong option.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser, no_translations
from django.db.models import QuerySet

from audit import recorder
from audit.types import Reason
from catalog.models import ToolTest
from catalog.tool_tests import messages
from catalog.tool_tests.run import Outcome, make_caller, run
from toolhub.access.privileges import may_act_as
from toolhub.hub import Hub
from toolhub.invisible import show
from toolhub.management import database, event_loop
from toolhub.pages.tool_tests.runs import save_outcome

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
NOTHING_TO_RUN = 2


@dataclass(frozen=True, slots=True)
class Line:
    """One test case and what became of it."""

    test: ToolTest
    user: str
    status: str
    text: str
    outcome: Outcome | None = None

    def as_data(self) -> dict[str, Any]:
        problem = self.outcome.problem if self.outcome is not None else None
        call = self.outcome.call_id if self.outcome is not None else None
        return {
            "tool": self.test.tool.name,
            "test": self.test.name,
            "user": self.user,
            "status": self.status,
            "code": problem.code if problem is not None else "",
            "problem": self.text,
            "call": str(call) if call is not None else None,
        }


class Command(BaseCommand):
    help = "Run the saved test cases of tools. The exit status is 1 when one failed, and 2 when none ran."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--tool", metavar="NAME", help="only the test cases of this tool")
        parser.add_argument(
            "--changing", action="store_true", help="also those of tools that are not declared read-only"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object on one line")

    @no_translations
    def handle(self, *args: Any, **options: Any) -> None:
        database.require_usable()
        tests = list(find_tests(options["tool"]))
        lines = event_loop.run(run_all(tests, options["changing"]))
        counts = {status: sum(line.status == status for line in lines) for status in (PASSED, FAILED, SKIPPED)}
        if options["json"]:
            self.stdout.write(json.dumps({**counts, "tests": [line.as_data() for line in lines]}))
        else:
            for line in lines:
                call = f" (call {line.outcome.call_id})" if line.outcome is not None and line.outcome.call_id else ""
                problem = f": {line.text}" if line.text else ""
                self.stdout.write(show(f"{line.status} {line.test.tool.name}: {line.test.name}{problem}{call}"))
            self.stdout.write(", ".join(f"{number} {status}" for status, number in counts.items()) + ".")
        if counts[FAILED]:
            sys.exit(1)
        if not counts[PASSED]:
            raise CommandError("No test case ran. Each line above says why.", returncode=NOTHING_TO_RUN)


def find_tests(tool: str | None) -> QuerySet[ToolTest]:
    """Return the test cases, of one tool or of all. Raises CommandError when there are none."""
    tests = ToolTest.objects.select_related("tool", "user", "editor").order_by("tool__name", "name")
    found = tests.filter(tool__name=tool) if tool else tests
    if not found.exists():
        where = f"The tool {tool!r} has no test cases" if tool else "There are no test cases"
        raise CommandError(
            f"{where}. Save one from a call in the audit log, or under Test cases in the admin.",
            returncode=NOTHING_TO_RUN,
        )
    return found


def may_run_as(editor: User | None, user: User) -> bool:
    """Return whether the person who saved a test may still act as its user; that person may be gone or have left."""
    return editor is not None and editor.is_active and may_act_as(editor, user.pk)


async def run_all(tests: list[ToolTest], changing: bool) -> list[Line]:
    """Run the tests one after the other in a hub of this process, which serves nobody and runs no jobs.

    Each runs as its user, otherwise as the person who saved it: nobody's account runs what somebody else chose to send.
    """
    hub = Hub(jobs=())
    await hub.start()
    try:
        return [await run_one(test, test.user or test.editor, changing) for test in tests]
    finally:
        await hub.stop(settings.STOP_SECONDS)


async def run_one(test: ToolTest, user: User | None, changing: bool) -> Line:
    name = user.get_username() if user is not None else ""
    if not (test.tool.read_only or changing):
        return Line(test, name, SKIPPED, "the tool is not declared read-only: add --changing to run it")
    if user is None:
        return Line(
            test, name, SKIPPED, "it names no user, and who saved it is gone: open it in the admin, and save it"
        )
    if not await asyncio.to_thread(may_run_as, test.editor, user):
        return Line(test, name, SKIPPED, "who saved it may not try tools as this user: save it as somebody who may")
    if not user.is_active:
        return Line(test, name, FAILED, "the account is not active", Outcome(Reason("test.inactive", {"user": name})))
    # As a try for another user: nobody's personal secrets are used.
    caller = make_caller(test, user.pk, name, f"admin:0:{user.pk}", "testtools")
    outcome = await run(test, caller, recorder.new_call_id())
    await asyncio.to_thread(save_outcome, test, outcome)
    text = messages.translate(outcome.problem.text) if outcome.problem is not None else ""
    return Line(test, name, PASSED if outcome.passed else FAILED, text, outcome)
