"""What one connection can cost a real server: bodies that are too large, and readers that are slow."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.polling import wait_until
from tests.real_servers import Hub

MAX_BODY_BYTES = 1_000_000
MAX_GROWTH_BYTES = 40_000_000
ROWS, ROW_BYTES = 1_500, 60_000
SLOW_READS = 25
HOST = "Host: 127.0.0.1\r\n"
PAGE = f"POST /accounts/login/ HTTP/1.1\r\n{HOST}Content-Type: application/octet-stream\r\n"
"""A page, whose body is read before anybody knows who sends it."""
POST = f"POST /mcp HTTP/1.1\r\n{HOST}Content-Type: application/json\r\n"


def seed() -> str:
    """Calls of 90 MB together; the session of an administrator's browser."""
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.auth.models import User
    from django.contrib.sessions.backends.db import SessionStore
    from django.utils import timezone

    from audit.format.uuid7 import new_id
    from audit.models import Call

    numbers = {"result_bytes": ROW_BYTES, "duration_us": 1000, "writer": 0, "link": 0}
    now = timezone.now()
    for start in range(0, ROWS, 100):
        Call.objects.bulk_create(
            Call(id=new_id(), name="large", outcome="ok", result="x" * ROW_BYTES, started_at=now, **numbers)
            for _ in range(start, start + 100)
        )
    root = User.objects.create_superuser("root", password="irrelevant here")
    session = SessionStore()
    session[SESSION_KEY] = str(root.pk)
    session[BACKEND_SESSION_KEY] = "toolhub.access.backends.Passwords"
    session[HASH_SESSION_KEY] = root.get_session_auth_hash()
    session.save()
    return str(session.session_key)


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(env={"TOOLHUB_MAX_BODY_BYTES": str(MAX_BODY_BYTES)}, seed=seed) as running:
        yield running


@contextlib.contextmanager
def open_connection(hub: Hub, *, window: int = 0) -> Iterator[socket.socket]:
    with socket.socket() as connection:
        connection.settimeout(60)
        if window:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        connection.connect(("127.0.0.1", hub.port))
        yield connection


def read_rest(connection: socket.socket) -> bytes:
    """Everything until the server closes the connection."""
    received = b""
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        while more := connection.recv(65536):
            received += more
    return received


def read_memory_bytes(hub: Hub) -> int:
    (pid,) = hub.worker_pids()
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


class Idle:
    """True when the server has used no processor time for a while: it has done all that it does without its reader."""

    MIN_IDLE_CHECKS = 5

    def __init__(self, hub: Hub) -> None:
        self.pid, self.used, self.still = hub.worker_pids()[0], -1, 0

    def __call__(self) -> bool:
        user, system = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        used = int(user) + int(system)
        self.still = self.still + 1 if used == self.used else 0
        self.used = used
        return self.still >= self.MIN_IDLE_CHECKS


@pytest.mark.parametrize("announced", [MAX_BODY_BYTES + 1, 10_000_000_000, 10**30])
def test_a_body_that_is_announced_too_large_is_refused_before_it_is_sent(hub: Hub, announced: int) -> None:
    with open_connection(hub) as connection:
        connection.sendall(f"{POST}Content-Length: {announced}\r\n\r\n".encode())
        answer = read_rest(connection)
    assert answer.startswith(b"HTTP/1.1 413 "), answer[:200]
    assert f"The body is larger than {MAX_BODY_BYTES:,} bytes.".encode() in answer
    assert hub.get("/healthz")[0] == 200


def test_a_body_in_chunks_is_refused_when_it_has_become_too_large(hub: Hub) -> None:
    before = read_memory_bytes(hub)
    chunk = b"%x\r\n%s\r\n" % (65536, b"x" * 65536)
    with open_connection(hub) as connection:
        connection.sendall(f"{PAGE}Transfer-Encoding: chunked\r\n\r\n".encode())
        sent = 0
        # The server may close while we still send: far more than its own and the system's buffers can take.
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            for _ in range(1000):
                connection.sendall(chunk)
                sent += len(chunk)
            raise AssertionError(f"{sent} bytes were taken")
        wait_until(lambda: hub.get("/healthz")[0] == 200)
    assert read_memory_bytes(hub) - before < MAX_GROWTH_BYTES


