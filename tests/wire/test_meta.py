"""Names of `_meta` keys: which are valid, which belong to the protocol, and which may come from others."""

from __future__ import annotations

import pytest

from toolhub.wire import meta

VALID = ["a", "A-b_c.d9", "com.example/name", "com.example.mcp/name", "x/", "dev.toolhub/callId", "trace-id", "ui"]
INVALID = [
    "",
    "-a",
    "a-",
    "a b",
    "com..example/a",
    "1com/a",
    "com-/a",
    "com/exam/ple",
    "a\n",
    "\u00e4",
    "x" * 301,
    "/a",
]
RESERVED = [
    *("progressToken", "io.modelcontextprotocol/serverInfo", "io.modelcontextprotocol/", "dev.mcp/x"),
    *(
        "org.modelcontextprotocol.api/x",
        "com.mcp.tools/x",
        "modelcontextprotocol.io/x",
        "mcp/x",
        "IO.ModelContextProtocol/x",
    ),
]


@pytest.mark.parametrize("key", VALID)
def test_a_key_with_an_optional_prefix_of_labels_is_valid_and_free(key: str) -> None:
    assert meta.is_valid(key) and not meta.is_reserved(key)


@pytest.mark.parametrize("key", INVALID)
def test_any_other_key_is_invalid(key: str) -> None:
    assert not meta.is_valid(key)


@pytest.mark.parametrize("key", RESERVED)
def test_keys_of_the_protocol_are_reserved(key: str) -> None:
    assert meta.is_reserved(key)


def test_what_comes_from_others_holds_neither_reserved_nor_invalid_keys_nor_ours() -> None:
    others = {"com.example/a": 1, "ui": {"resourceUri": "ui://x"}}
    forged = {meta.CALL_ID: "forged", "Dev.Toolhub/callId": 1, **dict.fromkeys([*RESERVED, *INVALID], 1)}
    assert meta.foreign({**forged, **others}) == others
    assert meta.foreign(None) == {}


def test_our_own_keys_are_in_reverse_dns_notation() -> None:
    for key in (meta.CALL_ID, meta.RETRY_AFTER):
        assert meta.is_valid(key) and not meta.is_reserved(key) and "." in key.partition("/")[0]
