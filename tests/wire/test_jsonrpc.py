from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bounded import bounded
from toolhub.wire import jsonrpc
from toolhub.wire.errors import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, McpError, http_status
from toolhub.wire.jsonrpc import Notification, Request, Response, encode, parse


def get_error(body: bytes, **options: Any) -> McpError:
    with pytest.raises(McpError) as caught:
        parse(body, **options)
    return caught.value


UNREADABLE = {
    "nothing": b"",
    "blanks": b" \n ",
    "a word": b"hello",
    "half an object": b'{"jsonrpc":"2.0","id":1,',
    "a byte order mark": b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}',
    "UTF-16": '{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-16"),
    "UTF-16 without mark": '{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-16-le"),
    "UTF-32": '{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-32"),
    "Latin-1": '{"jsonrpc":"2.0","id":1,"method":"\xe9"}'.encode("latin-1"),
    "an overlong slash": b'{"jsonrpc":"2.0","id":1,"method":"\xc0\xaf"}',
    "a surrogate as bytes": b'{"jsonrpc":"2.0","id":1,"method":"\xed\xa0\x80"}',
    "NaN": b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":NaN}}',
    "Infinity": b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":Infinity}}',
    "-Infinity": b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":-Infinity}}',
    "a number beyond floats": b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1e999}}',
    "a negative number beyond floats": b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":-1e999}}',
    "an integer of 5000 digits": b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":' + b"9" * 5000 + b"}}",
    "a member twice": b'{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}',
    "a member twice, far below": b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[{"b":1,"b":1}]}}',
    "a member twice, spelled differently": b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1,"\\u0061":2}}',
    "half a pair in a value": b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"\\ud800"}}',
    "half a pair in a key": b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"\\udc00":1}}',
    "half a pair in the id": b'{"jsonrpc":"2.0","id":"\\ud800","method":"x"}',
    "a pair the wrong way round": b'{"jsonrpc":"2.0","id":1,"method":"\\udc00\\ud800"}',
    "a raw control character in a text": b'{"jsonrpc":"2.0","id":1,"method":"a\nb"}',
    "two messages": b'{"jsonrpc":"2.0","id":1,"method":"x"}{"jsonrpc":"2.0","id":2,"method":"x"}',
    "a trailing comma": b'{"jsonrpc":"2.0","id":1,"method":"x",}',
    "a comment": b'{"jsonrpc":"2.0","id":1,"method":"x"} // hi',
    "NUL at the end": b'{"jsonrpc":"2.0","id":1,"method":"x"}\0',
    "a no-break space around it": '\xa0{"jsonrpc":"2.0","id":1,"method":"x"}'.encode(),
    "65 levels": b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":' + b"[" * 63 + b"]" * 63 + b"}}",
    "100000 levels": b"[" * 100_000,
    "100000 objects": b'{"a":' * 100_000,
    "four million closing brackets": b"[]" * 65 + b"]" * 4_000_000,
    "a million objects": b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[' + b"{}," * 1_000_000 + b"{}]}}",
    "200001 numbers": b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[' + b"1," * 200_000 + b"1]}}",
    "a million texts": b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[' + b'"",' * 1_000_000 + b'""]}}',
}


@pytest.mark.parametrize(
    "value",
    [[1] * 190_000, ",[{" * 300_000, '\\",[' * 300_000],
    ids=["many numbers", "commas in a text", "escapes in a text"],
)
def test_a_large_message_is_read(value: Any) -> None:
    message = parse(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "x", "params": {"a": value}}).encode())
    assert isinstance(message, Request) and message.params["a"] == value


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_ambiguous_json_is_a_parse_error(body: bytes) -> None:
    error = get_error(body)
    assert (error.code, error.request_id) == (PARSE_ERROR, None)
    assert error.message.startswith("Parse error")
    assert http_status(error.code) == 400


