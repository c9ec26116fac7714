"""No page asks more of the database, or grows without end, because there is more in the hub.

Every address of the census that answers GET is opened in a small hub and in a larger one: the larger one may not cost
one query more. What has more rows than fit on a page in the larger hub shows them in pages, so that its size is bounded
too. `python -m tests.bench.pages` measures the same at full size.
"""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from audit.models import Call
from audit.queries import rollups, text_index
from catalog.policy import snapshot
from tests.bench import estate, visits

# Inside a transaction the snapshot is read for every page. Rows are numbered from 1: the numbers of earlier tests would
# make the pages longer, by more or less.
pytestmark = pytest.mark.django_db(transaction=True, reset_sequences=True)

MAX_PAGE_BYTES = 320_000
"""The page of a tool is the largest: a few grants and limits with all their fields."""
MAX_QUERIES = 69
"""The page on which a user is deleted asks every table that has rows of users, once or twice."""
MAX_EXTRA_QUERIES = {"/history/": 30, "/change/": 12}
"""For the few rows that these show at a time: two queries of a version, and one of whatever a grant or limit names."""
SMALL, LARGE = (6, 4), (300, 100)
"""Tools and users: the small hub has a few rows on every list, the larger one more than a page of them."""


def make_calls(first: int, count: int, owner: Any) -> None:
    """Calls of one user at one tool, a few of them failed: the busiest corner of a record."""
    from tests.audit import rows

    outcomes = ("ok", "ok", "tool_error", "refused")
    rows.save(
        *(
            rows.build_call(number, user=owner, name=estate.tool_name(0), outcome=outcomes[number % 4])
            for number in range(first, first + count)
        )
    )


def visit_addresses(address_values: dict[str, Any], people: dict[str, Any]) -> dict[str, tuple[int, list[str], int]]:
    """For each address: the status, its queries, and how many bytes came."""
    found = {}
    clients = {}
    for who, user in people.items():
        clients[who] = Client(raise_request_exception=False)
        if user is not None:
            clients[who].force_login(user)
    for visit in visits.visits(address_values, more=False):
        client = clients[visit.who]
        with CaptureQueriesContext(connection) as captured:
            response: Any = client.get(visit.path)
            size = len(b"".join(response.streaming_content)) if response.streaming else len(response.content)
        found[f"{visit.who} {visit.path}"] = (response.status_code, [row["sql"] for row in captured], size)
    return found


def test_more_tools_users_and_calls_cost_no_page_a_query_and_leave_it_bounded() -> None:
    estate.grow(*SMALL)
    people = visits.load_accounts()
    owner = people[visits.OWNER]
    make_calls(0, 6, owner)
    address_values = visits.find_heaviest(owner, Call.objects.order_by("pk").first())
    estate.report_process(3)
    text_index.catch_up(30)
    snapshot.refresh()
    small = visit_addresses(address_values, people)
    estate.grow(*LARGE)
    make_calls(6, 2_000, owner)
    estate.report_process(100)
    rollups.catch_up(30)
    text_index.catch_up(30)
    snapshot.refresh()
    wrong = []
    for name, (status, queries, size) in visit_addresses(address_values, people).items():
        before = small[name]
        if status != before[0] or status >= 500:
            wrong.append(f"{name}: {before[0]} became {status}")
        more = next((number for part, number in MAX_EXTRA_QUERIES.items() if part in name), 0)
        if len(queries) > len(before[1]) + more:
            wrong.append(
                f"{name}: {len(before[1])} queries became {len(queries)}, such as {find_new_query(before[1], queries)}"
            )
        if len(queries) > MAX_QUERIES:
            wrong.append(f"{name}: {len(queries)} queries, more than {MAX_QUERIES}")
        if size > MAX_PAGE_BYTES:
            wrong.append(f"{name}: {size:,} bytes, more than {MAX_PAGE_BYTES:,}")
    assert not wrong, "\n".join(wrong)


def find_new_query(before: list[str], after: list[str]) -> str:
    """The last query that was not asked before."""
    known = set(before)
    return next((sql[:400] for sql in reversed(after) if sql not in known), "one asked again")
