from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from threading import Barrier, Thread
from uuid import UUID

import pytest
from django.core.management import call_command
from django.db import connections

from audit import recorder
from audit.format import timestamps
from audit.integrity import verification
from audit.models import Call, Writer
from audit.types import Ending
from audit.writing import leases, recovery, spool
from audit.writing.entries import FINISH, Entry
from audit.writing.writer import Writer as Writer_
from tests.audit.attempts import call, ending, intent
from tests.audit.stores import AuditStore
from tests.polling import wait_until, wait_until_async

HOLDER = """
import asyncio, sys, django
django.setup()
from django.conf import settings
from audit import recorder
from tests.audit.attempts import intent, ending
settings.RECORD_SECONDS = 30.0
async def main():
    begun = await recorder.begin(intent("held"))
    print(begun.id.hex, flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await recorder.finish(begun, ending())
    print("finished", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
asyncio.run(main())
"""


@contextmanager
def hold_call(store: AuditStore) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process with a call under way."""
    environment = {**store.environment(), "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def closecalls() -> str:
    out = StringIO()
    call_command("closecalls", stdout=out)
    return out.getvalue()


def test_a_call_of_a_process_that_lives_is_never_closed(audit_store: AuditStore) -> None:
    with hold_call(audit_store) as (process, id):
        assert closecalls() == "0 calls became unknown.\n"
        assert audit_store.outcomes()[id] == "running"
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "finished\n"
    assert closecalls() == "0 calls became unknown.\n"
    assert audit_store.outcomes()[id] == "ok"
    assert verification.run(store=False).problems == []


def test_a_call_of_a_process_that_was_killed_becomes_unknown_by_itself(audit_store: AuditStore) -> None:
    with hold_call(audit_store) as (process, id):
        asyncio.run(call("in another process"))
        process.kill()
        process.wait()
        wait_until(lambda: audit_store.outcomes()[id] == "unknown", 60)
    assert audit_store.sql("SELECT kind FROM audit_link WHERE kind = 'closed'") == [("closed",)]
    recorder.stop_now(60)
    assert audit_store.sql("SELECT count(*) FROM audit_writer WHERE ended IS NULL") == [(0,)]
    assert verification.run(store=False).problems == []


@pytest.mark.parametrize("edit", ["UPDATE audit_writer SET ended = started", "DELETE FROM audit_writer"])
def test_a_process_that_lives_keeps_its_calls_whatever_its_row_says(audit_store: AuditStore, edit: str) -> None:
    with hold_call(audit_store) as (process, id):
        audit_store.sql(edit)
        assert closecalls().startswith("0 calls became unknown.")
        assert audit_store.outcomes()[id] == "running"
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "finished\n"
    assert audit_store.outcomes()[id] == "ok"


def test_rows_that_no_process_wrote_are_left_and_the_others_closed(sqlite_store: AuditStore) -> None:
    """SQLite takes any id and any number. Verification names them."""
    with hold_call(sqlite_store) as (process, id):
        process.kill()
        process.wait()
        names = ", ".join(str(field.column) for field in Call._meta.fields if field.name not in {"id", "writer"})
        for other in ("upper(id)", "'{' || id || '}'", "x'ff'", "'x'"):
            for writer in ("writer", "'x'"):
                sqlite_store.sql(
                    f"INSERT INTO audit_call (id, writer, {names}) SELECT {other} || {writer}, {writer}, {names}"
                    f" FROM audit_call WHERE id = '{id}'"
                )
        assert closecalls() == "1 calls became unknown.\n"
    assert sqlite_store.sql(f"SELECT outcome FROM audit_call WHERE id = '{id}'") == [("unknown",)]


def test_a_process_of_another_machine_is_dead_when_its_heartbeat_stands_still(
    audit_store: AuditStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(begin_elsewhere(audit_store))
    id = next(iter(audit_store.outcomes()))
    assert "Add --wait to find out whether they still run" in closecalls()
    assert audit_store.outcomes()[id] == "running"
    monkeypatch.setattr(recovery, "LEASE_SECONDS", 1.0)
    monkeypatch.setattr("audit.management.commands.closecalls.LEASE_SECONDS", 1.0)
    out = StringIO()
    call_command("closecalls", wait=True, stdout=out)
    assert out.getvalue() == "1 calls became unknown.\n"
    assert audit_store.outcomes()[id] == "unknown"


def test_an_outage_is_not_taken_for_the_death_of_another_machines_process(
    audit_store: AuditStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the database was away its heartbeat could not be written either: the watch begins anew."""
    asyncio.run(begin_elsewhere(audit_store))
    monkeypatch.setattr(recovery, "LEASE_SECONDS", 0.0)
    closed = []

    def watch(writer: Writer_) -> None:
        watching = recovery.Recovery()
        closed.append(watching.run(writer))
        writer.available_since = time.monotonic()  # as when the database comes back
        closed.append(watching.run(writer))
        assert set(audit_store.outcomes().values()) == {"running"}
        closed.append(watching.run(writer))

    recorder.audit_log().run_once(watch)
    assert closed == [0, 0, 1]


