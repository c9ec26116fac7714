"""Pages leave no connection to PostgreSQL behind: each request has a thread of its own, which nobody uses again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.polling import wait_until
from tests.real_servers import POSTGRES, Hub

pytestmark = pytest.mark.postgres
PAGES, AT_ONCE = 60, 8


def count_connections(hub: Hub) -> int:
    with psycopg.connect(f"{POSTGRES}/postgres") as connection:
        rows = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = %s", [hub._database])
        found = rows.fetchone()
    return int(found[0]) if found is not None else 0


def test_pages_leave_no_connection_to_the_database_open() -> None:
    with Hub(postgres=True) as hub:
        hub.get("/sign-in/")
        before = count_connections(hub)
        with ThreadPoolExecutor(AT_ONCE) as threads:
            assert {status for status, _body in threads.map(hub.get, ["/sign-in/"] * PAGES)} == {200}
        # Jobs of the server come and go; what pages left would be here until a garbage collection, one each.
        wait_until(lambda: count_connections(hub) <= before + AT_ONCE, 20, "connections that are closed")
