"""What belongs to a request or a connection is gone when it ends, and waits for no collection of garbage.

Collections of older objects are rare in a serving process. Until one, the cycles of a flood had kept 200 MB.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Awaitable, Callable, Iterator

import pytest

from tests.e2e import seed
from tests.e2e.attacks import Line, Target
from tests.polling import wait_until_async
from tests.real_servers import Hub

REPEATS = 12
OWN = 1
"""Of each kind, what the counting call itself has."""


def seed_counting() -> dict[str, str]:
    tokens = seed.seed_attacked()
    seed.grant_tool("count_left", ["alice"])
    return tokens


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    modules = "tests.e2e.functions,tests.e2e.large_tools,tests.e2e.garbage_tools"
    with Hub(env={"TOOLHUB_TOOL_MODULES": modules}, seed=seed_counting) as running:
        yield running


async def read_answer(line: Line) -> bytes:
    head = await line.reader.readuntil(b"\r\n\r\n")
    length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
    return head + await line.reader.readexactly(int(length or 0))


async def ask(target: Target, data: bytes) -> bytes:
    line = await target.connect()
    try:
        await line.send(data)
        return await read_answer(line)
    finally:
        line.close()


async def count_left(honest: Target, *, stop: bool = False) -> dict[str, int]:
    answer = await ask(honest, honest.call("count_left", {"stop": stop}))
    result = json.loads(answer.partition(b"\r\n\r\n")[2])["result"]
    found: dict[str, int] = json.loads(result["content"][0]["text"])
    return found


async def call(target: Target) -> None:
    assert b" 200 " in await ask(target, target.call("echo", {"text": "x"}))


async def call_unknown(target: Target) -> None:
    await ask(target, target.call("nothing", {}))


async def leave_a_call(target: Target) -> None:
    line = await target.connect()
    await line.send(target.call("chatter", {}, logLevel="debug"))
    await line.reader.readuntil(b"notifications/")
    line.close()


async def use_an_invalid_token(target: Target) -> None:
    invented = Target(target.port, "thp_" + "x" * 43, target.sender)
    assert b" 401 " in await ask(invented, invented.call("echo", {"text": "x"}))


async def leave_half_a_body(target: Target) -> None:
    line = await target.connect()
    await line.send(target.post("Content-Length: 5000", token=target.token) + b"\r\n" + b"{" * 100)
    line.close()


async def leave_half_a_header(target: Target) -> None:
    line = await target.connect()
    await line.send(b"POST /mcp HTTP/1.1\r\nHost: x")
    line.close()


async def open_socket(target: Target) -> Line:
    line = await target.connect()
    await line.send(target.upgrade())
    assert b" 101 " in await line.reader.readuntil(b"\r\n\r\n")
    return line


async def leave_a_socket(target: Target) -> None:
    (await open_socket(target)).close()


async def send_an_invalid_frame(target: Target) -> None:
    line = await open_socket(target)
    await line.send(b"\xff\xff")
    await line.read_and_drop()
    line.close()


async def send_a_frame_too_early(target: Target) -> None:
    line = await target.connect()
    await line.send(target.upgrade() + b"\xff\xff")
    line.close()


async def call_over_a_socket(target: Target) -> None:
    line = await open_socket(target)
    body = target.call("chatter", {}, logLevel="debug").partition(b"\r\n\r\n")[2]
    await line.send(b"\x81\xfe" + len(body).to_bytes(2, "big") + b"\0\0\0\0" + body)  # masked with zeros
    await line.reader.readuntil(b"notifications/")
    line.close()


async def begin_a_session(target: Target) -> None:
    asked = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": asked}).encode()
    head = target.head(
        "POST /mcp HTTP/1.1", "Content-Type: application/json", f"Content-Length: {len(body)}", token=target.token
    )
    assert b"mcp-session-id" in (await ask(target, head + b"\r\n" + body)).lower()


async def leave_a_stream(target: Target) -> None:
    line = await target.connect()
    await line.send(target.post_message("subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
    assert b" 200 " in await line.reader.readuntil(b"\r\n\r\n")
    line.close()


KINDS: tuple[Callable[[Target], Awaitable[None]], ...] = (
    call,
    call_unknown,
    leave_a_call,
    use_an_invalid_token,
    leave_half_a_body,
    leave_half_a_header,
    leave_a_socket,
    send_an_invalid_frame,
    send_a_frame_too_early,
    call_over_a_socket,
    begin_a_session,
    leave_a_stream,
)


@pytest.mark.parametrize("work", KINDS, ids=lambda work: work.__name__.replace("_", " "))
async def test_nothing_is_left_of_what_has_ended(hub: Hub, work: Callable[[Target], Awaitable[None]]) -> None:
    honest, other = Target(hub.port, hub.seeded["alice"]), Target(hub.port, hub.seeded["bob"], sender="127.0.0.66")
    await count_left(honest, stop=True)
    for _ in range(REPEATS):
        await work(other)

    found: dict[str, int] = {}

    async def is_gone() -> bool:
        found.clear()
        found.update(await count_left(honest))
        return max(found.values()) <= OWN

    with contextlib.suppress(AssertionError):  # what is left says more
        await wait_until_async(is_gone, 30.0)
    assert max(found.values()) <= OWN, found
