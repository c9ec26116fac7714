"""The database is down, locked, full, hanging, or not durable: real ones, really so."""

from __future__ import annotations

import asyncio
import os
import resource
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from django.test import override_settings

from audit import recorder
from audit.integrity import verification
from audit.writing.spool import path_of
from audit.writing.stores import sqlite
from audit.writing.stores.base import NotDurable
from audit.writing.stores.sqlite import SqliteStore
from tests.audit.attempts import call, ending, intent, wait_until_ready
from tests.audit.stores import AuditStore, Cluster, open_store
from tests.polling import wait_until, wait_until_async

MAX_REFUSAL_SECONDS = 3.0
"""The promise. A stopwatch is the only way to test it; the machine is given a little more."""
SLOW_MACHINE_SECONDS = 4.0
TICK_SECONDS = 0.05
LOCKED_REASONS = ("the database is locked", "the database does not answer")


@contextmanager
def use_production_timeout() -> Iterator[None]:
    """Tests are patient with slow machines; here the guard is as quick as it is for users."""
    with override_settings(RECORD_SECONDS=MAX_REFUSAL_SECONDS):
        yield


async def get_refusal() -> str:
    """The reason why a call is refused now; fails when it is not, or when that takes long."""
    watch = Stopwatch()
    with pytest.raises(recorder.AuditLogUnavailable) as caught:
        await recorder.begin(intent("must_not_run"))
    assert watch.stop() < MAX_REFUSAL_SECONDS + SLOW_MACHINE_SECONDS
    return caught.value.reason


class Stopwatch:
    """How many seconds this process could work: a machine that stood still for a while has not been slow meanwhile."""

    def __init__(self) -> None:
        self._seconds, self._last = 0.0, time.monotonic()
        self._timer = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        now = time.monotonic()
        self._seconds, self._last = self._seconds + min(now - self._last, 4 * TICK_SECONDS), now
        self._timer = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def stop(self) -> float:
        self._timer.cancel()
        return self._seconds


async def wait_until_accepted() -> None:
    await wait_until_ready()
    await call("afterwards")


def assert_nothing_open(store: AuditStore) -> None:
    recorder.stop_now(60)
    outcomes = store.outcomes()
    assert "running" not in outcomes.values()
    ran = [name for (name,) in store.sql("SELECT name FROM audit_call WHERE outcome NOT IN ('refused', 'cancelled')")]
    assert "must_not_run" not in ran
    connections["default"].close()  # its server may be another one now
    assert verification.run(store=False).first == ""


def lock_store(store: AuditStore) -> AbstractContextManager[None]:
    return lock_file(Path(store.url.removeprefix("sqlite:///")))


