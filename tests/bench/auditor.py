"""Ten questions of an auditor over HTTP: `python -m tests.bench.auditor --database URL`.

Asks a real server the questions of `tests/browser/test_auditor_questions.py`, on a database that `seed_calls` filled.
`--index` builds the text index first, which takes half an hour at a million calls. For each question it prints the
clicks (that test counts them in a browser), and the seconds until the answer is complete: of every page on the way, and
of every step of a search, with its count. First as the first visitor of the process, then once more.

A third column is the processor's time of the server at the second time: on a busy machine the others say little.

At a million calls, every question but the case file takes less than 0.8 s of the processor on either database, and the
case file of a person about 3.5 s.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import django

from tests.bench import servers
from tests.bench.visitor import PASSWORD, Visitor

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "toolhub.settings")

LIST, STEP = "/admin/audit/call/", "/admin/audit/call/search/"
NAME = "bench-reads"
MAX_COUNTED = 10_000
"""As the page does: it says "More than 10,000" then."""


def find(visitor: Visitor, **filters: str) -> None:
    """Open the list with these filters, and count as its script does."""
    visitor.get(f"{LIST}?{urlencode(filters)}")
    older, found = "", 0
    while True:
        part = visitor.get_json(f"{STEP}?{urlencode({**filters, 'before': older})}")
        older, found = part["older"], found + part["found"]
        if not older or found >= MAX_COUNTED:
            return


def make_case(visitor: Visitor, user: str, user_id: int) -> None:
    visitor.get(f"/admin/search/?format=json&q={user}")
    visitor.get(f"/admin/auth/user/{user_id}/change/")
    path = f"/admin/audit/call/case-file/?{urlencode({'user': user})}"
    visitor.post(path, {"reason": "a benchmark", "has_bodies": "on"})


def list_questions(facts: dict[str, Any]) -> list[tuple[str, int, Callable[[Visitor], Any]]]:
    """Return (question, clicks, how it is asked)."""
    call, other, tuesday = facts["call"], facts["other"], facts["tuesday"]
    afternoon = {"since": f"{tuesday}T12:00", "until": f"{tuesday}T18:00"}
    monthly = {"q": "invoice", "tool": facts["tool"], "period": "last_month"}

    def open_call(visitor: Visitor) -> None:
        visitor.get(LIST)
        visitor.get(f"{LIST}{call}/change/")

    return [
        ("Which client called on Tuesday afternoon?", 1, lambda visitor: find(visitor, **afternoon)),
        ("Which calls of a tool had this argument last month?", 2, lambda visitor: find(visitor, **monthly)),
        ("Where does 4711 appear?", 0, lambda visitor: find(visitor, q="4711")),
        ("Which calls were denied, and why?", 1, lambda visitor: find(visitor, outcome="refused")),
        ("Is the log complete?", 0, lambda visitor: visitor.get(LIST)),
        ("Everything about a person", 3, lambda visitor: make_case(visitor, facts["user"], facts["user_id"])),
        ("Who gave this grant, and why?", 1, open_call),
        ("What was the definition then?", 2, open_call),
        (
            "How do two calls differ?",
            3,
            lambda visitor: visitor.get(f"{LIST}compare/?{urlencode([('call', call), ('call', other)])}"),
        ),
        ("The same search next week", 1, lambda visitor: find(visitor, **monthly)),
    ]


def collect_facts() -> dict[str, Any]:
    """Make the account that asks, and choose what it asks about."""
    from django.contrib.auth.models import Group, Permission, User
    from django.utils import timezone

    from audit.models import Call
    from tests.bench.estate import tool_name, user_name

    reader, _made = User.objects.get_or_create(username=NAME, defaults={"is_staff": True})
    reader.set_password(PASSWORD)
    reader.save()
    reader.groups.add(Group.objects.get(name="auditor"))
    reader.user_permissions.add(Permission.objects.get(codename="make_casefile"))
    today = timezone.now().date()
    calls = list(Call.objects.values_list("pk", flat=True)[:2])
    # Somebody with few calls: a case file of many is as long as they are.
    person = User.objects.get(username=user_name(600))
    return {
        "tuesday": today - timedelta(days=(today.weekday() - 1) % 7 or 7),
        "tool": tool_name(0),
        "call": calls[0],
        "other": calls[1],
        "user": person.username,
        "user_id": person.pk,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", required=True, help="sqlite:////path/file or postgresql://user@host:port/name")
    parser.add_argument("--index", action="store_true", help="build the text index first, which takes long")
    options = parser.parse_args()
    os.environ["TOOLHUB_DATABASE_URL"] = options.database
    django.setup()

    from django.db import connection

    from audit.models import Call
    from audit.queries import text_index

    while options.index and not text_index.catch_up(600):
        pass
    facts = collect_facts()
    vendor, count = connection.vendor, Call.objects.count()
    connection.close()
    port = servers.free_port()
    env = {**os.environ, "TOOLHUB_VERIFY_SECONDS": "0", "TOOLHUB_PUBLIC_URL": f"http://127.0.0.1:{port}"}
    command = [sys.executable, "manage.py", "serve", "--port", str(port)]
    subprocess.run([sys.executable, "manage.py", "migrate", "--verbosity", "0"], cwd=servers.ROOT, env=env, check=True)
    with servers.process(command, port, env=env, path="/readyz") as running:
        visitor = Visitor(port)
        visitor.sign_in(NAME)
        sys.stdout.write(f"{vendor}, {count:,} calls\n{'clicks':>8}{'first':>8}{'again':>8}{'cpu':>8}\n")
        for question, clicks, ask in list_questions(facts):
            took = []
            for _ in range(2):
                began, cpu = time.perf_counter(), running.cpu_seconds()
                ask(visitor)
                took.append((time.perf_counter() - began, running.cpu_seconds() - cpu))
            (first, _cpu), (again, cpu) = took
            sys.stdout.write(f"{clicks:8d}{first:8.2f}{again:8.2f}{cpu:8.2f}  {question}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
