"""Real servers for tests: each with a process group, a data folder, a port and stores of its own.

    with Hub(workers=2, postgres=True, redis=True, seed=seed.example) as hub:
        token = hub.seeded["alice"]

Ports are never guessed: the server binds port 0 and says which one it got, and Redis listens on a UNIX socket.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import http.client
import importlib
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Self

from tests.conftest import missing
from tests.polling import wait_until

ROOT = Path(__file__).resolve().parents[1]
POSTGRES = os.environ.get("TOOLHUB_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432")
"""A PostgreSQL server, without the database, on which databases may be made."""
START_SECONDS = 120.0
COMMAND_SECONDS = 300.0
"""A few seconds of the processor make all tables: of a busy machine, a command gets a small part."""
STOP_SECONDS = 60.0
DATABASE_FILE = "toolhub.sqlite3"
LISTENING = re.compile(r"listens on http://\S+:(\d+)")


class Hub:
    def __init__(
        self,
        *,
        workers: int = 1,
        postgres: bool = False,
        redis: bool = False,
        env: Mapping[str, str] | None = None,
        seed: Callable[..., Any] | None = None,
        tables: bool = True,
        root: Path = ROOT,
    ) -> None:
        self.root = root
        """The checkout that is served."""
        self.workers, self.postgres, self.with_redis = workers, postgres, redis
        self.extra = dict(env or {})
        self.folder = Path(tempfile.mkdtemp(prefix="thub-"))
        self.log_file = self.folder / "server.log"
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.redis: Redis | None = None
        self._shell: subprocess.Popen[bytes] | None = None
        self._database = ""
        self._logged = 0
        self.may_log_tracebacks = False
        self._seed, self._tables = seed, tables
        self.seeded: Any = None
        """What `seed` returned: it ran before the server started."""

    # --- addresses ---------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def mcp_url(self) -> str:
        return f"{self.url}/mcp"

    @property
    def ws_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/ws/mcp"

    # --- life --------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        try:
            self.prepare()
            if self._seed is not None:
                self.seeded = self.call(self._seed)
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if self.process is not None and self.process.poll() is None:
                self.stop()
            log = self.log()
        finally:
            self.remove()
        if kind is None and not self.may_log_tracebacks:
            assert "Traceback" not in log, f"the server logged a traceback:\n{log[-8000:]}"

    def prepare(self) -> None:
        """Stores and tables."""
        if self.with_redis:
            self.redis = Redis(self.folder / "redis")
            self.redis.start()
        if self.postgres:
            name = f"toolhub_test_{secrets.token_hex(6)}"
            postgres(f'CREATE DATABASE "{name}"' + (f' TEMPLATE "{migrated_postgres()}"' if self._tables else ""))
            self._database = name
        elif "TOOLHUB_DATABASE_URL" in self.extra:
            self.manage("migrate", "--verbosity", "0")
        elif self._tables:
            data = Path(self.environment()["TOOLHUB_DATA_DIR"])
            data.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.copyfile(migrated_sqlite(), data / DATABASE_FILE)

    def environment(self) -> dict[str, str]:
        plain = {name: value for name, value in os.environ.items() if not name.startswith("TOOLHUB_")}
        plain.pop("PYTHONDONTWRITEBYTECODE", None)  # a start would compile all of it again
        return {
            **plain,
            "DJANGO_SETTINGS_MODULE": "toolhub.settings",
            "PYTHONUNBUFFERED": "1",
            "TOOLHUB_DATA_DIR": str(self.folder / "data"),
            "TOOLHUB_MIN_FREE_MB": "1",
            # A machine that is busy with other tests must not look like a store that is away.
            "TOOLHUB_DATABASE_URL": f"{POSTGRES}/{self._database}?connect_timeout=30" if self._database else "",
            "TOOLHUB_REDIS_URL": self.redis.url if self.redis else "",
            "TOOLHUB_REDIS_TIMEOUT_MS": "10000",
            "TOOLHUB_RECORD_TIMEOUT_MS": "30000",
            **self.extra,
        }

    def manage(self, *arguments: str, input: str | None = None) -> str:
        """The output of a management command."""
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=self.root,
            env=self.environment(),
            input=input,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
        )
        assert done.returncode == 0, f"manage.py {' '.join(arguments)}:\n{done.stderr}"
        return done.stdout.strip()

    def start(self) -> None:
        self.launch()
        self.wait_until_ready()

    def command(self) -> list[str]:
        """What Python is given to start the server."""
        return ["manage.py", "serve", "--port", "0", "--workers", str(self.workers)]

    def launch(self) -> None:
        """The process, which is not there for anybody yet."""
        self._logged = self.log_file.stat().st_size if self.log_file.exists() else 0
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, *self.command()],
                cwd=self.root,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_until_listening(self) -> None:
        self.port = int(wait_until(lambda: self._port(self._logged), START_SECONDS, "a listening server") or 0)

    def wait_until_ready(self) -> None:
        self.wait_until_listening()
        wait_until(lambda: self._alive() and self.get("/readyz")[0] == 200, START_SECONDS, "a ready server")

    def _port(self, offset: int) -> str | None:
        self._alive()
        match = LISTENING.search(self.log()[offset:])
        return match[1] if match else None

    def _alive(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"the server ended with {self.process.returncode}:\n{self.log()[-8000:]}"
        return True

    def stop(self) -> int:
        """SIGTERM, as an operator would; the exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the server did not stop:\n{self.log()[-8000:]}") from None
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL for the server and its workers: no chance to write anything."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def remove(self) -> None:
        self.kill()
        if self._shell is not None:
            with self._shell:  # which closes its pipes
                self._shell.kill()
        if self.redis is not None:
            self.redis.stop()
        if self._database:
            postgres(f'DROP DATABASE IF EXISTS "{self._database}" WITH (FORCE)')
        shutil.rmtree(self.folder, ignore_errors=True)

    # --- looking and changing ----------------------------------------------------------------------------------------

    def log(self) -> str:
        return self.log_file.read_text(encoding="utf-8", errors="replace") if self.log_file.exists() else ""

    def has_logged_limit(self, address: str, words: str) -> bool:
        """Whether the log says that this address has reached the limit that these words describe."""
        return any(f" by {address}: " in line and words in line for line in self.log().splitlines())

    def worker_pids(self) -> list[int]:
        """Of the processes that serve: the workers, or the one process there is."""
        assert self.process is not None
        if self.workers == 1:
            return [self.process.pid]
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(pid) for pid in children]

    @contextlib.contextmanager
    def pin_to_worker(self, worker: int) -> Iterator[None]:
        """Connections made inside are accepted by this worker, and stay with it: the others stand still meanwhile."""
        others = [pid for index, pid in enumerate(sorted(self.worker_pids())) if index != worker]
        try:
            wait_until(lambda: self._pause_workers(others), what="workers that stand still and hold no transaction")
            yield
        finally:
            for pid in others:
                os.kill(pid, signal.SIGCONT)

    def _pause_workers(self, workers: list[int]) -> bool:
        """Stop these; not in the middle of a transaction, whose locks would hold up the worker that goes on."""
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        if not self._database:
            return True
        deadline = time.monotonic() + 0.5
        held = open_transactions(self._database)
        while held and time.monotonic() < deadline:
            time.sleep(0.02)
            held &= open_transactions(self._database)
        if held:
            for pid in workers:
                os.kill(pid, signal.SIGCONT)
        return not held

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", path, headers=dict(headers or {}))
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException):
            return 0, b""
        finally:
            connection.close()

    def call(self, function: Callable[..., Any], /, **arguments: Any) -> Any:
        """Run an importable function in a process of its own with this hub's settings; plain data goes in and out.

        It sees and changes the database as an administrator's browser would: the server learns of it by itself.
        """
        if self._shell is None:
            with (self.folder / "shell.log").open("ab") as errors:
                self._shell = subprocess.Popen(
                    [sys.executable, "-m", "tests.real_servers"],
                    cwd=self.root,
                    env=self.environment(),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    start_new_session=True,
                )
        assert self._shell.stdin is not None and self._shell.stdout is not None
        line = json.dumps([function.__module__, function.__qualname__, arguments])
        self._shell.stdin.write(line.encode() + b"\n")
        self._shell.stdin.flush()
        answer = self._shell.stdout.readline()
        assert answer, f"the helper process ended:\n{(self.folder / 'shell.log').read_text()[-8000:]}"
        outcome, value = json.loads(answer)
        assert outcome == "ok", value
        return value


