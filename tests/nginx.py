"""A real nginx for tests: its configuration, its listening sockets and its end."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.conftest import missing
from tests.polling import wait_until
from tests.real_servers import ROOT

PASS = "proxy_pass http://127.0.0.1:8000;"
CONNECTION = "proxy_set_header Connection $http_connection;"
HTTP = """
daemon off;
{user}
worker_processes 1;
worker_rlimit_nofile 8192;
pid nginx.pid;
error_log error.log;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    scgi_temp_path scgi;
    uwsgi_temp_path uwsgi;
    client_max_body_size 4m;
    {content}
}}
"""


def read_location() -> str:
    """Return what the README recommends."""
    found = re.search(
        r"^```nginx\n.*?^(location / \{\n.*?^\})", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE
    )
    assert found is not None
    assert PASS in found[1] and CONNECTION in found[1], found[1]
    return found[1]


def listen(send_buffer_bytes: int = 0) -> socket.socket:
    """Return a socket that nginx inherits, as at an upgrade of its program: no port has to be guessed."""
    listener = socket.socket()
    if send_buffer_bytes:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
    listener.bind(("127.0.0.1", 0))
    listener.listen(1024)
    return listener


def answers(port: int, context: ssl.SSLContext | None = None) -> bool:
    """Return whether a server answers with TLS, or without when there is no context."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as plain:
        plain.settimeout(5)
        with context.wrap_socket(plain, server_hostname="localhost") if context else plain as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return connection.recv(100).startswith(b"HTTP/1.1 200")
    return False


@contextlib.contextmanager
def run(content: str, listeners: Sequence[socket.socket], folder: Path, is_ready: Callable[[], bool]) -> Iterator[None]:
    """Run nginx with this content of `http`, until the end of the block."""
    program = shutil.which("nginx", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
    if program is None:
        missing("nginx", "it is not installed")
        return
    (folder / "nginx.conf").write_text(HTTP.format(user="user root;" if os.geteuid() == 0 else "", content=content))
    descriptors = [listener.fileno() for listener in listeners]
    with (folder / "output.log").open("wb") as output:
        process = subprocess.Popen(
            [program, "-p", str(folder), "-c", "nginx.conf", "-e", "error.log"],
            env={**os.environ, "NGINX": "".join(f"{number};" for number in descriptors)},
            pass_fds=descriptors,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:

        def log() -> str:
            return "".join(path.read_text(errors="replace") for path in folder.glob("*.log"))

        def ready() -> bool:
            assert process.poll() is None, f"nginx ended:\n{log()}"
            return is_ready()

        wait_until(ready, what="nginx")
        yield
        assert "[alert]" not in log() and "[emerg]" not in log(), log()
    finally:
        process.terminate()
        process.wait(30)
