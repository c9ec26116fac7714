"""Recorded requests with something wrong, over HTTP and WebSocket: never a 500, a traceback, a hang, or a call that is
not logged.

TOOLHUB_TEST_SEED=7 looks elsewhere than the default, TOOLHUB_TEST_CASES=100000 longer; every failure names the seed.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import os
import random
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from tests.client import HttpClient, WebSocketClient
from tests.e2e import mutations, proofs
from tests.e2e.mutations import Mutator
from tests.e2e.raw import Answer, ConnectionLost, Raw
from tests.polling import wait_until_async
from tests.real_servers import Hub
from toolhub.wire import versions

SEED = int(os.environ.get("TOOLHUB_TEST_SEED", "20260728"))
CASES = int(os.environ.get("TOOLHUB_TEST_CASES", "20600"))
HTTP, FRAMES = CASES * 4 // 10, CASES * 6 // 10
BROKEN_REQUESTS = 300
"""Requests whose very framing is wrong, each on a connection of its own."""
CONNECTIONS = 10
SOCKETS = 4
BURST = 25
"""Frames sent on a socket before its answers are waited for."""
HANG_SECONDS = 30.0
"""Seconds without an answer, twice in a row, are a hang: five would do for a machine that does nothing else."""


class Recorded(NamedTuple):
    method: str
    path: str
    headers: list[tuple[str, str]]
    message: Any


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    env = {
        "TOOLHUB_TOOL_MODULES": proofs.MODULES,
        "PROOF_LEDGER": str(tmp_path_factory.mktemp("fuzz") / "ledger"),
        "TOOLHUB_BAD_TOKENS_RATE": "1000000/m",
        "TOOLHUB_REQUESTS_RATE": "1000000/m",
    }
    with Hub(env=env, seed=proofs.seed_everything) as running:
        yield running


# --- recording -------------------------------------------------------------------------------------------------------


async def tour(client: Any) -> None:
    """What a client does, with quick tools: nothing here may wait for a person."""
    modern = client.modern
    await client.tools()
    await client.call("ledger", {"entry": "recorded"}, meta={"progressToken": 1})
    await client.call("plus", {"a": 1, "b": 2.5})
    await client.call("whose", {"nonce": "n"})
    for method, params in (
        ("prompts/list", {}),
        ("resources/list", {}),
        ("resources/templates/list", {}),
        ("resources/read", {"uri": "toolhub://results/0"}),
        ("prompts/get", {"name": "none", "arguments": {"a": "b"}}),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "none"}, "argument": {"name": "a", "value": ""}},
        ),
        ("server/discover", {}) if modern else ("ping", {}),
        ("tasks/get", {"taskId": "0"}) if modern else ("logging/setLevel", {"level": "error"}),
    ):
        try:
            await client.request(method, params)
        except Exception as error:
            if "-32" not in str(error) and "HTTP 4" not in str(error):
                raise
    if not modern:
        await client.notify("notifications/cancelled", {"requestId": 99, "reason": "none"})


async def record_http(hub: Hub) -> list[Recorded]:
    found: list[Recorded] = []

    async def keep(request: httpx2.Request) -> None:
        body = await request.aread()
        headers = [
            (name, value)
            for name, value in request.headers.items()
            if name not in {"content-length", "connection", "accept-encoding"}
        ]
        found.append(Recorded(request.method, "/mcp", headers, json.loads(body) if body else None))

    for revision in (*versions.HANDSHAKE, *versions.MODERN):
        client = HttpClient(hub.mcp_url, hub.seeded["alice"], revision)
        client.http.event_hooks["request"].append(keep)
        async with client:
            await tour(client)
            if not client.modern:
                kept = client.session_id
                await client.initialize()
                await client.close_session()
                client.session_id = kept
    return found


async def record_frames(hub: Hub) -> list[Any]:
    found: list[Any] = []

    class Recording(WebSocketClient):
        async def send(self, message: Any) -> None:
            found.append(message)
            await super().send(message)

    for revision in (*versions.HANDSHAKE, *versions.MODERN):
        async with Recording(hub.ws_url, hub.seeded["alice"], revision) as client:
            await tour(client)
    return found


# --- judging ---------------------------------------------------------------------------------------------------------


def judge(answer: Answer, case: object) -> None:
    assert answer.status < 500, f"seed {SEED}: {answer.status} {answer.body[:300]!r} to {case!r:.2000}"
    for message in answer.messages():
        for one in message if isinstance(message, list) else [message]:
            judge_message(one, case)


def judge_message(message: Any, case: object) -> None:
    code = message.get("error", {}).get("code") if isinstance(message, dict) else None
    assert code != -32603, f"seed {SEED}: {message} to {case!r:.2000}"


async def assert_all_logged(hub: Hub) -> None:
    """The ledger that the tool keeps and the audit log name the same calls."""

    async def at_rest() -> bool:
        return "running" not in await asyncio.to_thread(hub.call, proofs.count_by_outcome)

    await wait_until_async(at_rest, 60, "every call ended")
    ran = collections.Counter(Path(hub.extra["PROOF_LEDGER"]).read_text().split())
    recorded = {row[0]: row[2] for row in await asyncio.to_thread(hub.call, proofs.list_calls, name="ledger")}
    assert ran and max(ran.values()) == 1, f"seed {SEED}: a call ran twice"
    assert set(ran) <= set(recorded), f"seed {SEED}: {set(ran) - set(recorded)} ran and are not on record"
    assert {recorded[call] for call in ran} <= {"ok", "cancelled"}, f"seed {SEED}"
    assert {call for call, outcome in recorded.items() if outcome == "ok"} <= set(ran), f"seed {SEED}"
    log = hub.log()
    assert "Traceback" not in log, f"seed {SEED}:\n{log[-6000:]}"
    assert " ERROR " not in log, f"seed {SEED}:\n{log[-6000:]}"


async def run_together(*work: Coroutine[Any, Any, None]) -> None:
    """All of it; the first failure ends the rest."""
    try:
        async with asyncio.TaskGroup() as group:
            for one in work:
                group.create_task(one)
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None


# --- HTTP ------------------------------------------------------------------------------------------------------------


def request(mutator: Mutator, recorded: list[Recorded]) -> tuple[str, str, list[tuple[str, str]], bytes]:
    """A recorded request with something wrong: mostly the body, often a header, seldom the address."""
    pick = mutator.random
    method, path, headers, message = pick.choice(recorded)
    body = b"" if message is None else mutations.dump(message)
    where = pick.random()
    if message is not None and where < 0.75:
        body = mutator.body(message)
    if where > 0.6:
        for _ in range(pick.choice((1, 1, 2))):
            headers = mutator.headers(headers) if headers else headers
    if where > 0.97:
        method = pick.choice(mutations.METHODS)
    if where < 0.02:
        path = pick.choice(mutations.PATHS)
    return method, path, headers, body


async def ask(connection: Raw, case: tuple[str, str, list[tuple[str, str]], bytes]) -> Answer | None:
    """The answer; None where the server closed the connection without one. Asked again when it takes long."""
    for attempt in range(2):
        try:
            return await connection.ask(*case, wait=HANG_SECONDS, until=b"notifications/subscriptions/acknowledged")
        except ConnectionLost:
            return None
        except TimeoutError:
            assert attempt == 0, f"seed {SEED}: no answer within {HANG_SECONDS} s, twice, to {case!r:.2000}"
    return None


async def test_http_requests_with_something_wrong(hub: Hub) -> None:
    recorded = await record_http(hub)
    # A GET is a stream that stays open: it is looked at with broken framing below.
    recorded = [one for one in recorded if one.method != "GET"]
    known = [one.message for one in recorded if one.message is not None]
    statuses: collections.Counter[int] = collections.Counter()
    lost = 0

    async def work(number: int) -> None:
        nonlocal lost
        mutator = Mutator(SEED * 1000 + number, known)
        async with Raw(hub.port, hub.seeded["alice"]) as connection:
            for _ in range(HTTP // CONNECTIONS):
                case = request(mutator, recorded)
                answer = await ask(connection, case)
                if answer is None:
                    lost += 1
                else:
                    judge(answer, case)
                    statuses[answer.status] += 1

    await run_together(*map(work, range(CONNECTIONS)))
    assert sum(statuses.values()) + lost >= HTTP - CONNECTIONS
    assert lost < HTTP / 20, f"seed {SEED}: {lost} requests were not answered at all"
    assert {200, 202, 400, 401, 404, 405, 406, 415} <= set(statuses), f"seed {SEED}: {statuses}"
    await assert_all_logged(hub)


def make_broken_request(pick: random.Random, recorded: list[Recorded]) -> bytes:
    """A request whose framing is wrong."""
    method, path, headers, message = pick.choice([one for one in recorded if one.message is not None])
    body = mutations.dump(message)
    length = pick.choice(
        [f"Content-Length: {n}" for n in (len(body), 0, -1, len(body) + 5, len(body) - 5, "x", "1e3", 10**20)]
    )
    chunks = pick.choice(
        [b"5\r\nabc", b"zz\r\n", b"-1\r\n\r\n", b"0\r\n\r\n", b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)]
    )
    head = [
        f"{method} {path} HTTP/{pick.choice(('1.1', '1.1', '1.0', '2.0', '9', ''))}",
        *(f"{n}: {v}" for n, v in headers),
    ]
    how = pick.randrange(6)
    if how == 0:
        head += [length, length]
    elif how == 1:
        head += ["Transfer-Encoding: chunked"]
        body = chunks
    elif how == 2:
        head += [length, "Transfer-Encoding: chunked"]
        body = chunks
    elif how == 3:
        head += [length, "X" * 20_000]
    elif how == 4:
        head += [length, pick.choice((" folded", ":", "no colon", "\x00: a", "a b: c"))]
    else:
        head += [length]
    data = "\r\n".join([*head, "", ""]).encode("latin-1", "replace") + body
    if pick.random() < 0.4:
        at = pick.randrange(len(data))
        data = data[:at] + pick.choice((b"", b"\x00", b"\r\n", b"\xff")) + data[at + pick.randrange(3) :]
    return data


async def test_http_requests_whose_framing_is_wrong(hub: Hub) -> None:
    recorded = await record_http(hub)
    pick = random.Random(SEED)
    cases = iter([make_broken_request(pick, recorded) for _ in range(BROKEN_REQUESTS)])

    async def work() -> None:
        for data in cases:
            async with Raw(hub.port, "") as connection:
                assert connection.writer is not None
                connection.writer.write(data)
                try:
                    async with asyncio.timeout(HANG_SECONDS):
                        # The server may have closed it by now, which is then no connection to end (ENOTCONN).
                        with contextlib.suppress(OSError):
                            connection.writer.write_eof()
                        said = await connection.reader.read(-1)
                except ConnectionError:
                    said = b""
                except TimeoutError:
                    raise AssertionError(f"seed {SEED}: still open after {HANG_SECONDS} s: {data!r:.2000}") from None
            assert not said or said[9:10] in b"1234", f"seed {SEED}: {said!r:.500} to {data!r:.2000}"

    await run_together(*(work() for _ in range(CONNECTIONS)))
    assert hub.get("/readyz")[0] == 200
    await assert_all_logged(hub)


# --- WebSocket -------------------------------------------------------------------------------------------------------


async def test_websocket_frames_with_something_wrong(hub: Hub) -> None:
    known = await record_frames(hub)
    sent = answered = closed = 0

    async def opened() -> ClientConnection:
        return await connect(
            hub.ws_url,
            subprotocols=[Subprotocol("mcp")],
            additional_headers={"Authorization": f"Bearer {hub.seeded['alice']}"},
            open_timeout=60,
            max_size=2**24,
            proxy=None,
            compression=None,
        )

    async def burst(socket: ClientConnection, mutator: Mutator, begin: bool) -> None:
        """Some frames and then one that is right, whose answer is waited for."""
        nonlocal sent, answered
        frames: list[bytes] = []
        for _ in range(BURST):
            data = mutator.body(mutator.random.choice(known))
            frames.append(data)
            sent += 1
            try:
                text: str | bytes = data.decode()
            except UnicodeDecodeError:
                # A text frame that is no UTF-8 cannot be sent by this client: now and then as a binary frame.
                text = data if mutator.random.random() < 0.05 else data.decode("latin-1")
            await socket.send(text)
        marker = f"marker {mutator.random.random()}"
        await socket.send(json.dumps({"jsonrpc": "2.0", "id": marker, "method": "ping"}))
        while True:
            try:
                async with asyncio.timeout(2 * HANG_SECONDS):
                    received = await socket.recv()
            except TimeoutError:
                raise AssertionError(
                    f"seed {SEED}: no answer within {2 * HANG_SECONDS} s after {frames!r:.4000}"
                ) from None
            message = json.loads(received)
            for one in message if isinstance(message, list) else [message]:
                judge_message(one, frames)
                answered += 1
                if isinstance(one, dict) and one.get("id") == marker:
                    return

    async def work(number: int) -> None:
        nonlocal closed
        mutator = Mutator(SEED * 1000 + 500 + number, known)
        until = FRAMES // SOCKETS
        done = 0
        while done < until:
            socket = await opened()
            try:
                if mutator.random.random() < 0.8:
                    hello = mutator.random.choice([one for one in known if one["method"] == "initialize"])
                    await socket.send(json.dumps(hello))
                for _ in range(20):
                    if done >= until:
                        break
                    done += BURST
                    await burst(socket, mutator, True)
            except ConnectionClosed:
                closed += 1
                code = socket.close_code
                assert code in {1003, 1007, 1008, 1009, 1013}, f"seed {SEED}: closed with {code}"
            finally:
                await socket.close()

    await run_together(*map(work, range(SOCKETS)))
    assert sent >= FRAMES * 0.9 and answered > sent / 2, (
        f"seed {SEED}: {sent} sent, {answered} answered, {closed} closed"
    )
    await assert_all_logged(hub)
