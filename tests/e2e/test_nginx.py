"""Behind a real nginx, with the README's configuration: nobody gets a 502, waits for a buffer, or stops the others.

The clients have addresses of their own, 127.0.0.x, and nginx, which has 127.0.0.1, tells the server about them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from tests.client import HttpClient, WebSocketClient
from tests.e2e import attacks
from tests.e2e.attacks import Canary, Line, SmallHub, Target, message
from tests.nginx import CONNECTION, PASS, answers, listen, read_location
from tests.nginx import run as run_program
from tests.polling import wait_until_async

ALICE, BOB, ATTACKER, CAROL = "127.0.0.5", "127.0.0.6", "127.0.0.66", "127.0.0.7"
INVENTED = "203.0.113.99"
PER_ADDRESS = 20
SERVER_KEEPS_SECONDS = 1
NGINX_KEEPS_SECONDS = 0.5
LINES = 8
GAPS = (0.05, 0.47, 0.5, 0.53, 1.0, 1.03)
"""Seconds between rounds of calls: around the times after which nginx and the server close idle connections."""
ATTACK_SECONDS = 0.8
UPLOAD_BYTES, UPLOAD_RATE = 100_000, 20_000
READ_BYTES, READ_RATE = 500_000, 100_000
SEND_BUFFER_BYTES = 16_384
"""What the kernel takes from nginx for a client: without a bound a whole answer would wait there."""
ESTABLISHED, CLOSED_FIRST = "01", {"04", "05", "06", "0B"}
"""States in /proc/net/tcp; the others are of a socket that has closed before its peer did."""

ENV = {
    "TOOLHUB_TRUSTED_PROXIES": "127.0.0.1",
    "TOOLHUB_TOOL_MODULES": "tests.e2e.functions,tests.e2e.large_tools",
    "TOOLHUB_KEEPALIVE_SECONDS": str(SERVER_KEEPS_SECONDS),
    "TOOLHUB_MAX_CONNECTIONS_PER_ADDRESS": str(PER_ADDRESS),
    # Shorter than the slow upload and the slow answer take in all.
    "TOOLHUB_HEADER_SECONDS": "3",
    "TOOLHUB_SLOW_READER_SECONDS": "2",
}
CONFIGURATION = """
    upstream toolhub {{
        server 127.0.0.1:{hub};
        keepalive 16;
        keepalive_timeout {keeps}ms;
    }}
    map $http_upgrade $connection_upgrade {{
        default upgrade;
        '' '';
    }}
    {servers}
"""


@dataclass(frozen=True)
class Nginx:
    """The ports of one nginx, each with a configuration of its own in front of the same server."""

    plain: int
    """The README's."""
    pooled: int
    """The README's, with connections to the server that are kept."""
    streaming: int
    """As `pooled`, with bodies that are passed on as they come."""


def seed() -> dict[str, str]:
    from tests.e2e.seed import create_cast, grant_tool

    tokens = create_cast()
    grant_tool("echo", ["alice", "bob"], max_argument_bytes=4_000_000, max_result_bytes=4_000_000)
    grant_tool("ask_name", ["alice"])
    grant_tool("chatter", ["bob"])
    grant_tool("large", ["bob"], max_result_bytes=2 * 16_000_000)
    return tokens


def list_addresses(username: str) -> list[list[str]]:
    """Transport and address of every call of this user."""
    from audit.models import Call

    calls = Call.objects.filter(method="tools/call", username=username)
    return sorted([call.transport, call.address] for call in calls)


@contextlib.contextmanager
def run_nginx(hub_port: int, folder: Path) -> Iterator[Nginx]:
    plain = read_location().replace(PASS, f"proxy_pass http://127.0.0.1:{hub_port};")
    pooled = read_location().replace(PASS, "proxy_pass http://toolhub;")
    pooled = pooled.replace(CONNECTION, "proxy_set_header Connection $connection_upgrade;")
    streaming = pooled.replace("{", "{\nproxy_request_buffering off;", 1)
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(listen(SEND_BUFFER_BYTES)) for _ in range(3)]
        ports = [int(listener.getsockname()[1]) for listener in listeners]
        servers = [
            f"server {{ listen 127.0.0.1:{port}; {location} }}"
            for port, location in zip(ports, (plain, pooled, streaming), strict=True)
        ]
        content = CONFIGURATION.format(hub=hub_port, keeps=int(NGINX_KEEPS_SECONDS * 1000), servers="\n".join(servers))
        with run_program(content, listeners, folder, lambda: all(map(answers, ports))):
            yield Nginx(*ports)


@pytest.fixture(scope="module")
def hub() -> Iterator[SmallHub]:
    with SmallHub(env=ENV, seed=seed) as running:
        yield running


