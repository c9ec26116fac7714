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


PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_the_trace_of_a_call_goes_on_and_the_rest_only_by_the_list() -> None:
    given = {
        "traceparent": PARENT,
        "tracestate": "vendor=1",
        "baggage": "user=1",
        "com.example/a": {"b": [1]},
        "com.example/b": 2,
        "org.other/a": 3,
        "progressToken": 1,
        "io.modelcontextprotocol/clientInfo": {},
        "dev.toolhub/callId": "x",
    }
    assert meta.forwarded(given, []) == {"traceparent": PARENT}
    assert meta.forwarded(given, ["tracestate", "com.example/*", "absent"]) == {
        "traceparent": PARENT,
        "tracestate": "vendor=1",
        "com.example/a": {"b": [1]},
        "com.example/b": 2,
    }
    everything = ["baggage", "progressToken", "io.modelcontextprotocol/*", "dev.toolhub/*", "org.other/a"]
    assert meta.forwarded(given, everything) == {"traceparent": PARENT, "baggage": "user=1", "org.other/a": 3}
    assert meta.forwarded({}, everything) == {}


@pytest.mark.parametrize(
    "parent",
    [
        "",
        "x",
        PARENT.upper(),
        PARENT + "-x",
        PARENT + "\n",
        "00-" + "0" * 32 + PARENT[35:],
        5,
        None,
        ["a"],
        "ff" + PARENT[2:],
    ],
)
def test_a_trace_that_is_none_goes_nowhere_and_takes_its_state_along(parent: object) -> None:
    given = {"traceparent": parent, "tracestate": "a=1", "baggage": "b=1"}
    assert meta.forwarded(given, ["tracestate", "baggage"]) == {"baggage": "b=1"}


def test_values_that_could_break_a_header_or_are_too_large_stay_here() -> None:
    for name, limit in (("tracestate", 512), ("baggage", 8192)):
        for value in ("a=1\r\nX: y", "\u00e4", "", 5, None, "x" * (limit + 1)):
            assert name not in meta.forwarded({"traceparent": PARENT, name: value}, [name]), value
    assert meta.forwarded({"com.example/a": "x" * meta.MAX_FORWARDED_CHARACTERS}, ["com.example/a"]) == {}


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        *((name, None) for name in ("tracestate", "baggage", "com.example/a", "com.example/*", "plain")),
        *((name, "invalid") for name in ("", "a b", "*", "com.example/a*", "com..x/*", "/*")),
        *((name, "reserved") for name in ("progressToken", "io.modelcontextprotocol/*", "dev.mcp/a", "dev.toolhub/*")),
        ("traceparent", "always"),
    ],
)
def test_a_list_names_keys_that_may_be_forwarded(name: str, problem: str | None) -> None:
    assert meta.find_rule_problem(name) == problem
