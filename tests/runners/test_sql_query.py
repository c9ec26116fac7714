"""Read-only statements on named databases: nothing is written, values are never SQL, and answers are bounded."""

from __future__ import annotations

import asyncio
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from catalog import threads
from catalog.errors import ToolError
from catalog.functions.results import Produced
from catalog.runners import factory, registry
from catalog.runners.sql_query import read_query, reader, statements
from catalog.runners.sql_query.readers import MAX_IDLE, SqliteReaders
from tests.conftest import missing
from tests.polling import wait_until_async
from tests.process import replace_part
from tests.runners.harness import produce_result
from tests.runners.payloads import LITERAL
from toolhub.egress import NameResolver

SERVER = os.environ.get("TOOLHUB_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432")
ROWS = [(1, "north", "lamp", 12), (2, "south", "chair", 3), (3, "north", "desk", 1)]
TABLE = "CREATE TABLE sales (id INTEGER PRIMARY KEY, region TEXT, product TEXT, units INTEGER)"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is busy with other tests must not look like one that is away."""
    monkeypatch.setattr(read_query, "CONNECT_SECONDS", 60)


@pytest.fixture
def sqlite(tmp_path: Path, settings: Any) -> Path:
    file = tmp_path / "sales 1.db"
    with sqlite3.connect(file) as connection:
        connection.execute(TABLE)
        connection.executemany("INSERT INTO sales VALUES (?, ?, ?, ?)", ROWS)
    connection.close()
    settings.SQL_DATABASES = {"sales": f"sqlite:///{file}".replace(" ", "%20")}
    return file


@pytest.fixture
def postgres(settings: Any) -> Iterator[str]:
    name = f"toolhub_sql_{secrets.token_hex(6)}"
    try:
        admin = psycopg.connect(f"{SERVER}/postgres", autocommit=True, connect_timeout=30)
    except psycopg.OperationalError as error:
        missing("postgres", str(error))
    with admin:
        admin.execute(f"CREATE DATABASE {name}".encode())
        try:
            with psycopg.connect(f"{SERVER}/{name}") as connection:
                connection.execute(TABLE.encode())
                connection.cursor().executemany("INSERT INTO sales VALUES (%s, %s, %s, %s)", ROWS)
            settings.SQL_DATABASES = {"sales": f"{SERVER}/{name}"}
            yield f"{SERVER}/{name}"
        finally:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


async def query(statement: str, arguments: dict[str, Any] | None = None, **more: Any) -> Produced:
    settings = {"database": "sales", "statement": statement, "timeout": 120, **more}
    return await produce_result("sql_query", settings, arguments or {})


REFUSED = [
    "DELETE FROM sales",
    "INSERT INTO sales VALUES (9, 'x', 'y', 1)",
    "UPDATE sales SET units = 0",
    "DROP TABLE sales",
    "PRAGMA query_only = 0",
    "ATTACH 'x.db' AS x",
    "SELECT 1; DELETE FROM sales",
    "SELECT 1; SELECT 2",
    "WITH x AS (DELETE FROM sales RETURNING *) SELECT * FROM x",
    "WITH x AS (SELECT 1) INSERT INTO sales SELECT 9, 'a', 'b', 1",
    "SELECT * INTO other FROM sales",
    "/* SELECT */ DELETE FROM sales",
    "-- SELECT\nDELETE FROM sales",
    "COPY sales TO '/tmp/x'",
    "SET default_transaction_read_only = off",
    "SELECT 'open",
    "EXPLAIN SELECT 1",
    "",
]


@pytest.mark.parametrize("statement", REFUSED)
def test_a_statement_that_does_more_than_read_is_refused_when_it_is_saved(statement: str) -> None:
    with pytest.raises(ValueError, match="statement"):
        registry.parse_settings("sql_query", {"database": "sales", "statement": statement})


def test_words_and_signs_inside_of_texts_names_and_comments_mean_nothing() -> None:
    found = statements.names(
        "SELECT ':a', \":b\", x::text, replace(y, 'DELETE', :c), t.set -- :d; DROP\n FROM t /* :e; */ WHERE z = :f;"
    )
    assert found == ["c", "f"]
    assert statements.names("SELECT $$ :a; delete $$, $q$ ' $q$, ARRAY['x', :b]") == ["b"]
    assert (
        statements.convert_for_psycopg("SELECT '50%' WHERE a LIKE :p || '%';")
        == "SELECT '50%%' WHERE a LIKE %(p)s || '%%'"
    )


def test_a_database_that_is_not_named_in_the_settings_is_refused(settings: Any) -> None:
    settings.SQL_DATABASES = {}
    with pytest.raises(LookupError, match="no database sales"):
        factory.prepare("sql_query", {"database": "sales", "statement": "SELECT 1"})


async def test_rows_come_as_data_and_as_a_table(sqlite: Path) -> None:
    result = await query(
        "SELECT product, units, 1.5 AS x, NULL AS n FROM sales WHERE region = :r ORDER BY id", {"r": "north"}
    )
    assert result.structured == {
        "columns": ["product", "units", "x", "n"],
        "rows": [
            {"product": "lamp", "units": 12, "x": 1.5, "n": None},
            {"product": "desk", "units": 1, "x": 1.5, "n": None},
        ],
        "row_count": 2,
        "truncated": False,
    }
    assert result.content[0]["text"].splitlines()[2] == "lamp | 12 | 1.5 | "
    assert (await query("SELECT 1 AS a, 2 AS a")).structured["rows"] == [{"a": 1, "a_2": 2}]
    assert (await query("SELECT * FROM sales WHERE id = :missing")).content[0]["text"] == "No rows."


async def test_payloads_are_values_and_never_sql(sqlite: Path) -> None:
    hostile = [
        *LITERAL,
        "' OR 1=1 --",
        "'; DROP TABLE sales; --",
        '" OR ""="',
        "1) OR (1=1",
        "\\' OR 1=1",
        ":r",
        "%(r)s",
    ]
    for payload in hostile:
        result = await query("SELECT :r AS said, count(*) AS n FROM sales WHERE region = :r", {"r": payload[:1000]})
        row = result.structured["rows"][0]
        assert row["n"] == 0
    with sqlite3.connect(sqlite) as connection:
        assert connection.execute("SELECT count(*) FROM sales").fetchone() == (3,)
    connection.close()


async def test_an_answer_that_is_cut_says_so(sqlite: Path) -> None:
    result = await query("SELECT * FROM sales", max_rows=2)
    assert result.structured["truncated"] and len(result.structured["rows"]) == 2
    assert "truncated after 2 rows" in result.content[0]["text"]
    result = await query("SELECT * FROM sales", max_bytes=100)
    assert "truncated after 100 bytes" in result.content[0]["text"]


async def test_time_is_bounded(sqlite: Path) -> None:
    with pytest.raises(ToolError, match=r"longer than 0.3 s"):
        await query(HEAVY["endless"], timeout=0.3)


# Each runs for minutes, or takes gigabytes, inside of one instruction of SQLite, where nothing can interrupt it.
HEAVY = {
    "printf": "SELECT printf('%.*c', 2000000000, 'x')",
    "format": "SELECT format('%.*c', 2000000000, 'x')",
    "printf of an argument": "SELECT printf('%.*c', :n, 'x')",
    "instr": "SELECT instr(hex(zeroblob(4000000)), hex(zeroblob(2000000)) || '1')",
    "endless": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
    "endless and distinct": "WITH RECURSIVE n(i) AS (SELECT 1 UNION SELECT i + 1 FROM n) SELECT count(*) FROM n",
    "sorted": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n ORDER BY random()",
    "group_concat": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
    "SELECT group_concat(hex(zeroblob(100000))) FROM n",
    "json": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT json_group_array(i) FROM n",
    "json objects": "WITH RECURSIVE n(i, j) AS (SELECT 1, '{}' UNION ALL "
    "SELECT i + 1, json_set(j, '$.a' || i, zeroblob(0) || hex(randomblob(10000))) FROM n) SELECT max(length(j)) FROM n",
    "many large values": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1000) "
    "SELECT randomblob(16000000) AS b FROM n ORDER BY b",
    "zeroblob": "SELECT zeroblob(2000000000)",
    "randomblob": "SELECT randomblob(2000000000)",
    "replace": "SELECT replace(hex(zeroblob(4000000)), '0', hex(zeroblob(100000)))",
}


@pytest.mark.parametrize("name", HEAVY)
async def test_no_statement_outlives_its_bounds(sqlite: Path, name: str) -> None:
    began = time.monotonic()
    with pytest.raises(ToolError, match=r"longer than 1 s|more memory|too big|rejected"):
        await query(HEAVY[name], {"n": 2_000_000_000}, timeout=1)
    # Its second, half a second to give in, and the start of a process on a busy machine.
    assert time.monotonic() - began < 6
    assert (await query("SELECT count(*) AS n FROM sales")).structured["rows"] == [{"n": 3}]


def measure_memory(pid: int) -> int:
    """The address space of a process in bytes, and so more than the memory that it uses."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * os.sysconf("SC_PAGESIZE")