@pytest.fixture(scope="module")
def nginx(hub: SmallHub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    with run_nginx(hub.port, tmp_path_factory.mktemp("nginx")) as running:
        yield running


async def read_answer(line: Line) -> tuple[int, bytes]:
    """Status and body of an answer that says its length."""
    async with asyncio.timeout(30):
        head = await line.reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"\r\ncontent-length: (\d+)\r\n", head, re.IGNORECASE)
        assert length is not None, head
        return int(head.split()[1]), await line.reader.readexactly(int(length[1]))


async def call_echo(target: Target, line: Line, text: str = "hello") -> tuple[int, bool]:
    """The status of one call, and whether the answer is the right one."""
    await line.send(target.call("echo", {"text": text}))
    status, body = await read_answer(line)
    return status, text.encode() in body


@contextlib.asynccontextmanager
async def opened(target: Target, window: int = 0) -> Any:
    line = await target.connect(window)
    try:
        yield line
    finally:
        line.close()


# --- kept connections -------------------------------------------------------------------------------------------------


def list_peers(port: int, states: set[str]) -> set[int]:
    """Ports of the peers of the server's sockets that are in one of these states."""
    found = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, state = line.split()[:4]
        if int(local.partition(":")[2], 16) == port and state in states:
            found.add(int(remote.partition(":")[2], 16))
    return found


async def test_calls_around_the_end_of_idle_connections_are_all_answered(hub: SmallHub, nginx: Nginx) -> None:
    """Nginx keeps connections for a shorter time than the server, so it is always nginx that closes an idle one."""
    target = Target(nginx.pooled, hub.seeded["alice"], sender=ALICE)
    answers: list[tuple[int, bool]] = []
    kept: list[set[int]] = []
    async with contextlib.AsyncExitStack() as stack:
        lines = [await stack.enter_async_context(opened(target)) for _ in range(LINES)]
        for gap in (0.0, *GAPS):
            await asyncio.sleep(gap)
            answers.append(await call_echo(target, lines[0]))
            answers += await asyncio.gather(*(call_echo(target, line) for line in lines))
            kept.append(list_peers(hub.port, {ESTABLISHED}))
    assert answers == [(200, True)] * len(answers)
    assert kept[0] & kept[1], "no connection was kept for the next round"
    await wait_until_async(lambda: not list_peers(hub.port, {ESTABLISHED}), 10, "nginx closes its idle connections")
    assert not set.union(*kept) & list_peers(hub.port, CLOSED_FIRST), "the server closed a connection that nginx kept"


async def test_a_rejected_upload_is_answered_and_the_next_call_too(hub: SmallHub, nginx: Nginx) -> None:
    """The server answers before it has taken the body, and closes: nginx passes on that answer instead of a 502."""
    honest = Target(nginx.pooled, hub.seeded["alice"], sender=ALICE)
    size = 3_000_000
    for port in (nginx.plain, nginx.pooled, nginx.streaming):
        target = Target(port, "thp_" + "x" * 43, sender=BOB)
        async with opened(target) as line, opened(honest) as other:
            head = target.post(f"Content-Length: {size}", token=target.token) + b"\r\n"
            sent = asyncio.create_task(line.send(head + b" " * size))
            assert (await read_answer(line))[0] == 401
            sent.cancel()
            assert await call_echo(honest, other) == (200, True)


# --- attacks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, connections, through_nginx",
    [
        ("header drip", 300, True),
        ("unfinished large bodies with a token", 40, True),
        ("answers that nobody reads", 4, True),
        ("idle WebSockets", 60, True),
        ("unfinished large bodies with a token", 40, False),
        ("answers that nobody reads", 4, False),
    ],
)
async def test_an_attack_stops_no_client_of_nginx(
    hub: SmallHub, nginx: Nginx, name: str, connections: int, through_nginx: bool
) -> None:
    attacker = Target(nginx.pooled if through_nginx else hub.port, hub.seeded["bob"], sender=ATTACKER)
    canary = Canary(Target(nginx.pooled, hub.seeded["alice"], sender=ALICE))
    async with attacks.running(name, attacker, connections):
        await canary.run(ATTACK_SECONDS)
    assert not canary.failures
    assert canary.seconds and canary.probe_seconds