def test_calls_whose_outcome_may_still_be_in_a_spool_do_not_become_unknown(
    audit_store: AuditStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(begin_elsewhere(audit_store))
    monkeypatch.setattr(recovery, "LEASE_SECONDS", 0.0)
    id = next(iter(audit_store.outcomes()))
    end = Entry(FINISH, UUID(id), None, Ending("ok"), timestamps.now_ms(), 0.0)
    end.duration = 5
    kept = spool.Spool(101)
    kept.append([end])

    def watch(writer: Writer_) -> None:
        watching = recovery.Recovery()
        assert [watching.run(writer) for _ in range(3)] == [0, 0, 0]
        assert audit_store.outcomes()[id] == "running"
        os.close(kept._descriptor or 0)  # its process is gone, and its file is there
        watching.run(writer)

    recorder.audit_log().run_once(watch)
    assert audit_store.outcomes()[id] == "ok"


async def begin_elsewhere(store: AuditStore) -> None:
    await recorder.begin(intent())
    writer = recorder.audit_log().writer
    assert writer is not None
    # Its last act is no stop: the lease is not given back.
    writer.queue.open.clear()
    await recorder.stop(60)
    store.sql("UPDATE audit_call SET outcome = 'running'")
    store.sql("UPDATE audit_writer SET ended = NULL, host = 'another machine' WHERE id > 100")


def test_a_chain_that_vanished_beneath_a_process_is_replaced(sqlite_store: AuditStore) -> None:
    """As in a database that was restored while the server ran. What is lost is named: the process remembers it."""

    async def scenario() -> None:
        await call()
        writer = recorder.audit_log().writer
        assert writer is not None
        before = writer.chain
        for table in ("call", "link", "writer", "checkpoint"):
            sqlite_store.sql(f"DELETE FROM audit_{table}")
        # The next heartbeat finds that the writer is gone; it may have come already.
        writer._next_heartbeat = 0.0
        writer.queue.wake_writer()
        await wait_until_async(lambda: writer.chain is not before)
        await call()

    asyncio.run(scenario())
    recorder.stop_now(60)
    assert str(verification.run(store=False).first).startswith("link 101:3: missing: the newest entries were deleted")
    assert list(Writer.objects.values_list("id", flat=True)) == [102]


async def test_a_child_process_shares_nothing_with_its_parent(sqlite_store: AuditStore) -> None:
    await call()
    begun = await recorder.begin(intent("the parent's"))
    child = os.fork()
    if child == 0:
        os._exit(0 if recorder.audit_log().writer is None and recorder.running() == 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    await recorder.finish(begun, ending())
    assert set(sqlite_store.outcomes().values()) == {"ok"}


def test_live_and_dead_processes_are_told_apart() -> None:
    process = subprocess.Popen(["sleep", "600"])
    try:
        since = leases.process_start(process.pid)
        assert leases.is_running(process.pid, since)
        assert not leases.is_running(process.pid, since - 1), "another process has its id"
    finally:
        process.kill()
    wait_until(
        lambda: not leases.is_running(process.pid, since), 30, "a process that nobody waited for is dead as well"
    )
    process.wait()
    assert not leases.is_running(process.pid, since)


@pytest.mark.postgres
def test_processes_that_start_together_get_chains_of_their_own(postgres_store: AuditStore) -> None:
    together, chains = Barrier(6, timeout=60), list[int]()

    def start() -> None:
        together.wait()
        try:
            recorder.audit_log().run_once(lambda writer: chains.append(writer.chain.writer if writer.chain else 0))
        finally:
            connections["default"].close()

    threads = [Thread(target=start) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(set(chains)) == 6
    assert verification.run(store=False).problems == []
