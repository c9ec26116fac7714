"""What a WebSocket that floods, drips or never finishes gets from a real server, and that nobody else notices."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.e2e import seed
from tests.e2e.attacks import Target, encode, frame
from tests.polling import wait_until
from tests.real_servers import Hub

SECONDS = 60.0
ENV = {
    "TOOLHUB_HEADER_SECONDS": "1",
    "TOOLHUB_MAX_STREAMS_PER_USER": "3",
    "TOOLHUB_MAX_UPLOADS_MB": "4",
    "TOOLHUB_WEBSOCKET_PINGS_RATE": "5/s",
    "TOOLHUB_WEBSOCKET_FRAMES_RATE": "200/s",
}
TEXT, CONTINUED, CLOSE, PING, PONG = 1, 0, 8, 9, 10
HELLO = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(env=ENV, seed=seed.seed_examples) as running:
        yield running


class Socket:
    """A WebSocket of one person, as bytes, from an address of its own: the log has one line about each in a minute."""

    numbers = itertools.count(10)

    def __init__(self, hub: Hub, name: str) -> None:
        self.address = f"127.0.0.{next(self.numbers)}"
        self.tcp = socket.create_connection(("127.0.0.1", hub.port), SECONDS, (self.address, 0))
        self.send(Target(hub.port, hub.seeded[name]).upgrade())
        self._received = b""
        while b"\r\n\r\n" not in self._received:
            self._received += self.tcp.recv(65_536)
        self._received = self._received.partition(b"\r\n\r\n")[2]

    def send(self, data: bytes) -> None:
        self.tcp.sendall(data)

    def close(self) -> None:
        self.tcp.close()

    def read(self) -> tuple[int, bytes]:
        """The opcode and the content of the next frame."""
        head = self._take(2)
        size = head[1]
        if size == 126:
            size = struct.unpack("!H", self._take(2))[0]
        return head[0] & 15, self._take(size)

    def _take(self, size: int) -> bytes:
        while len(self._received) < size:
            part = self.tcp.recv(65_536)
            assert part, "closed without a close frame"
            self._received += part
        found, self._received = self._received[:size], self._received[size:]
        return found

    def is_in_log(self, hub: Hub, setting: str) -> bool:
        """Whether the log says that this address has reached the limit of a setting."""
        return hub.has_logged_limit(self.address, setting)

    def read_answer(self) -> int:
        """The id of the next answer."""
        opcode, content = self.read()
        assert opcode == TEXT, content
        found: int = json.loads(content)["id"]
        return found

    def read_close(self) -> tuple[int, str]:
        """The code and the reason of the close frame, whatever comes before it."""
        while True:
            opcode, content = self.read()
            if opcode == CLOSE:
                return struct.unpack("!H", content[:2])[0], content[2:].decode()


@pytest.fixture
def alice(hub: Hub) -> Iterator[Socket]:
    with closing(Socket(hub, "alice")) as opened:
        yield opened


@pytest.fixture
def bob(hub: Hub) -> Iterator[Socket]:
    with closing(Socket(hub, "bob")) as opened:
        yield opened


def test_a_ping_now_and_then_is_answered(alice: Socket) -> None:
    for _ in range(3):
        alice.send(frame(PING, b"there?"))
        assert alice.read() == (PONG, b"there?")


@pytest.mark.parametrize("opcode", [PING, PONG], ids=["pings", "pongs"])
def test_a_flood_of_pings_ends_the_connection(hub: Hub, alice: Socket, opcode: int) -> None:
    alice.send(frame(opcode, b"") * 100)
    assert alice.read_close() == (1008, "Too many pings: at most 5 a second")
    wait_until(lambda: alice.is_in_log(hub, "TOOLHUB_WEBSOCKET_"))


def test_a_text_that_is_not_utf_8_ends_the_connection(alice: Socket) -> None:
    alice.send(frame(TEXT, b'"\xff"'))
    assert alice.read_close() == (1007, "The message is not UTF-8")


def test_a_character_may_be_spread_over_two_frames(alice: Socket) -> None:
    content = json.dumps({**HELLO, "params": {"_meta": {"name": "ü"}}}, ensure_ascii=False).encode()
    middle = content.index("ü".encode()) + 1
    alice.send(frame(TEXT, content[:middle], last=False) + frame(CONTINUED, content[middle:]))
    assert alice.read_answer() == 1


def test_frames_that_come_too_fast_wait_and_nothing_is_lost(hub: Hub, alice: Socket, bob: Socket) -> None:
    content = json.dumps(HELLO).ljust(400).encode()
    pieces = [frame(CONTINUED, content[n : n + 1], last=False) for n in range(1, 399)]
    alice.send(frame(TEXT, content[:1], last=False) + b"".join(pieces) + frame(CONTINUED, content[399:]))
    wait_until(lambda: alice.is_in_log(hub, "TOOLHUB_WEBSOCKET_FRAMES_RATE"))
    bob.send(encode(HELLO))
    assert bob.read_answer() == 1, "another user does not wait"
    assert alice.read_answer() == 1


def test_a_flood_of_frames_that_goes_on_ends_the_connection(alice: Socket) -> None:
    alice.send(frame(TEXT, b"[", last=False) + frame(CONTINUED, b" ", last=False) * 9000)
    assert alice.read_close() == (1008, "Too many frames: at most 200 a second")


def test_many_messages_at_once_are_all_answered(bob: Socket) -> None:
    bob.send(encode(*({**HELLO, "id": number} for number in range(300))))
    assert [bob.read_answer() for _ in range(300)] == list(range(300))


@pytest.mark.parametrize(
    "sent",
    [frame(TEXT, b"{" + b" " * 100)[:-1], frame(TEXT, b"{", last=False), frame(TEXT, b"{")[:1]],
    ids=["half a frame", "half a message", "half a header"],
)
def test_a_message_that_stalls_ends_the_connection(hub: Hub, alice: Socket, sent: bytes) -> None:
    alice.send(encode(HELLO) + sent)
    assert alice.read_answer() == 1
    assert alice.read_close() == (1008, "The message came slower than 1,000 bytes a second")
    wait_until(lambda: alice.is_in_log(hub, "TOOLHUB_MIN_BYTES_PER_SECOND"))


def test_a_socket_that_says_nothing_stays_open(alice: Socket, bob: Socket) -> None:
    bob.send(frame(TEXT, b"{", last=False))
    assert bob.read_close()[0] == 1008, "longer than a message may take"
    alice.send(encode(HELLO))
    assert alice.read_answer() == 1


def test_unfinished_large_messages_of_one_user_are_bounded_together(hub: Hub) -> None:
    piece = frame(TEXT, b"[" + b" " * 1_500_000)[:-1]
    with closing(Socket(hub, "alice")) as first, closing(Socket(hub, "alice")) as second:
        first.send(piece)
        second.send(piece)
        codes = set()
        for opened in (first, second):
            codes.add(opened.read_close()[0])
        assert codes == {1013, 1008}, "one has no room; the other one had, and stalled"
        wait_until(lambda: any(one.is_in_log(hub, "TOOLHUB_MAX_UPLOADS_MB") for one in (first, second)))
    with closing(Socket(hub, "alice")) as again:
        again.send(encode({**HELLO, "params": {"_meta": {"padding": "x" * 1_500_000}}}))
        assert again.read_answer() == 1, "there is room again"


def test_a_whole_large_message_is_answered(alice: Socket) -> None:
    alice.send(encode({**HELLO, "params": {"_meta": {"padding": "x" * 3_000_000}}}))
    assert alice.read_answer() == 1


def test_what_comes_after_a_close_frame_is_kept_nowhere(hub: Hub) -> None:
    (pid,) = hub.worker_pids()
    part = frame(TEXT, b" " * 2_000_000)[:-1]
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(closing(Socket(hub, "bob")))
        before = resident_bytes(pid)
        for _ in range(20):
            late = stack.enter_context(closing(Socket(hub, "bob")))
            code, reason = late.read_close()
            assert code == 1013 and "3 open streams and WebSockets, the maximum" in reason
            late.send(part)
        assert hub.get("/healthz")[0] == 200
        assert resident_bytes(pid) - before < 20_000_000


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096