INVALID = {
    "a text": (b'"ping"', None),
    "a number": (b"1", None),
    "null": (b"null", None),
    "an empty object": (b"{}", None),
    "no version": (b'{"id":1,"method":"x"}', 1),
    "version 1.0": (b'{"jsonrpc":"1.0","id":1,"method":"x"}', 1),
    "the version as a number": (b'{"jsonrpc":2.0,"id":1,"method":"x"}', 1),
    "an empty method": (b'{"jsonrpc":"2.0","id":"a","method":""}', "a"),
    "a numeric method": (b'{"jsonrpc":"2.0","id":1,"method":5}', 1),
    "a null method": (b'{"jsonrpc":"2.0","id":1,"method":null}', 1),
    "a null id": (b'{"jsonrpc":"2.0","id":null,"method":"x"}', None),
    "a true id": (b'{"jsonrpc":"2.0","id":true,"method":"x"}', None),
    "a fractional id": (b'{"jsonrpc":"2.0","id":1.5,"method":"x"}', None),
    "a whole float id": (b'{"jsonrpc":"2.0","id":1.0,"method":"x"}', None),
    "a list as id": (b'{"jsonrpc":"2.0","id":[1],"method":"x"}', None),
    "a method and a result": (b'{"jsonrpc":"2.0","id":1,"method":"x","result":{}}', 1),
    "a method and an error": (b'{"jsonrpc":"2.0","id":1,"method":"x","error":null}', 1),
    "an answer without anything": (b'{"jsonrpc":"2.0","id":1}', None),
    "an answer with both": (b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"m"}}', None),
    "an answer with a text": (b'{"jsonrpc":"2.0","id":1,"result":"ok"}', None),
    "an answer with null": (b'{"jsonrpc":"2.0","id":1,"result":null}', None),
    "an answer without id": (b'{"jsonrpc":"2.0","result":{}}', None),
    "an answer without version": (b'{"id":1,"result":{}}', None),
    "an error without code": (b'{"jsonrpc":"2.0","id":1,"error":{"message":"m"}}', None),
    "an error with a true code": (b'{"jsonrpc":"2.0","id":1,"error":{"code":true,"message":"m"}}', None),
    "an error without message": (b'{"jsonrpc":"2.0","id":1,"error":{"code":1}}', None),
    "a batch": (b'[{"jsonrpc":"2.0","id":1,"method":"x"}]', None),
}


@pytest.mark.parametrize(("body", "request_id"), INVALID.values(), ids=INVALID.keys())
def test_a_malformed_message_is_an_invalid_request_that_echoes_a_readable_id(body: bytes, request_id: Any) -> None:
    error = get_error(body)
    assert (error.code, error.request_id) == (INVALID_REQUEST, request_id)


@pytest.mark.parametrize("params", [b"[]", b"[1]", b"null", b'"x"', b"1"])
def test_params_that_are_no_object_are_invalid_params(params: bytes) -> None:
    error = get_error(b'{"jsonrpc":"2.0","id":7,"method":"x","params":' + params + b"}")
    assert (error.code, error.request_id) == (INVALID_PARAMS, 7)
    assert get_error(b'{"jsonrpc":"2.0","method":"x","params":' + params + b"}").request_id is None


def test_a_request_is_read() -> None:
    assert parse(b'{"jsonrpc":"2.0","id":0,"method":"ping"}') == Request(0, "ping", {})
    assert parse(b'\r\n\t {"jsonrpc":"2.0","id":"\\u00e9","method":"a","params":{"b":null}}\n') == Request(
        "é", "a", {"b": None}
    )
    assert parse(b'{"jsonrpc":"2.0","id":-9007199254740993,"method":"x"}') == Request(-9007199254740993, "x", {})
    assert parse('{"jsonrpc":"2.0","id":"😀","method":"x","params":{"a":"\\ud83d\\ude00"}}'.encode()) == Request(
        "😀", "x", {"a": "😀"}
    )


def test_an_escaped_backslash_before_a_u_is_no_surrogate() -> None:
    read = parse(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"\\\\ud800","b":"\\u00e9"}}')
    assert read == Request(1, "x", {"a": "\\ud800", "b": "é"})


def test_a_notification_has_no_id() -> None:
    assert parse(b'{"jsonrpc":"2.0","method":"notifications/initialized"}') == Notification(
        "notifications/initialized", {}
    )


def test_a_response_carries_a_result_or_an_error() -> None:
    assert parse(b'{"jsonrpc":"2.0","id":1,"result":{"a":1}}') == Response(1, result={"a": 1})
    error = {"code": -1, "message": "no"}
    assert parse(encode({"jsonrpc": "2.0", "id": "s", "error": error})) == Response("s", error=error)


def test_sixty_four_levels_are_read_and_brackets_in_texts_do_not_count() -> None:
    deepest = b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":' + b"[" * 62 + b"]" * 62 + b"}}"
    assert isinstance(parse(deepest), Request)
    text = b"[{" * 500 + b'\\"' + b"[{" * 500 + b"\\\\"
    assert isinstance(parse(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"' + text + b'"}}'), Request)
    wide = b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[' + b",".join([b"[]"] * 500) + b"]}}"
    assert isinstance(parse(wide), Request)


def test_brackets_hidden_behind_a_text_that_never_ends_are_still_refused() -> None:
    assert get_error(b'{"a":"' + b'\\"' * 50_000 + b"[" * 50_000).code == PARSE_ERROR
    assert get_error(b'{"a":"\\').code == PARSE_ERROR
    assert get_error(b'"' * 50_001 + b"[" * 100).code == PARSE_ERROR


def test_a_batch_is_read_where_batches_are_allowed() -> None:
    body = (
        b'[{"jsonrpc":"2.0","id":1,"method":"x"},{"jsonrpc":"2.0","method":"n"},{"jsonrpc":"2.0","id":1,"result":{}}]'
    )
    assert parse(body, batches=True) == [Request(1, "x", {}), Notification("n", {}), Response(1, result={})]
    assert parse(b'{"jsonrpc":"2.0","id":1,"method":"x"}', batches=True) == Request(1, "x", {})


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [1],
        [[]],
        [{"jsonrpc": "2.0", "id": 1, "method": "initialize"}],
        [{"jsonrpc": "2.0", "id": 1, "method": "a"}, {"jsonrpc": "2.0", "id": 1, "method": "b"}],
        [{"jsonrpc": "2.0", "id": 1, "method": "a"}, {}],
        [{"jsonrpc": "2.0", "id": i, "method": "a"} for i in range(51)],
    ],
    ids=["empty", "a number", "nested", "initialize", "an id twice", "one bad message", "51 messages"],
)
def test_a_bad_batch_is_refused_whole(messages: list[Any]) -> None:
    assert get_error(encode(messages), batches=True).code == INVALID_REQUEST


