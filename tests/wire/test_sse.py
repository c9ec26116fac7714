from __future__ import annotations

import pytest

from toolhub.wire import sse
from toolhub.wire.jsonrpc import encode


def test_a_message_is_one_event_with_one_data_line() -> None:
    data = encode({"text": "a\nb\r\nc"})
    assert sse.event(data) == b"event: message\ndata: " + data + b"\n\n"
    assert sse.event(data).count(b"\n") == 3


def test_an_event_can_carry_an_id_and_a_retry() -> None:
    assert sse.event(b"{}", id="s-1", retry=100) == b"id: s-1\nretry: 100\nevent: message\ndata: {}\n\n"


def test_the_priming_event_has_an_id_and_no_content() -> None:
    assert sse.priming("s-0", retry=500) == b"id: s-0\nretry: 500\ndata: \n\n"
    assert sse.priming("s-0") == b"id: s-0\ndata: \n\n"


def test_a_comment_is_no_event() -> None:
    assert sse.comment() == b":\n\n"


@pytest.mark.parametrize("id_", ["a\nb", "a\rb", "a\0"])
def test_an_id_cannot_smuggle_a_field(id_: str) -> None:
    with pytest.raises(ValueError):
        sse.event(b"{}", id=id_)
    with pytest.raises(ValueError):
        sse.priming(id_)