# --- what must not be buffered ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["plain", "pooled"])
async def test_messages_come_through_before_the_answer_is_complete(hub: SmallHub, nginx: Nginx, kind: str) -> None:
    """The tool waits for an answer to its question: held back in a buffer, the question would never be answered."""
    port, token = getattr(nginx, kind), hub.seeded["alice"]
    options: dict[str, Any] = {
        "capabilities": {"elicitation": {}},
        "answers": {"elicitation/create": lambda params: {"action": "accept", "content": {"name": "Ada"}}},
    }
    over_http = HttpClient(f"http://127.0.0.1:{port}/mcp", token, "2025-11-25", **options)
    over_websocket = WebSocketClient(f"ws://127.0.0.1:{port}/ws/mcp", token, "2025-11-25", **options)
    for client in (over_http, over_websocket):
        async with client, asyncio.timeout(10):
            assert "Ada" in await client.text("ask_name")
    assert over_http.content_type == "text/event-stream"


# --- addresses --------------------------------------------------------------------------------------------------------


def open_socket(port: int, token: str, sender: str, **headers: str) -> connect:
    return connect(
        f"ws://127.0.0.1:{port}/ws/mcp",
        subprotocols=[Subprotocol("mcp")],
        additional_headers={"Authorization": f"Bearer {token}", **headers},
        local_addr=(sender, 0),
        proxy=None,
    )


async def test_calls_are_logged_with_the_address_that_nginx_sees(hub: SmallHub, nginx: Nginx) -> None:
    token, before = hub.seeded["bob"], await asyncio.to_thread(hub.call, list_addresses, username="bob")
    ask = json.dumps(message("tools/call", {"name": "echo", "arguments": {"text": "hello"}}))
    for port in (nginx.plain, nginx.pooled, hub.port):
        target = Target(port, token, sender=BOB, forwarded_for=INVENTED)
        async with opened(target) as line:
            assert await call_echo(target, line) == (200, True)
        async with open_socket(port, token, BOB, **{"X-Forwarded-For": INVENTED}) as client:
            await client.send(ask)
            assert "hello" in str(await client.recv())
    after = await asyncio.to_thread(hub.call, list_addresses, username="bob")
    for row in before:
        after.remove(row)
    assert after == [["http", BOB]] * 3 + [["websocket", BOB]] * 3


async def test_clients_count_by_their_own_address_and_nginx_does_not(hub: SmallHub, nginx: Nginx) -> None:
    token = hub.seeded["alice"]
    clients: list[ClientConnection] = []
    async with contextlib.AsyncExitStack() as stack:
        for sender in [ALICE] * PER_ADDRESS + [BOB] * (PER_ADDRESS - 1) + [CAROL] * (PER_ADDRESS - 1):
            clients.append(await stack.enter_async_context(open_socket(nginx.pooled, token, sender)))
        with pytest.raises(InvalidStatus) as late:
            await stack.enter_async_context(open_socket(nginx.pooled, token, ALICE))
        assert late.value.response.status_code == 503 and late.value.response.headers["Retry-After"]
        for sender, status in ((ALICE, 503), (BOB, 200)):
            target = Target(nginx.pooled, token, sender=sender)
            async with opened(target) as line:
                assert (await call_echo(target, line))[0] == status
    assert len(clients) == 3 * PER_ADDRESS - 2


# --- slow clients -----------------------------------------------------------------------------------------------------


async def upload_slowly(target: Target) -> tuple[int, bool]:
    text = "x" * UPLOAD_BYTES
    request = target.call("echo", {"text": text})
    async with opened(target) as line:
        step = UPLOAD_RATE // 10
        for start in range(0, len(request), step):
            await line.send(request[start : start + step])
            await asyncio.sleep(step / UPLOAD_RATE)
        status, body = await read_answer(line)
        return status, text.encode() in body


async def read_slowly(target: Target) -> tuple[int, bool]:
    text = "x" * READ_BYTES
    async with opened(target, window=attacks.WINDOW_BYTES) as line:
        await line.send(target.call("echo", {"text": text}))
        head = await line.reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"\r\ncontent-length: (\d+)\r\n", head, re.IGNORECASE)
        assert length is not None, head
        body, started = b"", time.monotonic()
        while len(body) < int(length[1]):
            piece = await line.reader.read(READ_RATE // 10)
            assert piece, f"the answer ended after {len(body)} bytes of {length[1]!r}"
            body += piece
            await asyncio.sleep(started + len(body) / READ_RATE - time.monotonic())
        result = json.loads(body)["result"]
        return int(head.split()[1]), result["content"][0]["text"] == text


async def test_a_slow_upload_and_a_slow_reader_are_served(hub: SmallHub, nginx: Nginx) -> None:
    token = hub.seeded["alice"]
    outcomes = await asyncio.gather(
        *(upload_slowly(Target(port, token, sender=ALICE)) for port in (nginx.plain, nginx.pooled, nginx.streaming)),
        *(read_slowly(Target(port, token, sender=BOB)) for port in (nginx.plain, nginx.pooled)),
    )
    assert outcomes == [(200, True)] * 5