@contextmanager
def lock_file(path: Path) -> Iterator[None]:
    """Another process holds the write lock of the SQLite file."""
    code = (
        "import sqlite3,sys; c=sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30);"
        "c.execute('BEGIN IMMEDIATE'); print('locked', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        ["python3", "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield
    finally:
        process.communicate()


def test_while_sqlite_is_locked_calls_are_refused_and_outcomes_are_spooled(sqlite_store: AuditStore) -> None:
    async def scenario() -> tuple[str, str]:
        first, second = await recorder.begin(intent()), await recorder.begin(intent())
        with use_production_timeout(), lock_store(sqlite_store):
            reason, _ = await asyncio.gather(get_refusal(), recorder.finish(first, ending()))
            # A slow machine needs so long for the second try that the guard is the first to speak.
            assert reason.removeprefix("calls cannot be logged now: ") in LOCKED_REASONS
            assert await recorder.ready() in LOCKED_REASONS
            # From now on nobody waits, neither for a refusal nor for an outcome.
            await asyncio.gather(*(get_refusal() for _ in range(50)))
            await recorder.finish(second, ending("tool_error"))
            assert set(sqlite_store.outcomes().values()) == {"running"}
            assert len((sqlite_store.folder / "spool").glob("*.jsonl").__next__().read_text().splitlines()) == 2
        await wait_until_accepted()
        return first.id.hex, second.id.hex

    first, second = asyncio.run(scenario())
    assert sqlite_store.outcomes()[first] == "ok"
    assert sqlite_store.outcomes()[second] == "tool_error"
    assert_nothing_open(sqlite_store)
    assert not list((sqlite_store.folder / "spool").iterdir())


@pytest.mark.postgres
def test_while_postgresql_is_stopped_calls_are_refused_and_recovery_needs_no_restart(
    postgres_store: AuditStore, cluster: Cluster
) -> None:
    async def scenario() -> str:
        running = await recorder.begin(intent())
        cluster.stop("immediate")
        try:
            assert "calls cannot be logged now" in await get_refusal()
            assert await recorder.ready() is not None
            await recorder.finish(running, ending())
            await asyncio.gather(*(get_refusal() for _ in range(20)))
        finally:
            cluster.start()
        await wait_until_accepted()
        return running.id.hex

    running = asyncio.run(scenario())
    assert postgres_store.outcomes()[running] == "ok"
    assert_nothing_open(postgres_store)


@pytest.mark.postgres
def test_a_connection_that_was_cut_between_two_calls_refuses_none(postgres_store: AuditStore) -> None:
    async def scenario() -> None:
        await call()
        others = "pid <> pg_backend_pid() AND datname = current_database()"
        postgres_store.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
        await call()

    asyncio.run(scenario())
    assert list(postgres_store.outcomes().values()) == ["ok", "ok"]
    assert_nothing_open(postgres_store)


@pytest.mark.postgres
def test_while_postgresql_hangs_calls_are_refused_and_pending_ones_never_run(
    postgres_store: AuditStore, cluster: Cluster
) -> None:
    async def scenario() -> str:
        running = await recorder.begin(intent())
        with use_production_timeout(), cluster.freeze():
            # All at once: some are in the transaction that hangs, and the others wait behind it.
            await asyncio.gather(*(get_refusal() for _ in range(30)), recorder.finish(running, ending()))
            assert await recorder.ready() == "the database does not answer"
            await asyncio.gather(*(get_refusal() for _ in range(30)))
        await wait_until_accepted()
        return running.id.hex

    running = asyncio.run(scenario())
    assert postgres_store.outcomes()[running] == "ok"
    assert_nothing_open(postgres_store)


@pytest.mark.postgres
def test_a_beginning_whose_commit_was_under_way_is_closed_and_never_ran(
    postgres_store: AuditStore, cluster: Cluster
) -> None:
    """Another session holds a lock, so that the commit is stuck for certain when the caller is refused."""

    async def scenario() -> None:
        await call()
        # The writer's chores wait for that table too, to read it: what writes to it is the transaction of the calls.
        waits = "SELECT 1 FROM pg_locks WHERE NOT granted AND mode = 'RowExclusiveLock'"
        beginning: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def over_or_stuck() -> bool | list[Any]:
            return beginning.done() or postgres_store.sql(waits)

        stuck = False
        while not stuck:  # a slow machine may refuse them before the writer has come to them
            with use_production_timeout(), postgres_store.connection() as other:
                other.execute("BEGIN")
                other.execute("LOCK TABLE audit_link IN ACCESS EXCLUSIVE MODE")
                beginning = asyncio.gather(*(get_refusal() for _ in range(5)))
                stuck = await wait_until_async(over_or_stuck) is not True
                await beginning
                other.execute("ROLLBACK")
            await wait_until_ready()
        await call("afterwards")

    asyncio.run(scenario())
    assert_nothing_open(postgres_store)
    # Those that were in the transaction are logged as refused; the others never came so far.
    outcomes = sorted(postgres_store.outcomes().values())
    assert outcomes[:2] == ["ok", "ok"] and set(outcomes[2:]) == {"refused"}


@pytest.mark.postgres
def test_a_server_that_does_not_sync_is_refused(
    data_folder: Path, cluster: Cluster, postgres_store: AuditStore
) -> None:
    name = postgres_store.sql("SELECT current_database()")[0][0]
    cluster.sql(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    reason = asyncio.run(get_refusal())
    assert reason == "calls cannot be logged now: PostgreSQL must not run with default_transaction_read_only=on"


@pytest.mark.postgres
def test_asynchronous_commits_are_refused(cluster: Cluster, postgres_store: AuditStore) -> None:
    connections.settings["default"]["OPTIONS"]["options"] = "-c synchronous_commit=off"
    assert "must not run with synchronous_commit=off" in asyncio.run(get_refusal())


def test_a_database_in_memory_is_refused() -> None:
    with pytest.raises(NotDurable, match="must keep a write-ahead log in a file"):
        SqliteStore(":memory:")


def test_a_database_without_tables_is_refused_and_used_when_they_are_there(
    sqlite_store: AuditStore, caplog: pytest.LogCaptureFixture
) -> None:
    """The caller hears that the database failed, the log how."""
    sqlite_store.sql("ALTER TABLE audit_writer RENAME TO elsewhere")

    async def scenario() -> None:
        assert await get_refusal() == "calls cannot be logged now: the database failed"
        sqlite_store.sql("ALTER TABLE elsewhere RENAME TO audit_writer")
        await wait_until_accepted()

    asyncio.run(scenario())
    assert "no such table" in caplog.text
    assert_nothing_open(sqlite_store)


def test_on_a_full_disk_calls_are_refused_and_go_on_when_there_is_room(
    sqlite_store: AuditStore, tmp_path: Path
) -> None:
    """A tmpfs of the test's own; where none may be mounted, a limit on the size of files stands in."""
    with mount_small_disk(tmp_path / "disk") as (folder, fill, free), open_store_in(folder) as store:

        async def scenario() -> tuple[str, str]:
            done = await call()
            running = await recorder.begin(intent())
            fill()
            # Large arguments do not fit any more, whatever is left in the last blocks.
            large = '{"a":"' + "x" * 200_000 + '"}'
            with pytest.raises(recorder.AuditLogUnavailable):
                await asyncio.gather(*(recorder.begin(intent("large", large)) for _ in range(100)))
            free()
            await wait_until_accepted()
            await recorder.finish(running, ending())
            return done, running.id.hex

        done, running = asyncio.run(scenario())
        assert store.outcomes()[done] == "ok"
        assert store.outcomes()[running] == "ok"
        recorder.stop_now(60)
        assert verification.run(store=False).first == ""


def test_an_end_that_neither_the_database_nor_the_spool_takes_is_logged_once_there_is_room(
    sqlite_store: AuditStore, tmp_path: Path, settings: Any
) -> None:
    """Its caller gets no answer as if it were logged, and the status is not lost either."""
    with mount_small_disk(tmp_path / "disk") as (folder, fill, free), open_store_in(folder) as store:
        settings.DATA_DIR = folder

        async def scenario() -> set[str]:
            running = [await recorder.begin(intent()) for _ in range(3)]
            fill()
            large = recorder.Ending("ok", result='{"a":"' + "x" * 500_000 + '"}')
            for one in running:  # the first finds it out, the others know it
                with pytest.raises(recorder.AuditLogUnavailable):
                    await recorder.finish(one, large)
                assert store.outcomes()[one.id.hex] == "running"
            free()
            await wait_until_accepted()
            await wait_until_async(lambda: "running" not in store.outcomes().values())
            return {one.id.hex for one in running}

        ids = asyncio.run(scenario())
        assert_nothing_open(store)
        assert {store.outcomes()[id] for id in ids} == {"ok"}


@contextmanager
def open_store_in(folder: Path) -> Iterator[AuditStore]:
    with open_store(f"sqlite:///{folder}/record.sqlite3", folder) as store:
        yield store


@contextmanager
def mount_small_disk(folder: Path) -> Iterator[tuple[Path, Any, Any]]:
    folder.mkdir()
    mounted = (
        os.geteuid() == 0
        and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)], check=False, capture_output=True
        ).returncode
        == 0
    )
    stuffing = folder / "stuffing"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill() -> None:
        if not mounted:
            largest = max(path.stat().st_size for path in folder.iterdir())
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest, limits[1]))
            return
        with stuffing.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"\0" * 65536)
            except OSError:
                pass

    def free() -> None:
        if not mounted:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        else:
            stuffing.unlink()

    try:
        yield folder, fill, free
    finally:
        if mounted:
            recorder.stop_now(60)
            subprocess.run(["umount", "-l", str(folder)], check=True)
        else:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_the_next_process_replays_what_a_dead_one_spooled(sqlite_store: AuditStore) -> None:
    code = """
import asyncio, os, sys, django
django.setup()
from django.conf import settings
from audit import recorder
from tests.audit.attempts import intent, ending
async def main():
    settings.RECORD_SECONDS = 30.0
    known, lost = await recorder.begin(intent("known")), await recorder.begin(intent("lost"))
    settings.RECORD_SECONDS = 3.0
    print("begun", flush=True)
    sys.stdin.readline()
    await recorder.finish(known, ending("tool_error"))
    print("spooled", flush=True)
    sys.stdin.readline()
    os._exit(9)
asyncio.run(main())
"""
    environment = {**sqlite_store.environment(), "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    with lock_store(sqlite_store):
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "spooled\n"
        process.communicate("\n")
    asyncio.run(call("of the next process"))
    wait_until(lambda: "running" not in sqlite_store.outcomes().values(), 60)
    by_name = dict(sqlite_store.sql("SELECT name, outcome FROM audit_call"))
    assert by_name == {"known": "tool_error", "lost": "unknown", "of the next process": "ok"}
    assert not [path for path in (sqlite_store.folder / "spool").iterdir() if path != path_of(0)]
    assert_nothing_open(sqlite_store)


@pytest.mark.parametrize("patience", [0.75, 5.0], ids=["the writer gave up", "the writer still tries"])
def test_a_stop_while_the_database_is_locked_spools_and_does_not_wait_for_ever(
    sqlite_store: AuditStore, monkeypatch: pytest.MonkeyPatch, patience: float
) -> None:
    monkeypatch.setattr(sqlite, "lock_timeout", lambda: patience)

    async def scenario() -> str:
        running = await recorder.begin(intent())
        with lock_store(sqlite_store):
            outcome = recorder.finish(running, ending())
            await recorder.stop(0.5)
            await outcome
            assert sqlite_store.outcomes() == {running.id.hex: "running"}
            assert sum(len(path.read_text().splitlines()) for path in (sqlite_store.folder / "spool").iterdir()) == 1
        return running.id.hex

    running = asyncio.run(scenario())
    asyncio.run(call())
    wait_until(lambda: sqlite_store.outcomes()[running] == "ok", 60)


def test_a_stop_that_finds_the_database_back_logs_the_spooled_entries(
    sqlite_store: AuditStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer waited for the lock with its heartbeat, and has nothing queued when it goes on."""
    # Longer than the watchdog waits: a writer that gives up when it is told to stop leaves the spool to the next one.
    monkeypatch.setattr(sqlite, "lock_timeout", lambda: 60.0)

    async def scenario() -> None:
        running = await recorder.begin(intent())
        writer = recorder.audit_log().writer
        assert writer is not None
        beat, waiting, returned = writer._write_heartbeat, threading.Event(), threading.Event()

        def noted_beat() -> None:
            waiting.set()
            beat()
            waiting.clear()
            returned.set()

        def hurry(event: threading.Event) -> bool:
            writer._next_heartbeat = 0.0
            writer.queue.wake_writer()
            return event.is_set()

        # The first heartbeat, and the chores after it, must be over: the lock would stop them where no event tells.
        monkeypatch.setattr(writer, "_on_heartbeat", lambda _: None)
        monkeypatch.setattr(writer, "_write_heartbeat", noted_beat)
        await wait_until_async(lambda: hurry(returned))
        with use_production_timeout(), lock_store(sqlite_store):
            await wait_until_async(lambda: hurry(waiting))
            await recorder.finish(running, ending())
            stopping = asyncio.create_task(recorder.stop(60))
            await wait_until_async(lambda: writer.queue.stopping)
        await stopping

    asyncio.run(scenario())
    assert list(sqlite_store.outcomes().values()) == ["ok"]
    assert not list((sqlite_store.folder / "spool").iterdir())


def test_a_brief_lock_refuses_no_call(sqlite_store: AuditStore) -> None:
    async def scenario() -> None:
        await call()
        connection = sqlite3.connect(sqlite_store.url.removeprefix("sqlite:///"), isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        beginning = asyncio.ensure_future(recorder.begin(intent()))
        await asyncio.sleep(0)
        connection.execute("ROLLBACK")
        connection.close()
        await recorder.finish(await beginning, ending())

    asyncio.run(scenario())
    assert list(sqlite_store.outcomes().values()) == ["ok", "ok"]
