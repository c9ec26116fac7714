"""`python -m tests.bench.soak`: a server under mixed traffic for an hour; a table with a row for each period.

    python -m tests.bench.soak --minutes 60 --every 5
    python -m tests.bench.soak --minutes 2 --every 0.5 --workers 2     two workers, with PostgreSQL and Redis

Honest traffic of one user comes from 127.0.0.1 all the time, about 70 requests a second. Another user attacks from
127.0.0.66: one attack of `tests.e2e.attacks` at a time, each followed by a rest. Columns: minutes since the start;
honest requests answered, and failures; percentiles of a `tools/call` over a kept connection, in milliseconds; memory
(resident), descriptors and threads at rest, which is the median of what was seen while nobody attacked, and at most;
the size of the database. With two workers the one that has most is shown.

The audit log gets a row for every call, so the database grows as long as the traffic lasts: that is no leak.

The end compares the last period with the first after every attack had its turn, which takes some eleven minutes: a
process keeps the memory of its worst moment. A shorter run is compared with the second period, since the first warms
up. The exit status is 1 when memory, descriptors or threads have grown since then, or an honest request failed; 130
when it was interrupted; else 0.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException
from websockets.typing import Subprotocol

from tests.e2e import attacks, seed
from tests.e2e.attacks import ATTACKS, FEW, Line, SmallHub, Target
from tests.real_servers import DATABASE_FILE

CONNECTIONS = 300
"""Of an attacker: more than one address may have."""
ATTACK_SECONDS, REST_SECONDS = 12.0, 6.0
SETTLE_SECONDS = 2.0
"""After an attack, until the samples count as those of a rest."""
SAMPLE_SECONDS = 0.25
ANSWER_SECONDS = 30.0
"""The longest that an honest client waits for an answer."""

MODERN, HANDSHAKE = "2026-07-28", "2025-06-18"
CALLS_PER_CONNECTION, CALLS_PER_SOCKET, CALLS_PER_SESSION = 200, 10, 5
STREAM_SECONDS = 3.0
"""How long a stream of notifications stays open."""
UPLOAD_BYTES, SLOW_UPLOAD_BYTES, SLOW_ANSWER_BYTES = 1_500_000, 100_000, 600_000
SLOW_BYTES_PER_SECOND = 20_000
SLOW_READ_SECONDS = 4.0
SLOW_WINDOW_BYTES = 65_536
"""What the kernel of a slow reader takes: with more it would take the whole answer."""
LONG_CALL_SECONDS = 600.0
"""A call that is not cancelled lasts longer than any period: soon the user may make no other."""

MEMORY_PART, MEMORY_BYTES, DESCRIPTORS, THREADS = 0.1, 20e6, 20, 5
"""By how much the last period may be above the one that it is compared with."""


@dataclass
class Tally:
    """What the honest clients of one period saw."""

    requests: int = 0
    failures: int = 0
    seconds: list[float] = field(default_factory=list)
    """Of each `tools/call` over a kept connection."""


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes


class SoakHub(SmallHub):
    """The server of the attacks, with more tools for the honest user."""

    def start(self) -> None:
        # Before the start, so that every worker has them from the first request on.
        self.call(seed.grant_tool, name="wait", users=["alice"], timeout=2 * LONG_CALL_SECONDS)
        self.call(
            seed.grant_tool,
            name="upload",
            users=["alice"],
            function="echo",
            # Of whole bodies, the log would grow by gigabytes an hour.
            record_bodies="digests",
            max_argument_bytes=2 * UPLOAD_BYTES,
            max_result_bytes=4 * UPLOAD_BYTES,
        )
        super().start()


# --- what is sent -----------------------------------------------------------------------------------------------------


def modern(method: str, params: Mapping[str, Any], request_id: int = 1) -> dict[str, Any]:
    """A stateless request."""
    message = attacks.message(method, dict(params), clientInfo={"name": "soak", "version": "1"})
    return {**message, "id": request_id}


def modern_call(name: str, arguments: Mapping[str, Any], request_id: int = 1) -> dict[str, Any]:
    return modern("tools/call", {"name": name, "arguments": arguments}, request_id)


def stateful(method: str, params: Mapping[str, Any], request_id: int | None = None) -> dict[str, Any]:
    """A message of a session: a notification unless it has an id."""
    identity = {} if request_id is None else {"id": request_id}
    return {"jsonrpc": "2.0", **identity, "method": method, "params": params}


async def read_head(line: Line) -> tuple[int, dict[str, str]]:
    head = (await line.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    pairs = (text.partition(":") for text in head[1:] if text)
    return int(head[0].split()[1]), {name.lower(): value.strip() for name, _, value in pairs}


async def read_reply(line: Line) -> Reply:
    """A whole answer, whose connection may be used again."""
    status, headers = await read_head(line)
    if "content-length" in headers:
        return Reply(status, headers, await line.reader.readexactly(int(headers["content-length"])))
    body = b""
    if headers.get("transfer-encoding") == "chunked":
        size = -1
        while size:
            size = int(await line.reader.readuntil(b"\r\n"), 16)
            body += (await line.reader.readexactly(size + 2))[:size]
    return Reply(status, headers, body)


def expect(reply: Reply, text: str = "", status: int = 200) -> None:
    assert reply.status == status, f"status {reply.status}: {reply.headers} {reply.body[:500]!r}"
    assert text.encode() in reply.body, f"{text[:50]!r} is not in {reply.body[:500]!r}"
    assert b'"isError":true' not in reply.body, f"{reply.body[:500]!r}"


# --- honest traffic ---------------------------------------------------------------------------------------------------


class Honest:
    """The traffic of one user: every method named in `list_kinds` is one round of a kind."""

    def __init__(self, hub: SmallHub, target: Target) -> None:
        self.hub, self.target = hub, target
        self.tally = Tally()
        self.totals: Counter[str] = Counter()
        """Failures by kind, of the whole run."""
        self.phase = "rest"
        """The attack that is running, for the texts of failures."""
        self.attacks_ended = 0
        self._numbers = itertools.count(1)

    def list_kinds(self) -> list[tuple[Callable[[], Awaitable[None]], float]]:
        """Every kind, and the seconds between its rounds. The rates keep two cores far from busy."""
        return [
            (self.call_over_kept_connections, 0.05),
            (self.call_over_kept_connections, 0.05),
            (self.list_tools, 0.2),
            (self.use_a_session, 0.5),
            (self.listen, 0.5),
            (self.use_a_socket, 0.5),
            (self.cancel_by_disconnect, 1.0),
            (self.cancel_over_a_socket, 1.0),
            (self.upload, 5.0),
            (self.upload_slowly, 2.0),
            (self.read_slowly, 2.0),
            (self.get_pages, 0.3),
        ]

    async def repeat(self, work: Callable[[], Awaitable[None]], pause: float) -> None:
        """One round after the other, for ever."""
        while True:
            try:
                await work()
            except (
                OSError,
                EOFError,
                AssertionError,
                ValueError,
                LookupError,
                asyncio.LimitOverrunError,
                WebSocketException,
            ) as error:
                self.fail(work.__name__, f"{type(error).__name__}: {error}")
            await asyncio.sleep(pause)

    def fail(self, kind: str, text: str) -> None:
        """Count a failure; the first of its kind is printed."""
        if not self.totals[kind]:
            sys.stderr.write(f"{time.strftime('%H:%M:%S')} {kind} failed, phase {self.phase!r}: {text}\n")
            sys.stderr.flush()
        self.totals[kind] += 1
        self.tally.failures += 1

    # --- requests ---

    @contextlib.asynccontextmanager
    async def connected(self, window: int = 0) -> AsyncIterator[Line]:
        async with asyncio.timeout(ANSWER_SECONDS):
            line = await self.target.connect(window)
        try:
            yield line
        finally:
            line.close()

    async def read(self, line: Line) -> Reply:
        """The answer to a request that counts."""
        async with asyncio.timeout(ANSWER_SECONDS):
            reply = await read_reply(line)
        self.tally.requests += 1
        return reply

    async def read_stream_head(self, line: Line) -> None:
        """The beginning of an event stream."""
        async with asyncio.timeout(ANSWER_SECONDS):
            status, headers = await read_head(line)
            assert status == 200, f"status {status}: {headers} {await line.reader.read(500)!r}"
        assert headers["content-type"].startswith("text/event-stream"), headers
        self.tally.requests += 1

    def post(self, message: Mapping[str, Any], *headers: str) -> tuple[bytes, bytes]:
        """Head and body of a POST to /mcp."""
        body = json.dumps(message).encode()
        known = ["Content-Type: application/json", "Accept: application/json, text/event-stream"]
        known.append(f"Content-Length: {len(body)}")
        return self.target.head("POST /mcp HTTP/1.1", *known, *headers, token=self.target.token) + b"\r\n", body

    def post_modern(self, message: Mapping[str, Any]) -> tuple[bytes, bytes]:
        headers = [f"MCP-Protocol-Version: {MODERN}", f"Mcp-Method: {message['method']}"]
        if "name" in message["params"]:
            headers.append(f"Mcp-Name: {message['params']['name']}")
        return self.post(message, *headers)

    async def ask(self, line: Line, request: tuple[bytes, bytes]) -> Reply:
        await line.send(b"".join(request))
        return await self.read(line)

    # --- kinds ---

    async def call_over_kept_connections(self) -> None:
        async with self.connected() as line:
            for _ in range(CALLS_PER_CONNECTION):
                text = f"number {next(self._numbers)}"
                begun = time.perf_counter()
                reply = await self.ask(line, self.post_modern(modern_call("echo", {"text": text})))
                self.tally.seconds.append(time.perf_counter() - begun)
                expect(reply, text)
                await asyncio.sleep(0.05)

    async def list_tools(self) -> None:
        async with self.connected() as line:
            expect(await self.ask(line, self.post_modern(modern("tools/list", {}))), '"echo"')

    async def use_a_session(self) -> None:
        """A session with calls, one of them cancelled, and a stream; it is deleted at the end."""
        version = f"MCP-Protocol-Version: {HANDSHAKE}"
        about = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "soak", "version": "1"}}
        async with self.connected() as line:
            opened = await self.ask(line, self.post(stateful("initialize", about, 1), version))
            expect(opened, HANDSHAKE)
            session = (version, f"Mcp-Session-Id: {opened.headers['mcp-session-id']}")
            ready = stateful("notifications/initialized", {})
            expect(await self.ask(line, self.post(ready, *session)), status=202)
            async with self.connected() as stream:
                accept = "Accept: text/event-stream"
                await stream.send(
                    self.target.head("GET /mcp HTTP/1.1", accept, *session, token=self.target.token) + b"\r\n"
                )
                await self.read_stream_head(stream)
                for number in range(CALLS_PER_SESSION):
                    call = {"name": "echo", "arguments": {"text": f"session {number}"}}
                    reply = await self.ask(line, self.post(stateful("tools/call", call, 10 + number), *session))
                    expect(reply, f"session {number}")
                    await asyncio.sleep(STREAM_SECONDS / CALLS_PER_SESSION)
            async with self.connected() as waiting, self.long_call() as arguments:
                call = {"name": "wait", "arguments": arguments}
                await waiting.send(b"".join(self.post(stateful("tools/call", call, 99), *session)))
                await self.wait_for_file(arguments["started"], waiting)
                cancel = stateful("notifications/cancelled", {"requestId": 99})
                expect(await self.ask(line, self.post(cancel, *session)), status=202)
                expect(await self.read(waiting))
                await self.wait_for_file(arguments["ended"])
            end = self.target.head("DELETE /mcp HTTP/1.1", *session, token=self.target.token) + b"\r\n"
            expect(await self.ask(line, (end, b"")), status=204)

    async def listen(self) -> None:
        """A stream of notifications, open for a few seconds."""
        wanted = {"notifications": {"toolsListChanged": True}}
        async with self.connected() as line:
            await line.send(b"".join(self.post_modern(modern("subscriptions/listen", wanted))))
            await self.read_stream_head(line)
            async with asyncio.timeout(ANSWER_SECONDS):
                await line.reader.readuntil(b"subscriptions/acknowledged")
            await asyncio.sleep(STREAM_SECONDS)

    @contextlib.asynccontextmanager
    async def socket(self) -> AsyncIterator[ClientConnection]:
        async with connect(
            self.hub.ws_url,
            subprotocols=[Subprotocol("mcp")],
            additional_headers={"Authorization": f"Bearer {self.target.token}"},
            open_timeout=ANSWER_SECONDS,
            ping_interval=None,
            proxy=None,
        ) as opened:
            yield opened

    async def call_over(self, socket: ClientConnection, text: str, request_id: int) -> None:
        await socket.send(json.dumps(modern_call("echo", {"text": text}, request_id)))
        async with asyncio.timeout(ANSWER_SECONDS):
            answer = json.loads(await socket.recv())
        assert answer.get("id") == request_id and text in json.dumps(answer.get("result")), f"{answer}"[:500]
        self.tally.requests += 1

    async def use_a_socket(self) -> None:
        async with self.socket() as socket:
            for number in range(CALLS_PER_SOCKET):
                await self.call_over(socket, f"socket {number}", number)
                await asyncio.sleep(0.05)

    async def cancel_by_disconnect(self) -> None:
        async with self.long_call() as arguments:
            async with self.connected() as line:
                await line.send(b"".join(self.post_modern(modern_call("wait", arguments))))
                await self.wait_for_file(arguments["started"], line)
            await self.wait_for_file(arguments["ended"])
        self.tally.requests += 1

    async def cancel_over_a_socket(self) -> None:
        async with self.long_call() as arguments, self.socket() as socket:
            await socket.send(json.dumps(modern_call("wait", arguments, 1)))
            await self.wait_for_file(arguments["started"])
            await socket.send(json.dumps(stateful("notifications/cancelled", {"requestId": 1})))
            await self.wait_for_file(arguments["ended"])
            self.tally.requests += 1
            await self.call_over(socket, "still here", 2)

    @contextlib.asynccontextmanager
    async def long_call(self) -> AsyncIterator[dict[str, Any]]:
        """Arguments of the tool `wait`, with the files that it leaves when it starts and when it is cancelled."""
        number = next(self._numbers)
        started, ended = (self.hub.folder / f"{word}-{number}" for word in ("started", "ended"))
        try:
            yield {"seconds": LONG_CALL_SECONDS, "started": str(started), "ended": str(ended)}
        finally:
            for file in (started, ended):
                file.unlink(missing_ok=True)

    async def wait_for_file(self, name: str, line: Line | None = None) -> None:
        """Until a tool has made this file. `line` may have the reason why it has not."""
        file = Path(name)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                while not file.exists():
                    await asyncio.sleep(0.05)
        except TimeoutError:
            reason = b""
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    reason = await line.reader.read(2000) if line is not None else b""
            raise TimeoutError(f"no file {file.name} within {ANSWER_SECONDS:g} s: {reason!r}") from None

    async def upload(self) -> None:
        """A large body, as fast as it goes."""
        async with self.connected() as line:
            text = "u" * UPLOAD_BYTES
            expect(await self.ask(line, self.post_modern(modern_call("upload", {"text": text}))), text)

    async def upload_slowly(self) -> None:
        async with self.connected() as line:
            text = "s" * SLOW_UPLOAD_BYTES
            head, body = self.post_modern(modern_call("upload", {"text": text}))
            await line.send(head)
            piece = SLOW_BYTES_PER_SECOND // 4
            for start in range(0, len(body), piece):
                await line.send(body[start : start + piece])
                await asyncio.sleep(0.25)
            expect(await self.read(line), text)

    async def read_slowly(self) -> None:
        """A large answer, of which little is taken for a few seconds, and then the rest."""
        async with self.connected(SLOW_WINDOW_BYTES) as line:
            text = "r" * SLOW_ANSWER_BYTES
            await line.send(b"".join(self.post_modern(modern_call("upload", {"text": text}))))
            async with asyncio.timeout(ANSWER_SECONDS):
                status, headers = await read_head(line)
            assert status == 200, f"status {status}: {headers} {await line.reader.read(500)!r}"
            size = int(headers["content-length"])
            taken = b""
            for _ in range(int(SLOW_READ_SECONDS * 4)):
                taken += await line.reader.readexactly(min(SLOW_BYTES_PER_SECOND // 4, size - len(taken)))
                await asyncio.sleep(0.25)
            async with asyncio.timeout(ANSWER_SECONDS):
                taken += await line.reader.readexactly(size - len(taken))
            expect(Reply(status, headers, taken), text)
            self.tally.requests += 1

    async def get_pages(self) -> None:
        for path, text in (("/healthz", "ok"), ("/readyz", ""), ("/sign-in/", "<html")):
            async with self.connected() as line:
                expect(await self.ask(line, (self.target.head(f"GET {path} HTTP/1.1") + b"\r\n", b"")), text)


# --- attackers and samples --------------------------------------------------------------------------------------------


async def attack_in_turn(honest: Honest, attacker: Target, attack_seconds: float, rest_seconds: float) -> None:
    """A rest, and then one attack after the other, for ever, each followed by a rest."""
    settle_seconds = min(SETTLE_SECONDS, rest_seconds / 2)
    await asyncio.sleep(rest_seconds)
    for name in itertools.cycle(ATTACKS):
        honest.phase = name
        async with attacks.running(name, attacker, min(CONNECTIONS, FEW.get(name, CONNECTIONS))):
            await asyncio.sleep(attack_seconds)
        honest.attacks_ended += 1
        honest.phase = "settling"
        await asyncio.sleep(settle_seconds)
        honest.phase = "rest"
        await asyncio.sleep(rest_seconds - settle_seconds)


@dataclass
class Samples:
    """Values of the process that has most, at the same moments."""

    memory: list[float] = field(default_factory=list)
    """Bytes."""
    descriptors: list[int] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)


def count_threads(pid: int) -> int:
    found = Path(f"/proc/{pid}/status").read_text().partition("\nThreads:")[2]
    return int(found.partition("\n")[0])


class Sampler:
    def __init__(self, hub: SmallHub, honest: Honest) -> None:
        self.hub, self.honest = hub, honest
        self.rest, self.all = Samples(), Samples()
        self.pids = set(hub.worker_pids())

    async def run(self) -> None:
        while True:
            assert self.hub.process is not None and self.hub.process.poll() is None, "the server ended"
            with contextlib.suppress(OSError, ValueError):  # a worker that ends; the next sample reports it
                self.take()
            await asyncio.sleep(SAMPLE_SECONDS)

    def take(self) -> None:
        pids = set(self.hub.worker_pids())
        if pids != self.pids:
            self.honest.fail("workers", f"{sorted(self.pids)} became {sorted(pids)}")
            self.pids = pids
        memory, descriptors = max(self.hub.memory().values()), max(self.hub.descriptors().values())
        threads = max(count_threads(pid) for pid in pids)
        for samples in [self.all, self.rest] if self.honest.phase == "rest" else [self.all]:
            samples.memory.append(memory)
            samples.descriptors.append(descriptors)
            samples.threads.append(threads)


# --- the table --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One period at rest; `memory` in bytes."""

    memory: float
    descriptors: float
    threads: float
    attacks_ended: int
    """Since the start."""