async def test_a_process_that_reads_has_bounds_of_its_own_and_nothing_of_the_hub(
    sqlite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = replace_part(monkeypatch, SqliteReaders())
    monkeypatch.setenv("TOOLHUB_ENCRYPTION_KEYS", "hunter2")
    await query("SELECT 1")
    (idle,) = readers._idle
    assert measure_memory(idle.pid) < reader.MAX_MEMORY_BYTES
    environment = Path(f"/proc/{idle.pid}/environ").read_bytes()
    assert {item.partition(b"=")[0] for item in environment.split(b"\0") if item} <= {b"TMPDIR", b"SQLITE_TMPDIR"}
    limits = Path(f"/proc/{idle.pid}/limits").read_text()
    for name, most in (
        ("Max address space", reader.MAX_MEMORY_BYTES),
        ("Max file size", reader.MAX_TEMPORARY_FILE_BYTES),
        ("Max core file size", 0),
    ):
        line = next(line for line in limits.splitlines() if line.startswith(name))
        assert line.removeprefix(name).split()[:2] == [str(most)] * 2
    assert len(os.listdir(f"/proc/{idle.pid}/fd")) <= 4
    readers.close()


async def test_a_process_is_used_again_and_never_after_a_query_that_went_wrong(
    sqlite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = replace_part(monkeypatch, SqliteReaders())
    for statement in ("SELECT 1", "SELECT no_such_function()", "SELECT * FROM sales"):
        with suppress(ToolError):
            await query(statement)
    (idle,) = readers._idle
    kept = idle.pid
    with pytest.raises(ToolError, match="longer than"):
        await query(HEAVY["printf"], timeout=0.2)
    assert readers._idle == []
    assert not Path(f"/proc/{kept}").exists()
    # It holds on to the memory of large values: the next query gets another one.
    await query("SELECT length(hex(zeroblob(8000000)) || 1) AS n, hex(zeroblob(8000000)) AS v", max_bytes=16_000_000)
    assert readers._idle == []
    # One that died while it was idle is no trouble.
    await query("SELECT 1")
    readers._idle[0].kill()
    assert (await query("SELECT 1 AS n")).structured["rows"] == [{"n": 1}]
    await asyncio.gather(*(query("SELECT 1") for _ in range(20)))
    assert 1 <= len(readers._idle) <= MAX_IDLE
    readers.close()
    assert readers._idle == []


async def test_values_that_sqlite_cannot_take_are_an_error(sqlite: Path) -> None:
    for value in (2**70, "\ud800"):
        with pytest.raises(ToolError, match="rejected the query"):
            await query("SELECT :v AS v", {"v": value})
    result = await query("SELECT :v AS v", {"v": {"a": [1, "\u4e2d\n"]}})
    assert result.structured["rows"] == [{"v": '{"a": [1, "\u4e2d\\n"]}'}]


async def test_a_cancelled_query_is_ended(sqlite: Path) -> None:
    before = threads.sqlite().taken
    task = asyncio.ensure_future(query(HEAVY["printf"], timeout=500))
    await wait_until_async(lambda: threads.sqlite().taken > before)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await wait_until_async(lambda: threads.sqlite().taken == before, 10, "the thread is free again")


@pytest.mark.parametrize(
    "statement",
    ["SELECT load_extension('x')", "SELECT writefile('x', 'y')", "SELECT * FROM sales, pragma_table_list"],
)
async def test_sqlite_itself_refuses_statements_that_the_check_misses(sqlite: Path, statement: str) -> None:
    with pytest.raises(ToolError):
        await query(statement)


async def test_a_write_that_got_past_the_check_is_refused_by_sqlite(
    sqlite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statements, "names", lambda statement: [])
    for statement in ("DELETE FROM sales", "CREATE TABLE x (a)", "PRAGMA query_only=0", "ATTACH 'x' AS x", "VACUUM"):
        with pytest.raises(ToolError, match=r"tried to make changes|rejected"):
            await query(statement)
    with sqlite3.connect(sqlite) as connection:
        assert connection.execute("SELECT count(*) FROM sales").fetchone() == (3,)
    connection.close()


async def test_a_database_that_is_away_is_a_sentence_without_its_address(settings: Any, tmp_path: Path) -> None:
    for address in (f"sqlite:///{tmp_path}/none.db", "postgresql://u:hunter2@127.0.0.1:1/x"):
        settings.SQL_DATABASES = {"sales": address}
        with pytest.raises(ToolError, match="cannot be") as caught:
            await query("SELECT 1")
        assert "hunter2" not in str(caught.value) and str(tmp_path) not in str(caught.value)
    assert not (tmp_path / "none.db").exists()


@pytest.mark.postgres
async def test_postgresql_reads_bounds_interrupts_and_refuses_to_write(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    statement = "SELECT product, units::numeric AS u FROM sales WHERE region = :r AND product LIKE '%' ORDER BY id"
    result = await query(statement, {"r": "north"})
    assert result.structured["rows"] == [{"product": "lamp", "u": "12"}, {"product": "desk", "u": "1"}]
    for payload in ("' OR 1=1 --", "'; DROP TABLE sales; --", "%s", ":r"):
        counted = await query("SELECT count(*) AS n FROM sales WHERE region = :r", {"r": payload})
        assert counted.structured["rows"] == [{"n": 0}]
    cut = await query("SELECT generate_series(1, 1000000000) AS n", max_rows=5)
    assert "truncated after 5 rows" in cut.content[0]["text"]
    with pytest.raises(ToolError, match=r"longer than 0.5 s"):
        await query("SELECT pg_sleep(100)", timeout=0.5)
    for crafted in ("SELECT nextval('s')", "SELECT setval('s', 5)"):
        with psycopg.connect(postgres) as connection:
            connection.execute("CREATE SEQUENCE IF NOT EXISTS s")
        with pytest.raises(ToolError, match="read-only"):
            await query(crafted)
    monkeypatch.setattr(statements, "names", lambda statement: [])
    for crafted in (
        "DELETE FROM sales",
        "WITH x AS (DELETE FROM sales RETURNING 1) SELECT * FROM x",
        "DROP TABLE sales",
    ):
        with pytest.raises(ToolError, match="rejected"):
            await query(crafted)
    task = asyncio.ensure_future(query("SELECT pg_sleep(500)", timeout=500))

    def sleeping() -> bool:
        active = "application_name = 'toolhub sql_query' AND state = 'active' AND datname = current_database()"
        with psycopg.connect(postgres) as connection:
            return connection.execute(f"SELECT 1 FROM pg_stat_activity WHERE {active}".encode()).fetchone() is not None

    await wait_until_async(lambda: asyncio.to_thread(sleeping), 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    async def gone() -> bool:
        return not await asyncio.to_thread(sleeping)

    await wait_until_async(gone, 60, "the server stopped the query")
    with psycopg.connect(postgres) as connection:
        assert connection.execute("SELECT count(*) FROM sales").fetchone() == (3,)


@pytest.mark.postgres
async def test_the_name_of_a_postgresql_server_is_looked_up_like_every_other_name(
    postgres: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libpq's own look-up would not find this name, and would hold a thread of the tools without a time limit."""
    replace_part(monkeypatch, NameResolver(lambda host: ["127.0.0.1"] if host == "db.test" else []))
    host = urlsplit(postgres).hostname or ""
    for address in (postgres.replace(host, "db.test"), postgres.replace(host, "away.test,db.test")):
        settings.SQL_DATABASES = {"sales": address}
        assert (await query("SELECT count(*) AS n FROM sales")).structured["rows"] == [{"n": 3}]


async def test_a_server_whose_dns_hangs_takes_no_thread_of_the_tools(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    hanging = replace_part(monkeypatch, NameResolver(lambda host: [str(release.wait(60))], seconds=0.1))
    settings.SQL_DATABASES = {"sales": "postgresql://u:hunter2@hanging.test/x"}
    before = threads.tools().taken
    try:
        for outcome in await asyncio.gather(*(query("SELECT 1") for _ in range(40)), return_exceptions=True):
            assert str(outcome) == "The database cannot be reached now."
        assert (threads.tools().taken, hanging.running) == (before, 1)
    finally:
        release.set()
