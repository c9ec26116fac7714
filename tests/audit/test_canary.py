"""A canary secret, put everywhere a secret can be put, is nowhere afterwards: not in the files of the database, the
spool, the logs at debug level, the call log, the exports or the pages."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import os
import secrets
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client, override_settings

from audit import recorder
from audit.export import rows
from audit.models import Action, Call
from audit.queries.search import CallSearch
from audit.redaction import redactor
from audit.types import Caller
from audit.writing import spool
from catalog.calls import call_tool
from catalog.errors import InvalidArguments, UnknownTool
from catalog.functions import Context, tool
from catalog.functions.content import ToolError
from tests import factories
from tests.audit.stores import Cluster
from tests.audit_log import replace_audit_log
from tests.catalog.pipeline import RecordingChannel, run_in_database
from tests.polling import wait_until, wait_until_async
from tests.real_servers import ROOT

pytestmark = pytest.mark.django_db(transaction=True)

CONFIGURED = "canary-CONFIGURED-8271-value"
WRITE_ONLY = "canary-WRITEONLY-5512-value"
BY_NAME = "canary-BYNAME-9934-value"
TOKEN = "thp_" + "canaryTOKEN-7_" * 3 + "x"
logger = logging.getLogger("tests.canary")
SCHEMA = {
    "type": "object",
    "properties": {
        "mode": {"enum": ["ok", "error", "crash", "wait"]},
        "note": {},
        "key": {"$ref": "#/$defs/key"},
        "headers": {"type": "object"},
        "count": {"type": "integer"},
    },
    "$defs": {"key": {"type": "string", "writeOnly": True, "maxLength": 60}},
}
GATE: dict[str, asyncio.Event] = {}


@tool("canary_leak")
async def leak(
    ctx: Context, mode: str = "ok", note: Any = None, key: str = "", headers: Any = None, count: int = 0
) -> Any:
    """Give everything away that it was given."""
    everything = f"{note} {key} {headers} {TOKEN}"
    logger.debug("called with %s", [CONFIGURED, TOKEN])
    await ctx.log("info", everything)
    if mode == "error":
        raise ToolError(f"cannot use {everything}")
    if mode == "crash":
        raise RuntimeError(f"crashed with {CONFIGURED}")
    if mode == "wait":
        await GATE["canary"].wait()
    return {"echo": everything, "password": key, "nested": [{"text": json.dumps({"again": everything})}]}


def arguments(mode: str) -> dict[str, Any]:
    encoded = base64.b64encode(f"user:{CONFIGURED}".encode()).decode()
    return {
        "mode": mode,
        "key": WRITE_ONLY,
        "headers": {"Authorization": f"Bearer {BY_NAME}", "x-url": f"https://x/?k={quote(CONFIGURED)}", CONFIGURED: 1},
        "note": [CONFIGURED, encoded, json.dumps({"api_key": BY_NAME, "a": CONFIGURED}), {"deep": [TOKEN, WRITE_ONLY]}],
    }


def caller(user: Any) -> Caller:
    return Caller(factories.credential(user), "http", "2025-11-25", "192.0.2.7", f"client {CONFIGURED}", f"1.0 {TOKEN}")


def publish(user: Any) -> None:
    factories.grant(
        user,
        factories.make_tool(
            "canary_leak", function="canary_leak", description="Leaks.", input_schema=SCHEMA, timeout=300
        ),
    )


def assert_clean(text: bytes | str, where: str) -> None:
    data = text if isinstance(text, bytes) else text.encode()
    encoded = base64.b64encode(CONFIGURED.encode())[4:-4]
    for canary in (CONFIGURED, WRITE_ONLY, BY_NAME, TOKEN):
        assert canary.encode() not in data, f"{canary} is in {where}"
        assert quote(canary).encode() not in data, where
    assert encoded not in data, where
    assert base64.b64encode(b"user:" + CONFIGURED.encode())[8:-8] not in data, where


def find_lasting_locks() -> set[tuple[str, str, str, str]]:
    """Return the locks that this process holds on the files of an SQLite database as long as it has them open.

    Those are the shared lock of the database, and the lock of the "-shm" file that says it is in use, at byte 128
    (https://sqlite.org/walformat.html). Readers and writers of other threads take and release locks beside them at any
    time. A line is "1: POSIX  ADVISORY  READ PID 08:01:INODE START END".
    """
    if connection.vendor != "sqlite":
        return set()
    path = str(connection.settings_dict["NAME"])
    inodes = {str(os.stat(path).st_ino): "database", str(os.stat(f"{path}-shm").st_ino): "shm"}
    found = set()
    for line in Path("/proc/locks").read_text().splitlines():
        if "->" in line:
            continue
        _number, _class, _mode, kind, pid, place, start, end = line.split()
        file = inodes.get(place.rpartition(":")[2])
        if pid == str(os.getpid()) and (file == "database" or (file == "shm" and start == "128")):
            found.add((file, kind, start, end))
    return found


def read_database_files() -> dict[str, bytes]:
    """All of them, journals included; of PostgreSQL also a dump, in which no value is compressed or cut in two."""
    if connection.vendor == "sqlite":
        path = Path(str(connection.settings_dict["NAME"]))
        # By another process: closing one of these files in this one would drop the locks of its open connections
        # (fcntl(2)), and the next process to open the database would take away the journal that they write to.
        return {
            name.name: subprocess.run(["cat", name], check=True, capture_output=True).stdout
            for name in path.parent.glob(f"{path.name}*")
        }
    with connection.cursor() as cursor:
        cursor.execute("CHECKPOINT")
        cursor.execute("SHOW data_directory")
        folder = Path(cursor.fetchone()[0])
        cursor.execute("SELECT current_database(), oid FROM pg_database WHERE datname = current_database()")
        name, oid = cursor.fetchone()
        cursor.execute("SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = 'public'")
        tables = [row[0] for row in cursor.fetchall()]
        dump = {}
        for table in tables:
            cursor.execute(f"SELECT t::text FROM {table} AS t")
            dump[table] = "\n".join(row[0] for row in cursor.fetchall()).encode()
    assert b"redacted" in dump["audit_call"] and name.startswith("test_")
    folders = [folder / "base" / str(oid), folder / "pg_wal"]
    found = wait_until(lambda: _read(folders), what="files that stay where they are") or {}
    found["log"] = (folder.parent / "log").read_bytes()
    assert any(b"canary_leak" in data for path, data in found.items() if path.startswith("0000"))
    return dump | found


def _read(folders: list[Path]) -> dict[str, bytes] | None:
    """The files in the folders; None when the server took one of them away or renamed it meanwhile."""
    try:
        return {path.name: path.read_bytes() for folder in folders for path in folder.iterdir() if path.is_file()}
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def block_writes() -> Iterator[None]:
    """Somebody else holds what the audit log needs; reading goes on."""
    if connection.vendor == "sqlite":
        lock: Any = sqlite3.connect(str(connection.settings_dict["NAME"]), isolation_level=None, timeout=120)
        lock.execute("BEGIN IMMEDIATE")
    else:
        lock = psycopg.connect(**{**connection.get_connection_params(), "cursor_factory": None, "context": None})
        lock.execute("LOCK TABLE audit_call IN EXCLUSIVE MODE")
    try:
        with override_settings(RECORD_SECONDS=3.0):
            yield
    finally:
        lock.execute("ROLLBACK")
        lock.close()


@pytest.fixture
def log(tmp_path):
    handler = logging.FileHandler(tmp_path / "debug.log")
    handler.addFilter(redactor.LogFilter())
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield tmp_path / "debug.log"
    root.setLevel(level)
    root.removeHandler(handler)
    handler.close()


@pytest.fixture
def call_log(tmp_path):
    with replace_audit_log(str(tmp_path / "calls.log")):
        yield


async def test_a_canary_put_everywhere_is_nowhere(settings, tmp_path, log, call_log, alice):
    settings.REDACT_VALUES = [CONFIGURED]
    await run_in_database(publish, alice)
    who, channel = caller(alice), RecordingChannel()
    channel.request_id = f"id-{CONFIGURED}"

    async def call(name: str, mode: str, **more: Any) -> Any:
        return await call_tool.call_tool(who, name, arguments(mode) | more, channel)

    for mode in ("ok", "error", "crash"):
        await call("canary_leak", mode)
    with pytest.raises(InvalidArguments):
        await call("canary_leak", "ok", count=CONFIGURED)
    with pytest.raises(InvalidArguments):
        await call("canary_leak", "ok", key=WRITE_ONLY * 5, note=WRITE_ONLY * 5)
    with pytest.raises(UnknownTool):  # no schema says what is secret there
        await call_tool.call_tool(who, f"tool_{CONFIGURED}", {"note": CONFIGURED, "password": BY_NAME}, channel)
    with pytest.raises(UnknownTool):
        await call_tool.call_tool(
            caller(await User.objects.acreate(username="eve")), "canary_leak", arguments("ok"), channel
        )
    await _finish_while_locked(call)
    logger.error("failed with %s and %s", CONFIGURED, TOKEN)
    await recorder.stop(60)
    assert await Call.objects.acount() == 8
    await sync_to_async(_search_everywhere)(tmp_path, log)


@pytest.mark.postgres
def test_a_canary_is_nowhere_on_postgresql_either(cluster: Cluster) -> None:
    """The test above, in a process of its own whose database is on a server whose every file can be read."""
    command = ["-m", "pytest", f"{__file__}::{test_a_canary_put_everywhere_is_nowhere.__name__}", "-n", "0"]
    # What spreads these tests over processes is not for the one in there.
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, *command, "-p", "no:cacheprovider", "--no-migrations", "--reuse-db"],
        env={**plain, "TOOLHUB_TEST_DATABASE_URL": cluster.url(f"canary_{secrets.token_hex(4)}")},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=550,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


async def _finish_while_locked(call: Any) -> None:
    """The outcome of a running call goes to the spool."""
    GATE["canary"] = asyncio.Event()
    running = asyncio.create_task(call("canary_leak", "wait"))
    assert await wait_until_async(lambda: Call.objects.filter(outcome="running").aexists(), 60)
    with block_writes():
        GATE["canary"].set()

        def spooled() -> bytes:
            return b"".join(path.read_bytes() for path in spool.folder().glob("*"))

        await wait_until_async(lambda: spooled().endswith(b"\n"), 60)
        text = spooled()
        assert b"redacted" in text
        assert_clean(text, "the spool")
    await running


def _search_everywhere(tmp_path: Path, log: Path) -> None:
    root = User.objects.create_superuser("root")
    client = Client()
    client.force_login(root)
    found = 0
    for row in Call.objects.all():
        assert_clean(client.get(f"/admin/audit/call/{row.pk}/change/").content, "the detail")
        found += row.arguments.count("redacted") + row.result.count("redacted") + row.detail.count("redacted")
    assert found >= 20
    for address in ("/admin/audit/call/", "/admin/audit/action/", f"/admin/audit/call/?q={CONFIGURED[:12]}"):
        assert_clean(client.get(address).content, address)
    log_configuration_actions(root)
    for kind in rows.FORMATS:
        assert_clean(b"".join(rows.chunks(CallSearch(), kind)), f"the {kind} export")
    shipper = recorder.audit_log().shipper
    assert shipper is not None
    assert shipper.flush(60)
    written = (tmp_path / "calls.log").read_bytes()
    assert written.count(b"\n") == 8
    assert_clean(written, "the call log")
    lines = log.read_bytes()
    assert b"called with" in lines and b"redacted" in lines
    assert_clean(lines, "the log")
    held = find_lasting_locks()
    assert {lock[0] for lock in held} == ({"database", "shm"} if connection.vendor == "sqlite" else set())
    for name, data in read_database_files().items():
        assert_clean(data, name)
    assert find_lasting_locks() == held
    for path in spool.folder().glob("*"):
        assert_clean(path.read_bytes(), path.name)


def log_configuration_actions(root: User) -> None:
    """Secrets that administrators put into what they manage."""
    from audit.actions import log as actions_log

    actions_log.record(
        "changed", "upstream", f"{CONFIGURED} {TOKEN}", {"env": {"API_KEY": BY_NAME}}, {"note": CONFIGURED}
    )
    row = Action.objects.first()
    assert row is not None and row.before and row.after