HEADINGS = (
    "minutes",
    "requests",
    "failed",
    "p50 ms",
    "p95 ms",
    "memory MB",
    "at most",
    "descriptors",
    "at most",
    "threads",
    "at most",
    "database MB",
)


def write_row(cells: tuple[str, ...]) -> None:
    sys.stdout.write(f"| {' | '.join(cells)} |\n")
    sys.stdout.flush()


def percentile(seconds: list[float], part: float) -> str:
    """In milliseconds."""
    return f"{1000 * sorted(seconds)[int(len(seconds) * part)]:.1f}" if seconds else "-"


def database_size(hub: SmallHub) -> str:
    """Of the embedded database and its write-ahead log, in MB."""
    if hub.postgres:
        return "-"
    folder = Path(hub.environment()["TOOLHUB_DATA_DIR"])
    return f"{sum(file.stat().st_size for file in folder.glob(f'{DATABASE_FILE}*')) / 1e6:.0f}"


def end_period(minutes: float, honest: Honest, sampler: Sampler) -> Row | None:
    """Print the row of a period and begin the next; None when the period had no rest."""
    tally, honest.tally = honest.tally, Tally()
    rest, sampler.rest = sampler.rest, Samples()
    everything, sampler.all = sampler.all, Samples()
    row = None
    if rest.memory:
        row = Row(median(rest.memory), median(rest.descriptors), median(rest.threads), honest.attacks_ended)
    write_row(
        (
            f"{minutes:.1f}",
            str(tally.requests),
            str(tally.failures),
            percentile(tally.seconds, 0.5),
            percentile(tally.seconds, 0.95),
            f"{row.memory / 1e6:.0f}" if row else "-",
            f"{max(everything.memory, default=0) / 1e6:.0f}",
            f"{row.descriptors:.0f}" if row else "-",
            str(max(everything.descriptors, default=0)),
            f"{row.threads:.0f}" if row else "-",
            str(max(everything.threads, default=0)),
            database_size(honest.hub),
        )
    )
    return row