def test_a_message_goes_out_on_one_line_without_blanks() -> None:
    message = jsonrpc.result(1, {"text": "a\nb\u2028 é 😀", "n": [1, 2.5, True, None]})
    assert encode(message) == (
        '{"jsonrpc":"2.0","id":1,"result":{"text":"a\\nb\u2028 é 😀","n":[1,2.5,true,null]}}'.encode()
    )
    assert b"\n" not in encode({"a": "\r\n"})


def test_half_a_surrogate_pair_of_a_tool_goes_out_escaped() -> None:
    assert json.loads(encode({"a": "x\ud800é"})) == {"a": "x\ud800é"}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_values_that_are_not_json_are_never_sent(value: float) -> None:
    with pytest.raises(ValueError):
        encode({"a": value})
    with pytest.raises(TypeError):
        encode({"a": object()})


def test_builders_leave_out_missing_members() -> None:
    assert jsonrpc.notification("n") == {"jsonrpc": "2.0", "method": "n"}
    assert jsonrpc.notification("n", {"a": 1})["params"] == {"a": 1}
    assert jsonrpc.request("r1", "m") == {"jsonrpc": "2.0", "id": "r1", "method": "m"}
    assert jsonrpc.request("r1", "m", {})["params"] == {}
    assert jsonrpc.error(1, McpError(-32602, "no")) == {
        "jsonrpc": "2.0",
        "id": 1,
        "error": {"code": -32602, "message": "no"},
    }
    assert jsonrpc.error(None, McpError(-32602, "no", {"a": 1}))["error"]["data"] == {"a": 1}


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
ids = st.integers() | texts


def get_error_code(body: bytes, batches: bool = True) -> int | None:
    """The code of the refusal, or None; any other exception fails the test."""
    try:
        parse(body, batches=batches)
    except McpError as error:
        return error.code
    return None


@bounded
@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused_politely(body: bytes) -> None:
    assert get_error_code(body) in (None, PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS)


@bounded
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "jsonrpc": st.just("2.0") | values,
            "id": values,
            "method": texts | values,
            "params": values,
            "result": values,
            "error": values | st.fixed_dictionaries({"code": st.integers(), "message": texts}),
        },
    )
    | st.lists(values, max_size=3)
)
def test_any_json_is_read_or_refused_politely(value: Any) -> None:
    for batches in (False, True):
        assert get_error_code(json.dumps(value).encode(), batches) in (None, INVALID_REQUEST, INVALID_PARAMS)


@bounded
@given(ids, texts.filter(bool), st.dictionaries(texts, values, max_size=4))
def test_written_messages_are_read_back(id_: Any, method: str, params: dict[str, Any]) -> None:
    sent = jsonrpc.request(id_, method, params)
    assert parse(encode(sent)) == Request(id_, method, params)
    assert encode(json.loads(encode(sent))) == encode(sent)
    assert parse(json.dumps(sent, indent=3, ensure_ascii=True).encode()) == Request(id_, method, params)
    assert parse(encode(jsonrpc.notification(method, params))) == Notification(method, params)
    assert parse(encode(jsonrpc.result(id_, params))) == Response(id_, result=params)


@pytest.mark.parametrize(
    "id_",
    ['"' + "a" * 1001 + '"', '"' + "x" * 10_000 + '"', "1" * 1001, "-" + "1" * 1001, "1" * 4000],
    ids=["text", "10 kB", "number", "negative", "huge"],
)
@pytest.mark.parametrize("rest", ['"method":"ping"', '"result":{}'], ids=["request", "response"])
def test_an_id_longer_than_any_client_needs_is_refused_and_not_echoed(id_: str, rest: str) -> None:
    with pytest.raises(McpError) as refused:
        jsonrpc.parse(f'{{"jsonrpc":"2.0","id":{id_},{rest}}}'.encode())
    assert refused.value.code == -32600 and refused.value.request_id is None
    assert "1000 characters" in refused.value.message


def test_a_long_id_within_the_bound_is_kept() -> None:
    for id_ in ("a" * 1000, 10**999, -(10**999)):
        found = jsonrpc.parse(jsonrpc.encode({"jsonrpc": "2.0", "id": id_, "method": "ping"}))
        assert isinstance(found, jsonrpc.Request) and found.id == id_
