"""How long pages take: `python -m tests.bench.pages [--database URL] [--rounds 10] [--only TEXT] [--json]`.

First every address of the census that answers GET, and searches, filters and later pages of them, as whoever may see
most there (see `visits`). Then questions to the audit log, where every round asks for another user, word or page, so
that nothing is answered from a warm spot. Asked in process through Django's test client, on a database that
`seed_calls` filled. Beside the time on the clock stands the processor's, of this process: on a busy machine the former
says little.
What is over the budget is marked.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "toolhub.settings")

MAX_MS, MAX_KB, MAX_QUERIES = 300, 300, 50
"""Of a page, at the 95th percentile."""
MAX_PAGE_SECONDS = 20
"""No request is waited for longer."""


@dataclass(slots=True)
class Measured:
    status: int
    p50: float
    p95: float
    """Milliseconds on the clock, and `cpu` of the processor (the 95th percentile)."""
    cpu: float
    queries: int
    kB: float
    over: str = ""

    def judge(self, is_page: bool) -> None:
        marks = []
        if self.status >= 400 and self.status != 404:
            marks.append(str(self.status))
        if self.p95 > MAX_MS:
            # The same work takes the processor long, or it waited for something: a query, or its turn.
            marks.append("SLOW" if self.cpu > MAX_MS else "slow (waiting)")
        if is_page and self.kB > MAX_KB:
            marks.append("LARGE")
        if self.queries > MAX_QUERIES:
            marks.append("MANY QUERIES")
        self.over = ", ".join(marks)


class TooSlow(BaseException):
    """It takes too long. Not an Exception, which a view or Django might catch."""


def run_with_timeout(ask: Callable[[], tuple[int, int]]) -> tuple[int, int]:
    def end(*_: Any) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(MAX_PAGE_SECONDS)
    try:
        return ask()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def measure(ask: Callable[[], tuple[int, int]], rounds: int, *, is_page: bool = True) -> Measured:
    """`ask` says the status and how many bytes came."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as captured:
        try:
            status, size = run_with_timeout(ask)
        except TooSlow:
            found = Measured(0, MAX_PAGE_SECONDS * 1000, MAX_PAGE_SECONDS * 1000, 0, len(captured), 0)
            found.over = f"MORE THAN {MAX_PAGE_SECONDS} s"
            return found
        queries = len(captured)
    walls, processor = [], []
    for _ in range(rounds):
        wall, cpu = time.perf_counter(), time.process_time()
        status, more = ask()
        processor.append((time.process_time() - cpu) * 1000)
        walls.append((time.perf_counter() - wall) * 1000)
        size = max(size, more)
    p95 = _p95(walls)
    found = Measured(status, statistics.median(walls), p95, _p95(processor), queries, size / 1000)
    found.judge(is_page)
    return found


def _p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20, method="inclusive")[-1] if len(values) > 1 else values[0]


def measure_census(rounds: int, only: str) -> dict[str, Measured]:
    """Every address, by who asks and what for."""
    from django.test import Client

    from audit.models import Call
    from catalog.policy import snapshot
    from tests.bench import estate, visits
    from toolhub.management.worker_process import freeze_loaded_objects

    people = visits.load_accounts()
    clients = {}
    for who, user in people.items():
        clients[who] = Client(raise_request_exception=False)
        if user is not None:
            clients[who].force_login(user)
    owner = people[visits.OWNER]
    call = Call.objects.filter(user=owner).first()
    assert call is not None, "seed the database first: python -m tests.bench.seed_calls"
    snapshot.latest()
    freeze_loaded_objects()  # as a worker does when it starts
    report = {}
    for visit in visits.visits(visits.find_heaviest(owner, call)):
        if only not in visit.path:
            continue
        if "/sessions/" in visit.path:
            estate.report_process(2_000)

        def ask(path: str = visit.path, client: Client = clients[visit.who]) -> tuple[int, int]:
            response: Any = client.get(path)
            body = b"".join(response.streaming_content) if response.streaming else response.content
            return response.status_code, len(body)

        name = f"{visit.who} {visit.path}"
        report[name] = measure(ask, rounds, is_page=visit.is_page)
        sys.stderr.write(format_line(name, report[name]))
        sys.stderr.flush()
    return report


def format_line(name: str, row: Measured) -> str:
    mark = f"  <- {row.over}" if row.over else ""
    return f"{row.p50:8.0f}{row.p95:8.0f}{row.cpu:8.0f}{row.queries:8d}{row.kB:7.0f}  {name}{mark}\n"