def compare(rows: list[Row]) -> bool:
    """Print the last period against an earlier one; whether nothing has grown."""
    if len(rows) < 3:
        sys.stdout.write("\nToo few periods to compare.\n")
        return True
    # The process keeps the memory of its worst moment, and every attack has another one: what grows after each had its
    # turn is what leaks.
    later = [row for row in rows if row.attacks_ended >= len(ATTACKS)]
    which, base = "the second", rows[1]
    if len(later) > 1:
        which, base = "the first after every attack had its turn", later[0]
    grown = find_growth(base, rows[-1])
    sys.stdout.write(f"\n{describe(which, base, rows[-1], grown)}\n")
    return not grown


def find_growth(before: Row, last: Row) -> list[str]:
    """The names of what is above its limit."""
    limits = (
        ("memory", last.memory, before.memory * (1 + MEMORY_PART) + MEMORY_BYTES),
        ("descriptors", last.descriptors, before.descriptors + DESCRIPTORS),
        ("threads", last.threads, before.threads + THREADS),
    )
    return [name for name, now, limit in limits if now > limit]


def describe(which: str, before: Row, last: Row, grown: list[str]) -> str:
    return (
        f"The last period against {which}: memory {(last.memory - before.memory) / 1e6:+.0f} MB, "
        f"descriptors {last.descriptors - before.descriptors:+.0f}, threads {last.threads - before.threads:+.0f}: "
        f"{', '.join(grown) + ' grew' if grown else 'flat'}."
    )


