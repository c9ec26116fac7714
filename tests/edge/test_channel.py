"""What a slow, silent, early or greedy client gets from a real server, byte by byte."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.error import ConnectionDone
from twisted.internet.selectreactor import SelectReactor
from twisted.python.failure import Failure

from tests.e2e import seed
from tests.polling import wait_until
from tests.real_servers import Hub
from toolhub.edge.channel import EdgeChannel
from toolhub.edge.connections import Connections, Phase
from toolhub.edge.limits import Limits
from toolhub.management.daphne_server import EdgeFactory
from toolhub.rates import REFUSALS_PER_SECOND

PER_ADDRESS = 20
HEADER_SECONDS = 2
SLOW_READER_SECONDS = 3
BODY_BYTES = 200_000
JSON_TYPE = "Content-Type: application/json"
OTHER_ADDRESS, PROXY = "127.0.0.9", "127.0.0.77"


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    env = {
        "TOOLHUB_HEADER_SECONDS": str(HEADER_SECONDS),
        "TOOLHUB_WEBSOCKET_HEADER_SECONDS": "1",
        "TOOLHUB_KEEPALIVE_SECONDS": "2",
        "TOOLHUB_SLOW_READER_SECONDS": str(SLOW_READER_SECONDS),
        "TOOLHUB_MAX_CONNECTIONS_PER_ADDRESS": str(PER_ADDRESS),
        "TOOLHUB_MAX_UPLOADS_MB": "2",
        "TOOLHUB_TRUSTED_PROXIES": PROXY,
        "TOOLHUB_TOOL_MODULES": "tests.e2e.functions,tests.e2e.large_tools",
    }
    with Hub(env=env, seed=seed.seed_attacked) as running:
        yield running


@contextlib.contextmanager
def connected(hub: Hub, sender: str = "127.0.0.1", window: int = 0) -> Iterator[socket.socket]:
    with socket.socket() as connection:
        connection.settimeout(60)
        if window:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        connection.bind((sender, 0))
        connection.connect(("127.0.0.1", hub.port))
        yield connection


def read_to_end(connection: socket.socket) -> bytes:
    """Everything until the server closes the connection; a reset fails the test."""
    received = bytearray()
    while more := connection.recv(65_536):
        received += more
    return bytes(received)


def read_answer(connection: socket.socket) -> bytes:
    """One answer with a length."""
    received = b""
    while b"\r\n\r\n" not in received:
        more = connection.recv(65_536)
        assert more, received
        received += more
    head, _, body = received.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    while len(body) < length:
        more = connection.recv(65_536)
        assert more, "the answer is not complete"
        body += more
    assert len(body) == length, "another answer follows, and would be lost"
    return head + b"\r\n\r\n" + body


def head(hub: Hub, line: str, *headers: str, token: str = "") -> bytes:
    lines = [line, f"Host: 127.0.0.1:{hub.port}", *headers, *([f"Authorization: Bearer {token}"] if token else [])]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def post(hub: Hub, *headers: str, token: str = "", path: str = "/mcp") -> bytes:
    return head(hub, f"POST {path} HTTP/1.1", JSON_TYPE, "MCP-Protocol-Version: 2025-11-25", *headers, token=token)


def initialize(padding: int = 0) -> bytes:
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "edge", "version": "1", "title": "x" * padding},
    }
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode()


def count_sockets(hub: Hub) -> int:
    """Of the worker, on SQLite: connections of clients, and few others. Threads open files when they first work."""
    (pid,) = hub.worker_pids()
    folder, count = f"/proc/{pid}/fd", 0
    for name in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):
            count += os.readlink(f"{folder}/{name}").startswith("socket:")
    return count


# --- deadlines --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [b"POST /mcp", b"POST /mcp HTTP/1.1\r\n", b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Padding: "],
    ids=["half a request line", "a request line", "half a header"],
)
def test_headers_that_drip_end_with_408(hub: Hub, sent: bytes) -> None:
    begun = time.monotonic()
    with connected(hub) as connection:
        connection.sendall(sent)
        connection.settimeout(0.2)
        answer = b""
        while b"The headers took longer than 2 s. Send the request again." not in answer:
            with contextlib.suppress(TimeoutError):
                answer += connection.recv(65_536)
            with contextlib.suppress(OSError):
                connection.sendall(b"x")
            assert time.monotonic() - begun < 60
    assert answer.startswith(b"HTTP/1.1 408 "), answer
    assert time.monotonic() - begun >= HEADER_SECONDS


def test_a_connection_that_says_nothing_is_closed_without_an_answer(hub: Hub) -> None:
    with connected(hub, "127.0.0.11") as connection:
        assert read_to_end(connection) == b""
    wait_until(lambda: "a new connection sent nothing for TOOLHUB_HEADER_SECONDS" in hub.log())


def test_half_a_websocket_handshake_has_less_time(hub: Hub) -> None:
    with connected(hub) as connection:
        connection.sendall(b"GET /ws/mcp HTTP/1.1\r\nUpgrade: websocket\r\n")
        assert read_to_end(connection).startswith(b"HTTP/1.1 408 ")
    wait_until(lambda: "TOOLHUB_WEBSOCKET_HEADER_SECONDS" in hub.log())


@pytest.mark.parametrize("framing", [f"Content-Length: {BODY_BYTES}", "Transfer-Encoding: chunked"])
def test_a_body_that_stalls_ends_with_408(hub: Hub, framing: str) -> None:
    with connected(hub) as connection:
        connection.sendall(post(hub, framing, token=hub.seeded["alice"]) + b"5\r\n     \r\n")
        answer = read_to_end(connection)
    assert answer.startswith(b"HTTP/1.1 408 ") and b"Connection: close" in answer


def test_the_log_names_the_client_behind_a_proxy_once_its_headers_are_there(hub: Hub) -> None:
    behind = ("Transfer-Encoding: chunked", "X-Forwarded-For: 192.0.2.77")
    with connected(hub, PROXY) as slow, connected(hub, PROXY) as unknown:
        slow.sendall(post(hub, *behind, token=hub.seeded["alice"]) + b"5\r\n     \r\n")
        unknown.sendall(b"POST /mcp HTTP/1.1\r\nX-Forwarded-For: 192.0.2.78\r\n")
        assert read_to_end(slow).startswith(b"HTTP/1.1 408 ")
        assert read_to_end(unknown).startswith(b"HTTP/1.1 408 ")
    wait_until(lambda: "Limit reached by 192.0.2.77: a body came slower than" in hub.log())
    wait_until(lambda: f"Limit reached by the proxy {PROXY}: the headers of a request took" in hub.log())


def test_the_log_names_the_client_behind_a_proxy_whose_body_is_too_large(hub: Hub) -> None:
    with connected(hub, PROXY) as large:
        large.sendall(post(hub, "Content-Length: 999999999", "X-Forwarded-For: 192.0.2.79"))
        assert read_to_end(large).startswith(b"HTTP/1.1 413 ")
    wait_until(lambda: "Limit reached by 192.0.2.79: " in hub.log())


def test_a_burst_buys_no_time_for_the_rest_of_a_body(hub: Hub) -> None:
    with connected(hub) as connection:
        connection.sendall(post(hub, f"Content-Length: {BODY_BYTES}", token=hub.seeded["alice"]))
        connection.sendall(b" " * (BODY_BYTES - 1))
        assert read_to_end(connection).startswith(b"HTTP/1.1 408 ")


def test_a_slow_but_steady_upload_is_served(hub: Hub) -> None:
    """4 kB a second for longer than the time for headers: as slow as the worst phone, and four times the minimum."""
    body = initialize(padding=20_000)
    with connected(hub) as connection:
        connection.sendall(post(hub, f"Content-Length: {len(body)}", token=hub.seeded["alice"]))
        for start in range(0, len(body), 400):
            connection.sendall(body[start : start + 400])
            time.sleep(0.1)
        answer = read_answer(connection)
    assert answer.startswith(b"HTTP/1.1 200 ") and b"protocolVersion" in answer


def test_a_kept_connection_is_closed_when_it_is_idle(hub: Hub) -> None:
    with connected(hub) as connection:
        connection.sendall(head(hub, "GET /healthz HTTP/1.1"))
        assert read_answer(connection).endswith(b"ok\n")
        assert read_to_end(connection) == b"", "it is closed, and nothing is said about it"


@pytest.mark.parametrize("verb", ["POST", "GET"])
def test_bodies_of_pages_that_take_their_time_keep_no_page_from_the_others_at_that_address(hub: Hub, verb: str) -> None:
    opened: list[socket.socket] = []
    with contextlib.ExitStack() as stack:
        for _ in range(10):
            opened.append(stack.enter_context(connected(hub)))
            opened[-1].sendall(head(hub, f"{verb} /sign-in/ HTTP/1.1", "Content-Length: 60000") + b" " * 10)
        assert hub.get("/sign-in/")[0] == 200
        readable, _writable, _failed = select.select(opened, [], [], 0)
        assert not readable, "none of them has ended"
        for slow in (stack.enter_context(connected(hub)) for _ in range(3)):
            slow.sendall(post(hub, "Content-Length: 20", path="/sign-in/") + b" " * 20)
            assert slow.recv(65_536).startswith(b"HTTP/1.1 403 "), (
                "a whole body is passed on: the CSRF token is missing"
            )


# --- what would take long to read -------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/mcp", "/sign-in/"])
def test_a_body_in_thousands_of_tiny_chunks_is_refused(hub: Hub, path: str) -> None:
    with connected(hub, "127.0.0.12") as connection:
        connection.sendall(
            post(hub, "Transfer-Encoding: chunked", token=hub.seeded["alice"], path=path) + b"1\r\nx\r\n" * 10_000
        )
        answer = read_to_end(connection)
    assert answer.startswith(b"HTTP/1.1 400 ") and b"too many small chunks. Send 32 bytes in each." in answer
    wait_until(lambda: "a body came in too many small chunks" in hub.log())


def test_a_body_in_thousands_of_small_chunks_is_served(hub: Hub) -> None:
    body = initialize(padding=100_000)
    pieces = [body[start : start + 40] for start in range(0, len(body), 40)]
    with connected(hub) as connection:
        connection.sendall(post(hub, "Transfer-Encoding: chunked", token=hub.seeded["alice"]))
        connection.sendall(b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n")
        assert read_answer(connection).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("folded", ["X-Folded: a\r\n b", "X-Folded: a\r\n\tb", " X-First: a"])
def test_a_folded_header_is_refused(hub: Hub, folded: str) -> None:
    with connected(hub) as connection:
        connection.sendall(head(hub, "GET /healthz HTTP/1.1", folded))
        assert read_to_end(connection).startswith(b"HTTP/1.1 400 ")


def test_trailers_of_many_lines_are_refused(hub: Hub) -> None:
    with connected(hub) as connection:
        connection.sendall(post(hub, "Transfer-Encoding: chunked", token=hub.seeded["alice"]))
        connection.sendall(b"2\r\n{}\r\n0\r\n" + b"a:b\r\n" * 2_000)
        assert read_to_end(connection).startswith(b"HTTP/1.1 400 ")


def test_an_invalid_request_ends_its_connection(hub: Hub) -> None:
    invalid = head(hub, "GET / HTTP/1.1", "X Y: 1")
    with connected(hub) as connection:
        connection.sendall(invalid * 50)
        assert read_to_end(connection).count(b"HTTP/1.1 400 ") == 1


def test_an_invalid_subprotocol_is_refused_without_a_traceback(hub: Hub) -> None:
    upgrade = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13")
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
    with connected(hub) as connection:
        connection.sendall(head(hub, "GET /ws/mcp HTTP/1.1", *upgrade, key, "Sec-WebSocket-Protocol: é"))
        assert read_to_end(connection).startswith(b"HTTP/1.1 400 ")
    assert "Traceback" not in hub.log()


# --- before the body --------------------------------------------------------------------------------------------------


def test_a_request_without_a_valid_token_is_refused_before_its_body(hub: Hub) -> None:
    for token in ("", "thp_" + "x" * 43):
        with connected(hub) as connection:
            connection.sendall(post(hub, "Content-Length: 4000000", token=token) + b" " * 100)
            answer = read_to_end(connection)
        assert answer.startswith(b"HTTP/1.1 401 ") and b"Connection: close" in answer
        assert b"WWW-Authenticate: Bearer" in answer


def test_a_foreign_origin_is_refused_before_its_body(hub: Hub) -> None:
    with connected(hub) as connection:
        connection.sendall(
            post(hub, "Content-Length: 4000000", "Origin: https://evil.example", token=hub.seeded["alice"])
        )
        assert read_to_end(connection).startswith(b"HTTP/1.1 403 ")


def test_a_client_that_expects_100_sends_no_body_in_vain(hub: Hub) -> None:
    body = initialize()
    framing = f"Content-Length: {len(body)}"
    with connected(hub) as connection:
        connection.sendall(post(hub, framing, "Expect: 100-continue"))
        assert read_to_end(connection).startswith(b"HTTP/1.1 401 "), "nothing before it"
    with connected(hub) as connection:
        connection.sendall(post(hub, framing, "Expect: 100-continue", token=hub.seeded["alice"]))
        assert connection.recv(65_536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        assert read_answer(connection).startswith(b"HTTP/1.1 200 ")


def test_what_follows_an_early_answer_is_not_read_as_a_request(hub: Hub) -> None:
    hidden = head(hub, "GET /healthz HTTP/1.1")
    with connected(hub) as connection:
        connection.sendall(post(hub, f"Content-Length: {len(hidden) + 1}"))
        first = connection.recv(65_536)
        connection.sendall(hidden)
        assert first.startswith(b"HTTP/1.1 401 ")
        assert b"ok\n" not in first + read_to_end(connection)


def test_a_body_in_many_pieces_arrives_as_it_was_sent(hub: Hub) -> None:
    body = initialize(padding=150_000)
    with connected(hub) as connection:
        connection.sendall(post(hub, "Transfer-Encoding: chunked", token=hub.seeded["alice"]))
        for start in range(0, len(body), 7001):
            piece = body[start : start + 7001]
            connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
        connection.sendall(b"0\r\n\r\n")
        answer = read_answer(connection)
        assert answer.startswith(b"HTTP/1.1 200 ") and b"protocolVersion" in answer
        connection.sendall(head(hub, "GET /healthz HTTP/1.1"))
        assert read_answer(connection).endswith(b"ok\n"), "the connection is kept after it"


def test_pipelined_requests_are_answered_in_order(hub: Hub) -> None:
    body = initialize()
    one = post(hub, f"Content-Length: {len(body)}", token=hub.seeded["alice"]) + body
    with connected(hub) as connection:
        connection.sendall(one + head(hub, "GET /healthz HTTP/1.1") + head(hub, "GET /nothing HTTP/1.1"))
        connection.settimeout(60)
        received = b""
        while received.count(b"HTTP/1.1 ") < 3:
            received += connection.recv(65_536)
    statuses = [part[:3] for part in received.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [b"200", b"200", b"404"]


FILE = "GET /static/unfold/fonts/inter/Inter-Bold.woff2 HTTP/1.1"


def test_pipelined_answers_wait_for_their_reader(hub: Hub) -> None:
    """Answers of 34 MB are asked for; few of them are made before the first is read, and all come in order."""
    before = read_memory_bytes(hub)
    with connected(hub, OTHER_ADDRESS, window=65_536) as connection:
        connection.sendall(head(hub, FILE) * 299 + head(hub, "GET /healthz HTTP/1.1", "Connection: close"))
        for _ in range(100):
            assert hub.get("/sign-in/")[0] == 200
        assert read_memory_bytes(hub) - before < 20_000_000
        received = read_to_end(connection)
    assert received.count(b"HTTP/1.1 200 OK") == 300 and received.endswith(b"ok\n")


def test_a_request_that_waits_for_the_answer_before_it_is_refused_before_its_body_too(hub: Hub) -> None:
    with connected(hub) as connection:
        connection.sendall(head(hub, "GET /sign-in/ HTTP/1.1") + post(hub, "Content-Length: 4000000") + b" " * 10)
        received = read_to_end(connection)
    statuses = [part[:3] for part in received.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [b"200", b"401"]


def test_a_client_that_would_speak_http_2_may_send_a_body(hub: Hub) -> None:
    body = initialize()
    with connected(hub) as connection:
        upgrade = ("Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABk")
        connection.sendall(post(hub, f"Content-Length: {len(body)}", *upgrade, token=hub.seeded["alice"]))
        connection.sendall(body)
        assert read_answer(connection).startswith(b"HTTP/1.1 200 ")


def test_the_handshake_of_a_websocket_has_no_body(hub: Hub) -> None:
    with connected(hub) as connection:
        upgrade = ("Upgrade: websocket", "Connection: Upgrade", "Content-Length: 10")
        connection.sendall(head(hub, "GET /ws/mcp HTTP/1.1", *upgrade, token=hub.seeded["alice"]))
        assert read_to_end(connection).startswith(b"HTTP/1.1 400 ")


# --- bodies that are held ---------------------------------------------------------------------------------------------


def test_one_user_cannot_hold_all_the_room_for_large_bodies(hub: Hub) -> None:
    """2 MB in all, 1 MB for one user, whatever tokens: the first body always has room, the second has none."""
    large = "Content-Length: 900000"
    another = hub.call(seed.create_cast)["bob"]
    with connected(hub) as first, connected(hub) as second, connected(hub) as other:
        for connection, token in ((first, hub.seeded["bob"]), (second, another)):
            connection.sendall(post(hub, large, token=token) + b" " * 70_000)
        other.sendall(post(hub, large, "Expect: 100-continue", token=hub.seeded["alice"]))
        assert other.recv(65_536).startswith(b"HTTP/1.1 100 "), "another user has room"
        refused, cut = sorted((read_answer(first), read_answer(second)), key=lambda answer: b"429" not in answer[:12])
    assert refused.startswith(b"HTTP/1.1 429 ") and b"retry-after: " in refused.lower() and b"large requests" in refused
    assert cut.startswith(b"HTTP/1.1 408 "), "it had room, and did not go on"


def test_one_address_cannot_hold_all_the_room_for_bodies_of_pages(hub: Hub) -> None:
    large = post(hub, "Content-Length: 900000", path="/sign-in/") + b" " * 700_000
    with connected(hub, OTHER_ADDRESS) as first, connected(hub, OTHER_ADDRESS) as second:
        first.sendall(large)
        second.sendall(large)
        answers = []
        for connection in (first, second):
            connection.settimeout(60)
            answers.append(connection.recv(65_536).split(b" ", 2)[1])
    assert sorted(answers) == [b"408", b"429"], "one was refused, the other did not go on"


# --- connections ------------------------------------------------------------------------------------------------------


def test_a_flood_of_silent_connections_keeps_nobody_of_that_address_out(hub: Hub) -> None:
    before = count_sockets(hub)
    with contextlib.ExitStack() as stack:
        for _ in range(5 * PER_ADDRESS):
            stack.enter_context(connected(hub))
        for _ in range(5):
            assert hub.get("/sign-in/")[0] == 200
        wait_until(lambda: count_sockets(hub) <= before + PER_ADDRESS + 5)
    wait_until(lambda: count_sockets(hub) <= before, what="nothing that is left")


def test_a_busy_address_gets_503_and_its_probes_an_answer(hub: Hub) -> None:
    upgrade = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13")
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
    with contextlib.ExitStack() as stack:
        for _ in range(PER_ADDRESS):
            busy = stack.enter_context(connected(hub, OTHER_ADDRESS))
            busy.sendall(head(hub, "GET /ws/mcp HTTP/1.1", *upgrade, key, token=hub.seeded["alice"]))
            assert b" 101 " in busy.recv(65_536)
        with connected(hub, OTHER_ADDRESS) as late:
            late.sendall(head(hub, "GET /sign-in/ HTTP/1.1"))
            answer = read_to_end(late)
            assert answer.startswith(b"HTTP/1.1 503 ") and b"Retry-After: " in answer
            assert b"Your address has 20 connections here. Close some, and try again in 5 s." in answer
        for path in ("/healthz", "/readyz"):
            with connected(hub, OTHER_ADDRESS) as probe:
                probe.sendall(head(hub, f"GET {path} HTTP/1.1"))
                assert read_to_end(probe).startswith(b"HTTP/1.1 200 ")
        assert hub.get("/sign-in/")[0] == 200, "another address is served"

    def is_served() -> bool:
        with connected(hub, OTHER_ADDRESS) as again:
            again.sendall(head(hub, "GET /sign-in/ HTTP/1.1", "Connection: close"))
            return read_to_end(again).startswith(b"HTTP/1.1 200 ")

    wait_until(is_served, what="places of WebSockets that are given back")


def test_what_follows_the_headers_of_a_refused_request_is_not_read(hub: Hub) -> None:
    upgrade = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13")
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
    with contextlib.ExitStack() as stack:
        for _ in range(PER_ADDRESS):
            busy = stack.enter_context(connected(hub, "127.0.0.13"))
            busy.sendall(head(hub, "GET /ws/mcp HTTP/1.1", *upgrade, key, token=hub.seeded["alice"]))
            assert b" 101 " in busy.recv(65_536)
        with connected(hub, "127.0.0.13") as late:
            late.sendall(head(hub, "GET /sign-in/ HTTP/1.1") + b"\r\n" * 20_000)
            assert read_to_end(late).count(b"HTTP/1.1 503 ") == 1


def open_sockets(
    stack: contextlib.ExitStack, hub: Hub, *client: str, sender: str = PROXY, count: int = PER_ADDRESS
) -> bytes:
    """So many WebSockets of this client or sender; returns their handshake."""
    upgrade = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13")
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
    handshake = head(hub, "GET /ws/mcp HTTP/1.1", *upgrade, key, *client, token=hub.seeded["alice"])
    for _ in range(count):
        one = stack.enter_context(connected(hub, sender))
        one.sendall(handshake)
        assert b" 101 " in one.recv(65_536)
    return handshake


def test_a_busy_client_behind_a_proxy_is_told_to_come_back(hub: Hub) -> None:
    client = "X-Forwarded-For: 192.0.2.90"
    with contextlib.ExitStack() as stack:
        socket_head = open_sockets(stack, hub, client)
        page, call = head(hub, "GET /sign-in/ HTTP/1.1", client), post(hub, "Content-Length: 2", client) + b"{}"
        for request in (page, call, socket_head):
            with connected(hub, PROXY) as late:
                late.sendall(request)
                answer = read_to_end(late)
                assert answer.startswith(b"HTTP/1.1 503 ") and b"\r\nRetry-After: 5\r\n" in answer
                assert b"20 requests and WebSockets in progress" in answer
                assert (b'"jsonrpc":"2.0"' in answer) == (request != page)
        with connected(hub, PROXY) as late:
            late.sendall(head(hub, "GET /healthz HTTP/1.1", client))
            assert read_answer(late).startswith(b"HTTP/1.1 200 "), "a probe is answered"
            late.sendall(head(hub, "GET /sign-in/ HTTP/1.1", "X-Forwarded-For: 192.0.2.91"))
            assert read_answer(late).startswith(b"HTTP/1.1 200 "), "another client of the same proxy"


def test_the_body_of_a_refused_request_is_not_decoded(hub: Hub) -> None:
    sender = "127.0.0.14"
    with contextlib.ExitStack() as stack:
        open_sockets(stack, hub, sender=sender)
        late = stack.enter_context(connected(hub, sender))
        late.sendall(head(hub, "POST /sign-in/ HTTP/1.1", "Transfer-Encoding: chunked") + b"no chunk\r\n")
        answer = read_to_end(late)
    assert answer.startswith(b"HTTP/1.1 503 ") and answer.count(b"HTTP/1.1 ") == 1


def test_a_connection_that_makes_room_has_its_last_answer(hub: Hub) -> None:
    sender = "127.0.0.15"
    with contextlib.ExitStack() as stack:
        open_sockets(stack, hub, sender=sender, count=PER_ADDRESS - 1)
        answered = stack.enter_context(connected(hub, sender))
        answered.sendall(head(hub, "GET /sign-in/ HTTP/1.1"))
        assert answered.recv(15, socket.MSG_PEEK | socket.MSG_WAITALL).startswith(b"HTTP/1.1 200 ")
        late = stack.enter_context(connected(hub, sender))
        late.sendall(head(hub, "GET /sign-in/ HTTP/1.1", "Connection: close"))
        assert read_to_end(late).startswith(b"HTTP/1.1 200 ")
        assert read_to_end(answered).endswith(b"</html>\n"), "no reset"


@pytest.fixture
def alone() -> Iterator[tuple[EdgeChannel, socket.socket, Callable[[], None]]]:
    """A channel, its client, and one round of their event loop, which makes no round by itself."""
    loop, edge = SelectReactor(), Connections(Limits())
    server: Any = SimpleNamespace(edge=edge)
    listening = loop.listenTCP(0, EdgeFactory(server), interface="127.0.0.1")
    with socket.create_connection(("127.0.0.1", listening.getHost().port), timeout=60) as client:
        while not edge.open:
            loop.iterate()
        (channel,) = edge.open
        assert isinstance(channel, EdgeChannel)
        edge.on_headers(channel)
        channel.phase = Phase.IDLE
        yield channel, client, loop.iterate
    for one in loop.removeAll():
        one.connectionLost(Failure(ConnectionDone()))


def make_room(channel: EdgeChannel, go_round: Callable[[], None], closes: bool) -> None:
    """Take the place of a channel that has been answered, and go on until its connection has ended."""
    if closes:
        channel.loseConnection()
    channel.connections.remove(channel)
    channel.evict()
    while channel.transport.connected:
        go_round()


@pytest.mark.parametrize("closes", [False, True], ids=["kept", "closed after its answer"])
def test_a_connection_that_makes_room_has_the_answer_that_waits_for_the_event_loop(alone: Any, closes: bool) -> None:
    channel, client, go_round = alone
    channel.transport.write(b"an answer")
    make_room(channel, go_round, closes)
    assert read_to_end(client) == b"an answer"


@pytest.mark.parametrize("closes", [False, True], ids=["kept", "closed after its answer"])
async def test_a_connection_that_makes_room_waits_for_no_reader(alone: Any, closes: bool) -> None:
    channel, client, go_round = alone
    channel.transport.write(b"x" * 30_000_000)
    make_room(channel, go_round, closes)
    with pytest.raises(ConnectionResetError):
        read_to_end(client)


@contextlib.contextmanager
def standing_still(hub: Hub) -> Iterator[None]:
    """What comes inside waits for a server that is busy with something else."""
    (pid,) = hub.worker_pids()
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_kept_connections_whose_next_request_has_come_make_room_after_the_others(hub: Hub) -> None:
    sender, probe = "127.0.0.18", head(hub, "GET /healthz HTTP/1.1")
    with contextlib.ExitStack() as stack:
        kept = [stack.enter_context(connected(hub, sender)) for _ in range(PER_ADDRESS)]
        for one in kept:
            one.sendall(probe)
            read_answer(one)
        asking, idle = kept[: PER_ADDRESS // 2], kept[PER_ADDRESS // 2 :]
        with standing_still(hub):
            later = [stack.enter_context(connected(hub, sender)) for _ in idle]
            for one in later + asking:
                one.sendall(probe)
        assert all(read_answer(one).startswith(b"HTTP/1.1 200 ") for one in later + asking)
        assert [read_to_end(one) for one in idle] == [b""] * len(idle)


def test_many_refusals_of_one_client_behind_a_proxy_wait_and_are_answered(hub: Hub) -> None:
    client = "X-Forwarded-For: 192.0.2.93"
    with contextlib.ExitStack() as stack:
        open_sockets(stack, hub, client)
        late = [stack.enter_context(connected(hub, PROXY)) for _ in range(2 * REFUSALS_PER_SECOND)]
        for one in late:
            one.sendall(head(hub, "GET /sign-in/ HTTP/1.1", client))
        answers = [read_to_end(one) for one in late]
    assert all(one.startswith(b"HTTP/1.1 503 ") and b"\r\nRetry-After: 5\r\n" in one for one in answers)


def test_an_idle_connection_of_a_proxy_is_nobodys(hub: Hub) -> None:
    client = "X-Forwarded-For: 192.0.2.92"
    with contextlib.ExitStack() as stack:
        kept = [stack.enter_context(connected(hub, PROXY)) for _ in range(PER_ADDRESS + 1)]
        for one in kept:
            one.sendall(head(hub, "GET /sign-in/ HTTP/1.1", client))
            assert read_answer(one).startswith(b"HTTP/1.1 200 ")
        assert not select.select(kept, [], [], 0)[0], "none was closed for another one"


# --- readers ----------------------------------------------------------------------------------------------------------


def call_large(hub: Hub) -> bytes:
    body = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {
                "name": "large",
                "arguments": {},
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientInfo": {"name": "edge", "version": "1"},
                    "io.modelcontextprotocol/clientCapabilities": {},
                },
            },
        }
    ).encode()
    headers = (
        JSON_TYPE,
        "MCP-Protocol-Version: 2026-07-28",
        "Mcp-Method: tools/call",
        "Mcp-Name: large",
        f"Content-Length: {len(body)}",
    )
    return head(hub, "POST /mcp HTTP/1.1", *headers, token=hub.seeded["bob"]) + body


def read_memory_bytes(hub: Hub) -> int:
    (pid,) = hub.worker_pids()
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def test_a_reader_that_takes_nothing_is_cut_and_its_answer_freed(hub: Hub) -> None:
    with connected(hub) as warm:
        warm.sendall(call_large(hub))
        assert len(read_answer(warm)) > 15_000_000
    before = read_memory_bytes(hub)
    for _ in range(6):
        with connected(hub, "127.0.0.10", window=4096) as connection:
            connection.sendall(call_large(hub))
            assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
            wait_until(partial(has_ended, connection))
    assert read_memory_bytes(hub) - before < 60_000_000, "six answers of 30 MB are not kept"
    assert "an answer was read slower than TOOLHUB_MIN_BYTES_PER_SECOND" in hub.log()


def has_ended(connection: socket.socket) -> bool:
    """Whether the server has reset the connection; nothing of it is read."""
    return connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0


def test_a_slow_but_steady_reader_gets_everything(hub: Hub) -> None:
    """20 kB a second, as a phone: for three times as long as a reader may take nothing."""
    with connected(hub, window=4096) as connection:
        connection.sendall(call_large(hub))
        received, ends = 0, time.monotonic() + 3 * SLOW_READER_SECONDS
        while time.monotonic() < ends:
            received += len(connection.recv(2000))
            time.sleep(0.1)
        answer_bytes = received + len(read_answer_rest(connection, received))
    assert answer_bytes > 15_000_000


def read_answer_rest(connection: socket.socket, received: int) -> bytes:
    rest = b""
    parts = []
    while received < 15_000_000 or not rest.endswith(b"}"):
        more = connection.recv(1_000_000)
        assert more, f"the connection was closed after {received} bytes"
        received += len(more)
        rest = more
        parts.append(more)
    return b"".join(parts)
