from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bounded import bounded
from toolhub.wire.envelope import check_param_headers
from toolhub.wire.errors import HEADER_MISMATCH, McpError
from toolhub.wire.headers import decode_value, encode_value, mirrored_parameters

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "dry": {"type": "boolean", "x-mcp-header": "Dry-Run"},
        "deep": {"type": "object", "properties": {"er": {"type": "string", "x-mcp-header": "Deep"}}},
        "free": {"type": "string"},
    },
}


@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({"region": "Hello"}, {}),
        ({"region": "Hello"}, {"mcp-param-region": "hello"}),
        ({"region": "Hello"}, {"mcp-param-region": "=?base64?SGVsbG8?="}),
        ({"region": "Hello"}, {"mcp-param-region": "=?base64?SGVs!!!bG8=?="}),
        ({"region": "Hello"}, {"mcp-param-region": "=?base64?SGVsbG9=?="}),
        ({"region": "Hello"}, {"mcp-param-region": "=?base64?SGVsbG8=\n?="}),
        ({"region": "\udc80"}, {"mcp-param-region": "=?base64?gA==?="}),
        ({"region": "é"}, {"mcp-param-region": "é"}),
        ({"region": "a\x00"}, {"mcp-param-region": "a\x00"}),
        ({"region": "a"}, {"mcp-param-region": "a, a"}),
        ({"region": None}, {"mcp-param-region": ""}),
        ({}, {"mcp-param-region": "x"}),
        ({"region": ["a"]}, {"mcp-param-region": "['a']"}),
        ({"count": 42}, {"mcp-param-count": "43"}),
        ({"count": 42}, {"mcp-param-count": "42.5"}),
        ({"count": 42}, {"mcp-param-count": "4.2e1"}),
        ({"count": 42}, {"mcp-param-count": "0x2a"}),
        ({"count": 42}, {"mcp-param-count": "٤٢"}),
        ({"count": 1}, {"mcp-param-count": "true"}),
        ({"count": True}, {"mcp-param-count": "1"}),
        ({"count": 9007199254740993}, {"mcp-param-count": "9007199254740992"}),
        ({"dry": True}, {"mcp-param-dry-run": "True"}),
        ({"dry": True}, {"mcp-param-dry-run": "1"}),
        ({"dry": False}, {}),
        ({"deep": {"er": "x"}}, {}),
        ({"deep": {"er": "x"}}, {"mcp-param-deep": "y"}),
        ({"deep": "x"}, {"mcp-param-deep": "x"}),
    ],
)
def test_a_header_that_disagrees_with_the_arguments_is_refused(
    arguments: dict[str, Any], headers: dict[str, str]
) -> None:
    with pytest.raises(McpError) as caught:
        check_param_headers(headers, SCHEMA, arguments)
    assert caught.value.code == HEADER_MISMATCH


@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({}, {}),
        ({"region": None, "free": "x"}, {"mcp-param-free": "y", "mcp-param-other": "z"}),
        ({"region": "Hello"}, {"mcp-param-region": "Hello"}),
        ({"region": "Hello"}, {"mcp-param-region": " Hello\t"}),
        ({"region": "Hello"}, {"mcp-param-region": "=?base64?SGVsbG8=?="}),
        ({"region": "SGVsbG8="}, {"mcp-param-region": "SGVsbG8="}),
        ({"region": "=?base64?SGVsbG8="}, {"mcp-param-region": "=?base64?SGVsbG8="}),
        ({"region": ""}, {"mcp-param-region": ""}),
        ({"region": "é"}, {"mcp-param-region": "=?base64?w6k=?="}),
        ({"count": 42}, {"mcp-param-count": "42"}),
        ({"count": 42}, {"mcp-param-count": "42.0"}),
        ({"count": 42.0}, {"mcp-param-count": "42"}),
        ({"count": -7}, {"mcp-param-count": "-7"}),
        ({"count": 0}, {"mcp-param-count": "0"}),
        ({"dry": False}, {"mcp-param-dry-run": "false"}),
        ({"deep": {"er": "x"}}, {"mcp-param-deep": "x"}),
        ({"deep": {"er": None}}, {}),
        ({"region": {"not": "scalar"}}, {}),
    ],
)
def test_headers_that_repeat_the_arguments_pass(arguments: dict[str, Any], headers: dict[str, str]) -> None:
    check_param_headers(headers, SCHEMA, arguments)


def test_a_tool_without_annotations_has_no_headers_to_check() -> None:
    check_param_headers({"mcp-param-region": "x"}, {"type": "object"}, {"region": "y"})


@pytest.mark.parametrize(
    "schema",
    [
        {"x-mcp-header": "Root"},
        {"properties": {"a": {"type": "string", "x-mcp-header": ""}}},
        {"properties": {"a": {"type": "string", "x-mcp-header": "with blank"}}},
        {"properties": {"a": {"type": "string", "x-mcp-header": "a\r\nb"}}},
        {"properties": {"a": {"type": "string", "x-mcp-header": "é"}}},
        {"properties": {"a": {"type": "string", "x-mcp-header": 5}}},
        {"properties": {"a": {"type": "number", "x-mcp-header": "A"}}},
        {"properties": {"a": {"type": "object", "x-mcp-header": "A"}}},
        {"properties": {"a": {"type": ["string", "null"], "x-mcp-header": "A"}}},
        {"properties": {"a": {"x-mcp-header": "A"}}},
        {
            "properties": {
                "a": {"type": "string", "x-mcp-header": "A"},
                "b": {"type": "string", "x-mcp-header": "a"},
            }
        },
        {"properties": {"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}}},
        {"anyOf": [{"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}]},
        {"if": {"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}},
        {"$defs": {"d": {"type": "string", "x-mcp-header": "A"}}},
        {"patternProperties": {"^a": {"type": "string", "x-mcp-header": "A"}}},
    ],
    ids=str,
)
def test_an_annotation_that_clients_would_refuse_is_named_at_save(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="x-mcp-header"):
        mirrored_parameters(schema)
    check_param_headers({}, schema, {"a": "x"})


def test_data_that_looks_like_an_annotation_is_none() -> None:
    schema = {
        "default": {"x-mcp-header": "A"},
        "examples": [{"x-mcp-header": "A"}],
        "properties": {"x-mcp-header": {"type": "string"}, "e": {"enum": [{"x-mcp-header": "A"}]}},
    }
    assert mirrored_parameters(schema) == ()


def test_another_schema_at_the_same_place_in_memory_is_not_mistaken_for_the_first() -> None:
    for number in range(50):
        schema = {"properties": {"a": {"type": "string", "x-mcp-header": f"H{number}"}}}
        check_param_headers({f"mcp-param-h{number}": "v"}, schema, {"a": "v"})
        del schema


@bounded
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_survives_a_header(value: str) -> None:
    written = encode_value(value)
    assert all(character == "\t" or " " <= character <= "~" for character in written)
    assert decode_value(written) == value


@bounded
@given(st.text())
def test_any_header_is_decoded_or_refused(raw: str) -> None:
    decode_value(raw)
    decode_value(f"=?base64?{raw}?=")