# --- the run ----------------------------------------------------------------------------------------------------------


async def soak(hub: SmallHub, minutes: float, every: float) -> int:
    """Run for so many minutes, with a row for `every` so many; the exit status."""
    stopped = asyncio.Event()
    for stop in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(stop, stopped.set)
    honest = Honest(hub, Target(hub.port, hub.seeded["alice"]))
    sampler, rows = Sampler(hub, honest), list[Row]()
    attacker = Target(hub.port, hub.seeded["bob"], sender="127.0.0.66")
    # Every period has a whole attack and a whole rest, even a short one.
    attack_seconds = min(ATTACK_SECONDS, every * 60 * 2 / 3)
    rest_seconds = attack_seconds * REST_SECONDS / ATTACK_SECONDS
    write_row(HEADINGS)
    write_row(("---:",) * len(HEADINGS))
    begun = time.monotonic()
    work = [
        sampler.run(),
        attack_in_turn(honest, attacker, attack_seconds, rest_seconds),
        *(honest.repeat(kind, pause) for kind, pause in honest.list_kinds()),
    ]
    tasks = [asyncio.create_task(one) for one in work]
    stopping = asyncio.create_task(stopped.wait())
    try:
        for number in range(1, max(1, round(minutes / every)) + 1):
            left = begun + number * every * 60 - time.monotonic()
            done, _ = await asyncio.wait([stopping, *tasks], timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if stopping in done:
                break
            for task in done:  # none of them ends by itself
                task.result()
            row = end_period(number * every, honest, sampler)
            if row is not None:
                rows.append(row)
    finally:
        for task in (stopping, *tasks):
            task.cancel()
        await asyncio.gather(stopping, *tasks, return_exceptions=True)
    flat = compare(rows)
    for kind, count in honest.totals.items():
        sys.stdout.write(f"{kind}: {count} failed.\n")
    before, *tracebacks = hub.log().split("Traceback (most recent call last)")
    if tracebacks:
        first = f"{before[-1_000:]}Traceback{tracebacks[0][:5_000]}"
        sys.stdout.write(f"The server logged {len(tracebacks)} tracebacks. The first:\n{first}\n")
    if stopped.is_set():
        return 130
    return 0 if flat and not honest.totals else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--every", type=float, default=5.0, help="minutes of a row")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    shared = options.workers > 1
    env = {"TOOLHUB_TOOL_MODULES": "tests.e2e.functions,tests.e2e.large_tools"}
    with SoakHub(env=env, seed=seed.seed_attacked, workers=options.workers, postgres=shared, redis=shared) as hub:
        hub.may_log_tracebacks = True
        return asyncio.run(soak(hub, options.minutes, options.every))


if __name__ == "__main__":
    sys.exit(main())
