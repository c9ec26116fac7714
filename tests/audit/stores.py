"""Databases that hold the audit log only, for tests that look beneath it: an SQLite file, or PostgreSQL of our own.

    def test_...(audit_store: RecordStore) -> None:      # runs once on each

The process's connection is pointed at the database for the length of the test, in every thread.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connections

from tests.conftest import missing

USER, PORT = "postgres", 5432


class Cluster:
    """A PostgreSQL server of the test's own, that may be stopped, frozen and killed.

    It listens on a UNIX socket: a port that is free now may be somebody else's when the server starts again.
    """

    def __init__(self) -> None:
        self.bin = _programs()
        self.folder = Path(tempfile.mkdtemp(prefix="thub-pg-"))
        self.data = self.folder / "data"
        if os.geteuid() == 0:
            shutil.chown(self.folder, USER, USER)
        self._run("initdb", "-D", self.data, "-A", "trust", "-U", USER, "--no-sync", "-E", "UTF8", "--locale=C")
        with (self.data / "postgresql.conf").open("a") as file:
            file.write(
                f"port={PORT}\nlisten_addresses=''\nunix_socket_directories='{self.folder}'\n"
                "shared_buffers=16MB\nmax_connections=60\n"
            )
        self.start()

    def _run(self, program: str, *args: object, check: bool = True) -> None:
        # PostgreSQL refuses to run as root.
        user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"] if os.geteuid() == 0 else []
        command = [*user, str(self.bin / program), *map(str, args)]
        subprocess.run(command, check=check, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", timeout=120)

    def start(self) -> None:
        self._run("pg_ctl", "-D", self.data, "-w", "-t", "100", "-l", self.folder / "log", "start")

    def stop(self, mode: str = "immediate") -> None:
        self._run("pg_ctl", "-D", self.data, "-w", "-t", "100", "-m", mode, "stop", check=False)

    def _processes(self) -> list[int]:
        leader = int((self.data / "postmaster.pid").read_text().split()[0])
        found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(leader)], capture_output=True, text=True, check=False)
        return [leader, *map(int, found.stdout.split())]

    @contextlib.contextmanager
    def freeze(self) -> Iterator[None]:
        """No process of the server runs, and its connections stay open: it hangs."""
        processes = self._processes()
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def url(self, database: str) -> str:
        return f"postgresql://{USER}@/{database}?host={self.folder}&port={PORT}"

    def sql(self, text: str) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(text.encode())

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def _programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    program = shutil.which("initdb") or (str(found[-1]) if found else "")
    if not program or (os.geteuid() == 0 and not shutil.which("setpriv")):
        missing("postgres", "no initdb to make a server with")
    return Path(program).parent


class AuditStore:
    """One database with the tables of the audit log."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self.vendor = "sqlite" if url.startswith("sqlite") else "postgresql"

    @contextlib.contextmanager
    def connection(self) -> Iterator[Any]:
        """A connection that knows nothing of the audit log."""
        if self.vendor == "sqlite":
            connection: Any = sqlite3.connect(self.url.removeprefix("sqlite:///"), timeout=30, isolation_level=None)
        else:
            connection = psycopg.connect(self.url, autocommit=True)
        try:
            yield connection
        finally:
            connection.close()

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        with self.connection() as connection:
            cursor = connection.execute(text)
            return list(cursor.fetchall()) if cursor.description else []

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Somebody else holds what writing to the audit log needs; reading goes on."""
        with self.connection() as lock:
            lock.execute("BEGIN IMMEDIATE" if self.vendor == "sqlite" else "BEGIN")
            try:
                if self.vendor != "sqlite":
                    lock.execute("LOCK TABLE audit_call IN EXCLUSIVE MODE")
                yield
            finally:
                lock.execute("ROLLBACK")

    def outcomes(self) -> dict[str, str]:
        return {str(id).replace("-", ""): outcome for id, outcome in self.sql("SELECT id, outcome FROM audit_call")}

    def environment(self) -> dict[str, str]:
        """For a process that records into the same database."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TOOLHUB_")}
        names = ("TOOLHUB_SECRET_KEY", "TOOLHUB_RECORD_KEY")
        return {
            **kept,
            **{name: os.environ[name] for name in names},
            "TOOLHUB_DATABASE_URL": self.url,
            "TOOLHUB_DATA_DIR": str(self.folder),
            "TOOLHUB_MIN_FREE_MB": "1",
            "DJANGO_SETTINGS_MODULE": "toolhub.settings",
        }


@contextlib.contextmanager
def use_database(url: str) -> Iterator[None]:
    """Django's default connection is that database, for every thread that connects from now on."""
    from tests.audit_log import stop_audit_log
    from toolhub import env

    kept, before = connections.settings["default"], connections["default"]
    name = "TOOLHUB_TEST_STORE_URL"
    os.environ[name] = url
    try:
        chosen = {**kept, "OPTIONS": {}, "USER": "", "PASSWORD": "", "HOST": "", "PORT": ""}
        connections.settings["default"] = {**chosen, **env.database(name, Path("/nowhere"))}
        del connections["default"]
        try:
            yield
        finally:
            stop_audit_log()
            connections["default"].close()
    finally:
        os.environ.pop(name, None)
        connections.settings["default"] = kept
        connections["default"] = before


def make_tables() -> None:
    """The tables of the audit log and no others."""
    from audit import models
    from audit.queries import text_index

    connection = connections["default"]
    with connection.schema_editor() as editor:
        for model in (
            models.Call,
            models.Action,
            models.Writer,
            models.Link,
            models.Checkpoint,
            models.Verification,
            models.TextProgress,
            models.CallText,
            models.WholeBody,
            models.WholeBodyUse,
        ):
            editor.create_model(model)
    text_index.after_migrate()


@contextlib.contextmanager
def open_store(url: str, folder: Path) -> Iterator[AuditStore]:
    with use_database(url):
        make_tables()
        yield AuditStore(url, folder)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    server = Cluster()
    yield server
    server.remove()


@contextlib.contextmanager
def postgres_database(cluster: Cluster) -> Iterator[str]:
    name = f"record_{secrets.token_hex(4)}"
    cluster.sql(f"CREATE DATABASE {name}")
    try:
        yield cluster.url(name)
    finally:
        cluster.sql(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def data_folder(tmp_path: Path, settings: Any) -> Path:
    settings.DATA_DIR = tmp_path
    return tmp_path


@pytest.fixture
def sqlite_store(data_folder: Path, django_db_blocker: Any) -> Iterator[AuditStore]:
    with django_db_blocker.unblock(), open_store(f"sqlite:///{data_folder}/record.sqlite3", data_folder) as store:
        yield store


@pytest.fixture
def postgres_store(cluster: Cluster, data_folder: Path, django_db_blocker: Any) -> Iterator[AuditStore]:
    with (
        django_db_blocker.unblock(),
        postgres_database(cluster) as url,
        open_store(url, data_folder) as store,
    ):
        yield store


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def audit_store(request: pytest.FixtureRequest) -> AuditStore:
    store: AuditStore = request.getfixturevalue("sqlite_store" if request.param == "sqlite" else "postgres_store")
    return store
