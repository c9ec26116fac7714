"""Clients that connect again and again: what an address gets that asks faster than its rate of new connections."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest

from tests.e2e import seed
from tests.e2e.attacks import Target
from tests.edge.test_channel import connected, count_sockets, head, initialize, read_answer, read_to_end
from tests.polling import wait_until
from tests.real_servers import Hub
from toolhub.edge.connections import MAX_OVER_LIMIT

PER_ADDRESS = 4
SETTING = "TOOLHUB_CONNECTIONS_RATE"
RATE, SECONDS_FOR_ONE = "20/m", 3.0


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    env = {
        "TOOLHUB_MAX_CONNECTIONS_PER_ADDRESS": str(PER_ADDRESS),
        SETTING: RATE,
        "TOOLHUB_HEADER_SECONDS": "2",
        "TOOLHUB_WEBSOCKET_HEADER_SECONDS": "1",
    }
    with Hub(env=env, seed=seed.seed_examples) as running:
        yield running


def page(hub: Hub) -> bytes:
    return head(hub, "GET /sign-in/ HTTP/1.1")


def use_up(hub: Hub, sender: str) -> None:
    """Have so many requests served as may come at once."""
    for _ in range(PER_ADDRESS):
        with connected(hub, sender) as one:
            one.sendall(page(hub))
            assert read_answer(one).startswith(b"HTTP/1.1 200 ")


def test_a_request_that_comes_too_fast_waits_and_is_answered(hub: Hub) -> None:
    begun = time.monotonic()
    use_up(hub, "127.0.0.11")
    with connected(hub, "127.0.0.11") as waiting:
        waiting.sendall(page(hub) + head(hub, "GET /sign-in/ HTTP/1.1", "Connection: close"))
        wait_until(lambda: hub.has_logged_limit("127.0.0.11", SETTING))
        with connected(hub, "127.0.0.11") as probe:
            probe.sendall(head(hub, "GET /healthz HTTP/1.1", "Connection: close"))
            assert read_to_end(probe).startswith(b"HTTP/1.1 200 "), "a probe does not wait"
        with connected(hub, "127.0.0.12") as other:
            other.sendall(page(hub))
            assert read_answer(other).startswith(b"HTTP/1.1 200 "), "nor does another address"
        answers = read_to_end(waiting)
        assert time.monotonic() - begun >= SECONDS_FOR_ONE
        assert answers.startswith(b"HTTP/1.1 200 "), "longer than headers may take"
        assert answers.count(b"HTTP/1.1 200 ") == 2, "the next request of a connection has no rate"


def test_requests_on_a_kept_connection_have_no_rate(hub: Hub) -> None:
    with connected(hub, "127.0.0.13") as kept:
        for _ in range(3 * PER_ADDRESS):
            kept.sendall(page(hub))
            assert read_answer(kept).startswith(b"HTTP/1.1 200 ")


def test_a_body_that_came_with_a_waiting_request_is_not_lost(hub: Hub) -> None:
    use_up(hub, "127.0.0.14")
    body = initialize(padding=100_000)
    with connected(hub, "127.0.0.14") as waiting:
        lines = ("Content-Type: application/json", f"Content-Length: {len(body)}")
        waiting.sendall(head(hub, "POST /mcp HTTP/1.1", *lines, token=hub.seeded["alice"]) + body[:20])
        wait_until(lambda: hub.has_logged_limit("127.0.0.14", SETTING))
        waiting.sendall(body[20:])
        answer = read_answer(waiting)
        assert answer.startswith(b"HTTP/1.1 200 ") and b'"protocolVersion"' in answer, answer


def test_a_websocket_waits_too_and_is_opened(hub: Hub) -> None:
    use_up(hub, "127.0.0.15")
    with connected(hub, "127.0.0.15") as waiting:
        waiting.sendall(Target(hub.port, hub.seeded["alice"]).upgrade())
        wait_until(lambda: hub.has_logged_limit("127.0.0.15", SETTING))
        assert b" 101 " in waiting.recv(65_536)


def test_who_waits_makes_room_and_who_leaves_leaves_nothing(hub: Hub) -> None:
    use_up(hub, "127.0.0.16")
    before = count_sockets(hub)
    with contextlib.ExitStack() as stack:
        waiting = [stack.enter_context(connected(hub, "127.0.0.16")) for _ in range(PER_ADDRESS)]
        for one in waiting:
            one.sendall(page(hub))
        with connected(hub, "127.0.0.19") as other:
            other.sendall(page(hub))
            read_answer(other)  # what came before it has been read
        stack.enter_context(connected(hub, "127.0.0.16")).sendall(page(hub))
        with contextlib.suppress(ConnectionResetError):
            assert waiting[0].recv(1) == b"", "the one that has waited for longest"
    wait_until(lambda: count_sockets(hub) <= before, what="nothing that is left")


def is_closed_at_once(opened: socket.socket) -> bool:
    try:
        return opened.recv(1) == b""
    except ConnectionResetError:
        return True


def test_most_new_connections_of_a_busy_address_are_closed_at_once(hub: Hub) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(PER_ADDRESS):
            busy = stack.enter_context(connected(hub, "127.0.0.17"))
            busy.sendall(Target(hub.port, hub.seeded["bob"]).upgrade())
            assert b" 101 " in busy.recv(65_536)
        late = [stack.enter_context(connected(hub, "127.0.0.17")) for _ in range(MAX_OVER_LIMIT + 10)]
        assert is_closed_at_once(late[-1])
        early = late[MAX_OVER_LIMIT // 2]
        early.sendall(page(hub))
        assert read_to_end(early).startswith(b"HTTP/1.1 503 "), "some are told why"
        with connected(hub, "127.0.0.18") as other:
            other.sendall(page(hub))
            assert read_answer(other).startswith(b"HTTP/1.1 200 "), "another address is served"
    assert hub.has_logged_limit("127.0.0.17", "TOOLHUB_MAX_CONNECTIONS_PER_ADDRESS")


@pytest.fixture(scope="module")
def proxied() -> Iterator[Hub]:
    env = {
        "TOOLHUB_TRUSTED_PROXIES": "127.0.0.1",
        "TOOLHUB_MAX_CONNECTIONS_PER_ADDRESS": str(PER_ADDRESS),
        SETTING: RATE,
    }
    with Hub(env=env, seed=seed.seed_examples) as running:
        yield running


@contextlib.contextmanager
def opening(hub: Hub, client: str) -> Iterator[socket.socket]:
    """Ask for a WebSocket as a proxy does for this client."""
    with connected(hub) as opened:
        opened.sendall(Target(hub.port, hub.seeded["alice"], forwarded_for=client).upgrade())
        yield opened


def use_up_websockets(hub: Hub, client: str) -> None:
    for _ in range(PER_ADDRESS):
        with opening(hub, client) as one:
            assert b" 101 " in one.recv(65_536)


def test_websockets_of_a_client_behind_a_proxy_wait_for_its_rate(proxied: Hub) -> None:
    begun = time.monotonic()
    use_up_websockets(proxied, "198.51.100.21")
    with opening(proxied, "198.51.100.21") as waiting:
        wait_until(lambda: proxied.has_logged_limit("198.51.100.21", SETTING))
        with opening(proxied, "198.51.100.22") as other:
            assert b" 101 " in other.recv(65_536), "another client of the same proxy is served"
        with connected(proxied) as kept:
            for _ in range(3 * PER_ADDRESS):
                kept.sendall(head(proxied, "GET /sign-in/ HTTP/1.1", "X-Forwarded-For: 198.51.100.21"))
                assert read_answer(kept).startswith(b"HTTP/1.1 200 "), "requests of the same client have no rate"
        assert b" 101 " in waiting.recv(65_536)
        assert time.monotonic() - begun >= SECONDS_FOR_ONE


def test_a_client_behind_a_proxy_that_leaves_while_it_waits_leaves_nothing(proxied: Hub) -> None:
    use_up_websockets(proxied, "198.51.100.23")
    before = count_sockets(proxied)
    with contextlib.ExitStack() as leaving:
        for _ in range(PER_ADDRESS):
            leaving.enter_context(opening(proxied, "198.51.100.23"))
        wait_until(lambda: proxied.has_logged_limit("198.51.100.23", SETTING))
        with opening(proxied, "198.51.100.23") as late:
            assert late.recv(65_536).startswith(b"HTTP/1.1 503 "), "those that wait count"
    wait_until(lambda: count_sockets(proxied) <= before, what="nothing that is left")
    with opening(proxied, "198.51.100.23") as next_one:
        next_one.settimeout(PER_ADDRESS * SECONDS_FOR_ONE)
        assert b" 101 " in next_one.recv(65_536), "nobody waits before it any more"
