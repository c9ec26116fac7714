"""A client that breaks the WebSocket protocol is told so by a close frame, and the server works on."""

from __future__ import annotations

import base64
import os
import random
import socket
import struct
from collections.abc import Iterator

import pytest

from tests.e2e import seed
from tests.real_servers import Hub

TEXT, BINARY, CLOSE, PING = 1, 2, 8, 9
FIN, MASKED = 0x80, 0x80
SECONDS = 60.0
BODY_BYTES = 100_000
HELLO = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(env={"TOOLHUB_MAX_BODY_BYTES": str(BODY_BYTES)}, seed=seed.seed_examples) as running:
        yield running


def frame(
    payload: bytes, opcode: int = TEXT, *, first: int | None = None, masked: bool = True, length: int = -1
) -> bytes:
    """A frame; `first` is its first byte, and `length` what it claims as its length."""
    size = len(payload) if length < 0 else length
    head = bytes([FIN | opcode if first is None else first])
    mark = MASKED if masked else 0
    if size < 126:
        head += bytes([mark | size])
    elif size < 65_536:
        head += bytes([mark | 126]) + struct.pack("!H", size)
    else:
        head += bytes([mark | 127]) + struct.pack("!Q", size)
    mask = os.urandom(4)
    if not masked:
        return head + payload
    return head + mask + bytes(byte ^ mask[number % 4] for number, byte in enumerate(payload))


def connect(hub: Hub) -> socket.socket:
    """A socket after its handshake, which has answered a message."""
    opened = socket.create_connection(("127.0.0.1", hub.port), timeout=SECONDS)
    opened.sendall(
        b"GET /ws/mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mcp\r\n"
        + f"Authorization: Bearer {hub.seeded['alice']}\r\n".encode()
        + b"Sec-WebSocket-Key: "
        + base64.b64encode(os.urandom(16))
        + b"\r\n\r\n"
    )
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += opened.recv(65_536)
    assert b" 101 " in answer, answer
    opened.sendall(frame(HELLO))
    assert opened.recv(65_536)[0] == FIN | TEXT
    return opened


def read_to_end(opened: socket.socket) -> bytes:
    """Everything until the server closes its side; a reset connection fails the test."""
    found = b""
    with opened:
        try:
            while part := opened.recv(65_536):
                found += part
        except ConnectionResetError:
            raise AssertionError(f"reset after {found!r}") from None
    return found


def close_code(received: bytes) -> int:
    """The code of the close frame, the last one of the unmasked frames."""
    code = 0
    while received:
        size, start = received[1], 2
        if size == 126:
            size, start = struct.unpack("!H", received[2:4])[0], 4
        if received[0] == FIN | CLOSE:
            code = struct.unpack("!H", received[start : start + 2])[0]
        received = received[start + size :]
    return code


INVALID = {
    "a reserved bit": (frame(HELLO, first=FIN | 0x40 | TEXT), 1002),
    "a reserved opcode": (frame(HELLO, 3), 1002),
    "a reserved control opcode": (frame(b"", 11), 1002),
    "no mask": (frame(HELLO, masked=False), 1002),
    "a continuation of nothing": (frame(HELLO, 0), 1002),
    "a message within a message": (frame(b"{", first=TEXT) + frame(HELLO), 1002),
    "a long control frame": (frame(b"x" * 126, PING), 1002),
    "a fragmented control frame": (frame(b"x", first=PING), 1002),
    "a close frame of one byte": (frame(b"x", CLOSE), 1002),
    "a close code that may not be sent": (frame(struct.pack("!H", 1005), CLOSE), 1002),
    "a close code that may not be sent, and more": (frame(struct.pack("!H", 1005), CLOSE) + frame(HELLO, 3), 1002),
    "a close reason that is not UTF-8": (frame(struct.pack("!H", 1000) + b"\xff", CLOSE), 1007),
    "text that is not UTF-8": (frame(b'{"a": "\xff"}'), 1007),
    "half a character": (frame("\u00e4".encode()[:1]), 1007),
    "a surrogate": (frame(b"\xed\xa0\x80"), 1007),
    "a message that is too large": (frame(b" " * (BODY_BYTES + 1)), 1009),
    "a frame that claims to be too large": (frame(b"", length=2**40), 1009),
    "fragments that are too large together": (frame(b" " * BODY_BYTES, first=TEXT) + frame(b" " * 2, first=FIN), 1009),
}


@pytest.mark.parametrize("name", INVALID)
def test_a_broken_frame_ends_with_a_close_frame_that_says_why(hub: Hub, name: str) -> None:
    sent, code = INVALID[name]
    opened = connect(hub)
    opened.sendall(sent)
    assert close_code(read_to_end(opened)) == code


def test_a_client_that_keeps_sending_after_its_mistake_still_reads_the_close_frame(hub: Hub) -> None:
    opened = connect(hub)
    opened.sendall(frame(HELLO, 3) + frame(HELLO) * 2000)
    received = read_to_end(opened)
    assert close_code(received) == 1002
    assert b"result" not in received, "nothing after the mistake is believed"


def test_random_bytes_end_with_a_close_frame_and_others_are_served(hub: Hub) -> None:
    source = random.Random(20260728)
    other = connect(hub)
    for case in range(60):
        opened = connect(hub)
        # Ended by a frame that is invalid wherever it begins, so that no case waits for more.
        opened.sendall(source.randbytes(source.randrange(1, 200)) + b"\xff" * 140_000)
        assert close_code(read_to_end(opened)) in (1002, 1007, 1009), case
    other.sendall(frame(HELLO))
    assert b'"id":1' in other.recv(65_536)
    other.close()
