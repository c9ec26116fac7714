"""The servers of the benchmark, each a process of its own with a port of its own."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = Path(__file__).resolve().parent / ".clients"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int, process: subprocess.Popen[bytes], path: str = "", timeout: float = 60) -> None:
    deadline = time.monotonic() + timeout
    while True:
        if process.poll() is not None:
            raise SystemExit(f"A server of the benchmark ended with status {process.returncode}")
        try:
            if path:
                with urlopen(f"http://127.0.0.1:{port}{path}", timeout=5):
                    return
            else:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
        except (OSError, URLError):
            if time.monotonic() > deadline:
                raise SystemExit(f"A server of the benchmark did not answer within {timeout} s") from None
            time.sleep(0.1)


class Running:
    def __init__(self, process: subprocess.Popen[bytes], port: int, token: str = "") -> None:
        self.process, self.port = process, port
        self.token, *self.listeners = token.split() or [""]

    def memory_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def process(
    command: list[str],
    port: int,
    *,
    env: dict[str, str] | None = None,
    path: str = "",
    token: str = "",
    root: Path = ROOT,
) -> Iterator[Running]:
    resource.setrlimit(resource.RLIMIT_NOFILE, (8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    started = subprocess.Popen(
        command, cwd=root, env={**os.environ, **(env or {})}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for(port, started, path)
        yield Running(started, port, token)
    finally:
        started.terminate()
        try:
            started.wait(40)
        except subprocess.TimeoutExpired:
            started.kill()


@contextmanager
def hub(
    *,
    tools: int = 10,
    visible: int = 100,
    database: str = "",
    redis: str = "",
    workers: int = 1,
    api: str = "",
    listeners: int = 0,
    app: bool = False,
    conditions: bool = False,
    limits: bool = False,
    root: Path = ROOT,
) -> Iterator[Running]:
    """toolhub as an operator runs it: token, policy, validation, durable log, hash chain. `root` is its checkout."""
    port = free_port()
    data = tempfile.mkdtemp(prefix="toolhub-bench-")
    env = {
        "TOOLHUB_DATA_DIR": data,
        "TOOLHUB_PUBLIC_URL": f"http://localhost:{port}",
        "TOOLHUB_TOOL_MODULES": "catalog.examples,tests.bench.functions",
        "TOOLHUB_LOG_LEVEL": "WARNING",
        # The first daily verification is due a minute after the first start, in the middle of a measurement.
        "TOOLHUB_VERIFY_SECONDS": "0",
        "TOOLHUB_ALLOW_PRIVATE_NETWORKS": "127.0.0.0/8",
        "TOOLHUB_MAX_CONNECTIONS_PER_ADDRESS": "5000",
        "TOOLHUB_REQUESTS_RATE": "1000000/s",
        "TOOLHUB_DATABASE_URL": database,
        "TOOLHUB_REDIS_URL": redis,
    }
    environment = {**os.environ, **env}
    run = [sys.executable, "manage.py"]
    try:
        subprocess.run([*run, "migrate", "--verbosity", "0"], cwd=root, env=environment, check=True)
        fill = [sys.executable, "-m", "tests.bench.catalogue", "--tools", str(tools), "--visible", str(visible)]
        fill += ["--api", api, "--listeners", str(listeners), *(["--app"] if app else [])]
        fill += ["--conditions"] if conditions else []
        fill += ["--limits"] if limits else []
        token = subprocess.run(
            fill, cwd=root, env=environment, check=True, capture_output=True, text=True
        ).stdout.strip()
        command = [*run, "serve", "--port", str(port), "--workers", str(workers)]
        with process(command, port, env=env, path="/readyz", token=token, root=root) as running:
            yield running
    finally:
        shutil.rmtree(data, ignore_errors=True)


@contextmanager
def ceiling(*, stock: bool = False) -> Iterator[Running]:
    port = free_port()
    with process(
        [sys.executable, "-m", "tests.bench.ceiling", str(port), *(["--stock"] if stock else [])], port
    ) as running:
        yield running


@contextmanager
def api() -> Iterator[str]:
    """The address of an HTTP API that adds two numbers."""
    port = free_port()
    with process([sys.executable, "-m", "tests.bench.api", str(port)], port):
        yield f"http://127.0.0.1:{port}/add"


@contextmanager
def listeners(hub: Running, streams: int) -> Iterator[None]:
    """So many open streams, half of each era; fails when one of them ends."""
    command = [sys.executable, "-m", "tests.bench.listen", "--port", str(hub.port), "--streams", str(streams)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as started:
        try:
            assert started.stdin is not None and started.stdout is not None
            started.stdin.write(" ".join(hub.listeners) + "\n")
            started.stdin.flush()
            if started.stdout.readline() != "open\n":
                raise SystemExit("The streams could not be opened")
            yield
            started.stdin.close()
            if (left := int(started.stdout.readline() or 0)) != streams:
                raise SystemExit(f"Of {streams} streams {left} stayed open")
        finally:
            started.kill()


@contextmanager
def rival(kind: str) -> Iterator[Running]:
    """A bare server of another project; fastmcp gets an environment of its own below tests/bench/.clients."""
    port = free_port()
    python = sys.executable
    if kind == "fastmcp":
        folder = CLIENTS / "fastmcp"
        python = str(folder / "bin" / "python")
        if not Path(python).exists():
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
            subprocess.run([python, "-m", "pip", "install", "-q", "fastmcp>=4"], check=True)
    with process([python, str(Path(__file__).with_name("rivals.py")), kind, str(port)], port) as running:
        yield running