class Redis:
    """A Redis server on a UNIX socket; it can be stopped and started again, and keeps nothing."""

    def __init__(self, folder: Path) -> None:
        program = shutil.which("redis-server")
        if program is None:
            missing("redis", "redis-server is not installed")
        self.program, self.folder = program or "", folder
        folder.mkdir()
        self.socket = folder / "s"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    def start(self) -> None:
        self.process = subprocess.Popen(
            [self.program, "--port", "0", "--unixsocket", str(self.socket), "--save", "", "--appendonly", "no"],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(self._is_listening, 60, "Redis")

    def _is_listening(self) -> bool:
        """Its socket is there a moment before anybody may connect to it."""
        assert self.process is not None and self.process.poll() is None, "Redis ended"
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(str(self.socket)) == 0

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(STOP_SECONDS)
            self.process = None
            self.socket.unlink(missing_ok=True)


@functools.cache
def migrated_sqlite() -> Path:
    """Return a database file after the migrations, made once in this process, to be copied."""
    hub = _make_template()
    hub.manage("migrate", "--verbosity", "0")
    file = Path(hub.environment()["TOOLHUB_DATA_DIR"]) / DATABASE_FILE
    assert [path.name for path in file.parent.glob(f"{DATABASE_FILE}*")] == [DATABASE_FILE], "it is all in one file"
    return file


@functools.cache
def migrated_postgres() -> str:
    """Return the name of a database after the migrations, made once in this process, to be a template."""
    hub = _make_template()
    name = f"toolhub_test_{secrets.token_hex(6)}"
    postgres(f'CREATE DATABASE "{name}"')
    hub._database = name
    hub.manage("migrate", "--verbosity", "0")
    return name


def _make_template() -> Hub:
    """Return a hub that never runs and is removed when this process ends."""
    hub, process = Hub(), os.getpid()

    def remove() -> None:
        if os.getpid() == process:
            hub.remove()

    atexit.register(remove)
    return hub


def postgres(statement: str) -> None:
    """Run one statement on the server; skips the test where there is none."""
    import psycopg

    try:
        with psycopg.connect(f"{POSTGRES}/postgres", autocommit=True, connect_timeout=30) as connection:
            connection.execute(statement.encode())
    except psycopg.OperationalError as error:
        missing("postgres", f"no server at {POSTGRES}: {error}")


def open_transactions(database: str) -> set[tuple[int, str]]:
    """Every transaction open in this database at this moment."""
    import psycopg

    with psycopg.connect(f"{POSTGRES}/postgres", autocommit=True, connect_timeout=30) as connection:
        statement = "SELECT pid, xact_start::text FROM pg_stat_activity WHERE datname = %s AND xact_start IS NOT NULL"
        return set(connection.execute(statement, [database]).fetchall())


def shell(source: IO[bytes], sink: IO[bytes]) -> None:
    """The process behind `Hub.call`: one line of JSON in, one out."""
    import traceback

    import django
    from django.db import close_old_connections

    gc.set_threshold(20_000, 10, 10)  # as manage.py
    django.setup()
    for line in source:
        module, name, arguments = json.loads(line)
        close_old_connections()
        try:
            value: Any = importlib.import_module(module)
            for part in name.split("."):
                value = getattr(value, part)
            answer = ["ok", value(**arguments)]
        except Exception:  # noqa: BLE001  (the boundary of the process: the caller gets it as text)
            answer = ["error", traceback.format_exc()]
        sink.write(json.dumps(answer).encode() + b"\n")
        sink.flush()


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    shell(sys.stdin.buffer, answers)