def test_a_sender_of_chunks_gets_the_reason_before_the_connection_is_closed(hub: Hub) -> None:
    chunk = b"%x\r\n%s\r\n" % (MAX_BODY_BYTES + 1, b"x" * (MAX_BODY_BYTES + 1))
    with open_connection(hub) as connection:
        connection.sendall(f"{PAGE}Transfer-Encoding: chunked\r\n\r\n".encode() + chunk)
        answer = read_rest(connection)
    assert answer.startswith(b"HTTP/1.1 413 "), answer[:200]


def test_a_slow_reader_of_an_export_does_not_make_the_server_hold_it(hub: Hub) -> None:
    def ask(query: str, *more: str) -> bytes:
        lines = (f"GET /admin/audit/call/export/?{query} HTTP/1.1", f"Cookie: toolhub_session={hub.seeded}", *more)
        return ("\r\n".join(lines) + f"\r\n{HOST}\r\n").encode()

    for _ in range(2):
        # A download of next to nothing brings what is loaded once.
        with open_connection(hub) as connection:
            connection.sendall(ask("format=csv&outcome=timeout", "Connection: close"))
            assert read_rest(connection).startswith(b"HTTP/1.1 200 ")
    before = most = read_memory_bytes(hub)
    with open_connection(hub, window=16_384) as connection:
        connection.sendall(ask("format=csv"))
        received = tail = connection.recv(4096)
        assert received.startswith(b"HTTP/1.1 200 "), received
        size = len(received)
        for _ in range(SLOW_READS):
            wait_until(Idle(hub), what="a server that waits for its reader")
            most = max(most, read_memory_bytes(hub))
            size += len(connection.recv(4096))
        slow = size
        while not tail.endswith(b"0\r\n\r\n"):
            more = connection.recv(65536)
            assert more, "the server closed the connection too early"
            tail = (tail + more)[-10:]
            size += len(more)
            most = max(most, read_memory_bytes(hub))
    assert slow < ROWS * ROW_BYTES / 10, "that was no slow reader"
    assert size > ROWS * ROW_BYTES
    assert most - before < MAX_GROWTH_BYTES, f"{(most - before) / 1e6:.0f} MB"


def upload(hub: Hub, size: int, path: str = "/admin/catalog/importeddocument/add/") -> bytes:
    """Send a document of this size as a browser does; the server's answer."""
    content = b'{"openapi": "3.1.0", "info": {"title": "Large"}, "paths": {}, "x": "%s"}'
    content %= b"x" * (size - len(content) + 2)
    token = "t" * 32
    parts = f'--b\r\nContent-Disposition: form-data; name="csrfmiddlewaretoken"\r\n\r\n{token}\r\n--b\r\n'
    parts += 'Content-Disposition: form-data; name="file"; filename="large.json"\r\n\r\n'
    body = parts.encode() + content + b"\r\n--b--\r\n"
    head = (
        f"POST {path} HTTP/1.1\r\n{HOST}Cookie: toolhub_session={hub.seeded}; toolhub_csrf={token}\r\n"
        f"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    with open_connection(hub) as connection:
        connection.sendall(head.encode())
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            connection.sendall(body)
        return read_rest(connection)


@pytest.mark.parametrize("size", [MAX_BODY_BYTES + 1, 4_500_000, 5 * 1_048_576])
def test_a_document_up_to_its_own_bound_can_be_uploaded(hub: Hub, size: int) -> None:
    answer = upload(hub, size)
    assert answer.startswith(b"HTTP/1.1 302 ") and b"/preview/" in answer, answer[:500]


def test_a_larger_document_and_a_large_form_elsewhere_are_refused(hub: Hub) -> None:
    assert b"larger than 5 MB" in upload(hub, 5 * 1_048_576 + 1)
    for size, path in ((5 * 1_048_576 + 100_000, "/admin/catalog/importeddocument/add/"), (4_500_000, "/account/")):
        answer = upload(hub, size, path)
        assert not answer or answer.startswith(b"HTTP/1.1 413 "), answer[:200]