def measure_audit_log(rounds: int, only: str) -> dict[str, Measured]:
    """Questions to the audit log, another one in every round."""
    from django.contrib.auth.models import User
    from django.test import Client

    from audit.models import Action, Call
    from audit.queries import search
    from tests.bench.estate import WORDS, tool_name

    client = Client()
    root, _ = User.objects.get_or_create(username="bench-root", defaults={"is_staff": True, "is_superuser": True})
    client.force_login(root)
    chance = random.Random(11)
    users = list(User.objects.filter(username__startswith="seed").values_list("pk", "username"))
    newest = Call.objects.values_list("pk", flat=True).first()
    assert newest is not None and users, "seed the record first: python -m tests.bench.seed_calls"
    oldest = Call.objects.order_by("pk").values_list("pk", flat=True).first()
    assert oldest is not None

    def somewhere() -> str:
        return f"{chance.randrange(oldest.int, newest.int):032x}"

    def somewhere_call() -> Any:
        return Call.objects.filter(pk__lte=somewhere()).values_list("pk", flat=True).first() or oldest

    def opened(address: str, **query: Any) -> tuple[int, int]:
        response = client.get(address, query)
        assert response.status_code == 200 or "with" in query, response.status_code
        return response.status_code, len(response.content)

    def admin(**query: Any) -> tuple[int, int]:
        return opened("/admin/audit/call/", **query)

    def own(*question: Any) -> tuple[int, int]:
        search.page_for_user(chance.choice(users)[0], *question)
        return 200, 0

    def user() -> str:
        return chance.choice(users)[1]

    outcomes = ("ok", "tool_error", "refused", "timeout", "unknown_tool", "not_ok")
    pages: dict[str, Callable[[], tuple[int, int]]] = {
        "admin list, newest": admin,
        "admin list, deep": lambda: admin(before=somewhere()),
        "user and outcome": lambda: admin(user=user(), outcome=chance.choice(outcomes)),
        "tool and outcome": lambda: admin(tool=tool_name(chance.randrange(200)), outcome=chance.choice(outcomes)),
        "user, tool, a month": lambda: admin(
            user=user(), tool=tool_name(chance.randrange(20)), since=f"{time.strftime('%Y')}-01-01"
        ),
        "rare outcome": lambda: admin(outcome="unknown_tool"),
        "text search, frequent": lambda: admin(q=f"{chance.choice(WORDS)} {chance.choice(WORDS)}"),
        "text search, absent": lambda: admin(q=f"absent {chance.random()}"),
        "text search of a user": lambda: admin(q=chance.choice(WORDS), user=user(), outcome="timeout"),
        "call id": lambda: admin(q=str(somewhere_call()), transport="http"),
        "hash, absent": lambda: admin(q=f"{chance.getrandbits(256):064x}"),
        "detail": lambda: opened(f"/admin/audit/call/{somewhere_call()}/change/"),
        "difference of two": lambda: opened("/admin/audit/call/compare/", call=[somewhere_call(), somewhere_call()]),
        "difference to the previous": lambda: opened(
            "/admin/audit/call/compare/", call=somewhere_call(), **{"with": "previous"}
        ),
        "copy as JSON": lambda: opened(f"/admin/audit/call/{somewhere_call()}/copy/json/"),
        "saved views": lambda: opened("/admin/audit/call/views/"),
        "actions": lambda: opened("/admin/audit/action/"),
        "an action": lambda: opened(f"/admin/audit/action/{Action.objects.values_list('pk', flat=True)[0]}/change/"),
        "user's own page": lambda: own({}),
        "user's own page, deep": lambda: own({}, f"before-{somewhere()}"),
        "user's own refusals": lambda: own({"outcome": "refused"}),
    }
    return {name: measure(ask, rounds) for name, ask in pages.items() if only in name}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", help="sqlite:////path/file or postgresql://user:password@host:port/name")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", default="", help="addresses and questions with this in their names")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.database:
        os.environ["TOOLHUB_DATABASE_URL"] = options.database
    django.setup()

    from django.conf import settings
    from django.db import connection

    settings.ALLOWED_HOSTS = ["testserver"]
    report = measure_census(options.rounds, options.only)
    report |= measure_audit_log(options.rounds, options.only)
    if options.json:
        rows = {name: asdict(row) for name, row in report.items()}
        sys.stdout.write(json.dumps({"database": connection.vendor, "pages": rows}) + "\n")
        return
    sys.stdout.write(f"{'p50 ms':>8}{'p95 ms':>8}{'cpu ms':>8}{'queries':>8}{'kB':>7}  page on {connection.vendor}\n")
    for name, row in report.items():
        sys.stdout.write(format_line(name, row))


if __name__ == "__main__":
    main()
