from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bounded import bounded
from toolhub.wire import envelope, versions
from toolhub.wire.envelope import CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION, Envelope
from toolhub.wire.errors import HEADER_MISMATCH, INVALID_PARAMS, UNSUPPORTED_VERSION, McpError, http_status
from toolhub.wire.jsonrpc import Request
from toolhub.wire.versions import MODERN

NOW = "2026-07-28"


class _Absent:
    def __repr__(self) -> str:
        return "absent"


ABSENT: Any = _Absent()


def request(method: str = "tools/call", meta: Any = None, **params: Any) -> Request:
    full = {PROTOCOL_VERSION: NOW, CLIENT_CAPABILITIES: {}, **(meta or {})}
    return Request(1, method, {"_meta": {k: v for k, v in full.items() if v is not ABSENT}, **params})


def headers(method: str = "tools/call", name: str | None = None, version: str | None = NOW) -> dict[str, str]:
    lines = {"mcp-protocol-version": version, "mcp-method": method, "mcp-name": name}
    return {key: value for key, value in lines.items() if value is not None}


def get_error(head: Any, asked: Request) -> McpError:
    with pytest.raises(McpError) as caught:
        envelope.check(head, asked, MODERN)
    assert http_status(caught.value.code) == 400
    return caught.value


@pytest.mark.parametrize("params", [{}, {"_meta": None}, {"_meta": []}, {"_meta": "x"}, {"_meta": {}}])
def test_a_request_without_an_envelope_is_refused_before_its_headers_are_read(params: dict[str, Any]) -> None:
    assert get_error({}, Request(1, "tools/list", params)).code == INVALID_PARAMS


@pytest.mark.parametrize(
    "meta",
    [
        {PROTOCOL_VERSION: ABSENT},
        {PROTOCOL_VERSION: 20260728},
        {CLIENT_CAPABILITIES: ABSENT},
        {CLIENT_CAPABILITIES: None},
        {CLIENT_CAPABILITIES: []},
        {CLIENT_CAPABILITIES: {"sampling": True}},
        {CLIENT_CAPABILITIES: {"elicitation": None}},
        {CLIENT_CAPABILITIES: {"extensions": []}},
        {CLIENT_CAPABILITIES: {"extensions": {"io.modelcontextprotocol/tasks": True}}},
        {CLIENT_CAPABILITIES: {"experimental": {"x": 1}}},
        {CLIENT_INFO: "client"},
        {CLIENT_INFO: {"name": "client"}},
        {CLIENT_INFO: {"name": "client", "version": 1}},
        {LOG_LEVEL: "loud"},
        {LOG_LEVEL: 3},
        {LOG_LEVEL: ["info"]},
        {"progressToken": True},
        {"progressToken": 1.5},
        {"progressToken": {}},
    ],
    ids=str,
)
def test_a_malformed_envelope_is_invalid_params(meta: dict[str, Any]) -> None:
    assert get_error(headers("tools/list"), request("tools/list", meta)).code == INVALID_PARAMS
    assert get_error(None, request("tools/list", meta)).code == INVALID_PARAMS


@pytest.mark.parametrize(
    ("head", "asked"),
    [
        (headers(name="t", version=None), request(name="t")),
        (headers(name="t", version="2025-11-25"), request(name="t")),
        (headers(name="t"), request(meta={PROTOCOL_VERSION: "v999.0.0"}, name="t")),
        (headers(name="t", version="v999.0.0"), request(name="t")),
        ({"mcp-protocol-version": NOW, "mcp-name": "t"}, request(name="t")),
        (headers("prompts/list"), request("tools/list")),
        (headers("TOOLS/LIST"), request("tools/list")),
        (headers("tools/list, tools/list"), request("tools/list")),
        (headers(), request(name="t")),
        (headers(name=""), request(name="t")),
        (headers(name="T"), request(name="t")),
        (headers(name="u"), request(name="t")),
        (headers(name="t, t"), request(name="t")),
        (headers("prompts/get", "u"), request("prompts/get", name="p")),
        (headers("resources/read"), request("resources/read", uri="a://b")),
        (headers("resources/read", "a://c"), request("resources/read", uri="a://b")),
        (headers("tasks/get", "1"), request("tasks/get", taskId="2")),
        (headers("tasks/update", ""), request("tasks/update", taskId="2")),
        (headers("tasks/cancel", "1"), request("tasks/cancel", taskId="2")),
        (headers(name="=?base64?dA?="), request(name="t")),
        (headers(name="=?base64?dA=?="), request(name="t")),
        (headers(name="=?base64?dB==?="), request(name="t")),
        (headers(name="=?base64?!!!!?="), request(name="t")),
        (headers(name="=?BASE64?dA==?="), request(name="t")),
        (headers(name="=?base64?dA==?="), request(name="=?base64?dA==?=")),
        (headers(name="é"), request(name="é")),
        (headers(name="a\x01"), request(name="a\x01")),
    ],
)
def test_a_header_that_does_not_match_the_body_is_a_mismatch(head: dict[str, str], asked: Request) -> None:
    assert get_error(head, asked).code == HEADER_MISMATCH


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
def test_clients_that_leave_out_the_name_of_a_task_are_understood(method: str) -> None:
    assert envelope.check(headers(method), request(method, taskId="2"), MODERN).revision == NOW


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("t", "t"),
        ("t", "  t  "),
        ("t", "\tt"),
        ("t", "=?base64?dA==?="),
        ("", "=?base64??="),
        ("=?base64?dA==", "=?base64?dA=="),
        ("two words", "two words"),
        ("ünï", f"=?base64?{b64encode('ünï'.encode()).decode()}?="),
        ("=?base64?x?=", f"=?base64?{b64encode(b'=?base64?x?=').decode()}?="),
    ],
)
def test_a_name_is_compared_after_decoding(name: str, header: str) -> None:
    assert envelope.check(headers(name=header), request(name=name), MODERN).revision == NOW


def test_a_name_that_the_body_lacks_is_left_to_the_method() -> None:
    envelope.check(headers(), request(), MODERN)
    envelope.check(headers(), request(name=5), MODERN)
    envelope.check(headers("tools/list", name="whatever"), request("tools/list"), MODERN)


def test_an_unknown_version_is_refused_with_those_that_are_spoken() -> None:
    error = get_error(
        headers("server/discover", version="v999.0.0"), request("server/discover", {PROTOCOL_VERSION: "v999.0.0"})
    )
    assert error.code == UNSUPPORTED_VERSION
    assert error.data == {"supported": list(versions.ALL), "requested": "v999.0.0"}


@pytest.mark.parametrize("header", ["2025-11-25", "2025-03-26", None])
@pytest.mark.parametrize("session", ["2025-06-18", None])
def test_a_stateless_envelope_under_a_header_of_another_version_is_a_mismatch(header: Any, session: Any) -> None:
    with pytest.raises(McpError) as caught:
        envelope.check_stateful(headers(version=header), request("tools/list"), session)
    assert caught.value.code == HEADER_MISMATCH and "MCP-Protocol-Version" in caught.value.message


def test_a_stateful_request_may_repeat_its_own_version_or_have_other_metadata() -> None:
    for version in ("2025-11-25", "2025-06-18"):
        envelope.check_stateful(headers(version=version), request(meta={PROTOCOL_VERSION: version}), None)
    envelope.check_stateful(headers(version=None), request(meta={PROTOCOL_VERSION: "2025-06-18"}), "2025-06-18")
    envelope.check_stateful(headers(version="2025-11-25"), Request(1, "ping", {"_meta": {"progressToken": 1}}), None)
    envelope.check_stateful(headers(version="2025-11-25"), Request(1, "ping", {"_meta": "nonsense"}), None)


def test_a_handshake_revision_is_not_served_statelessly() -> None:
    asked = request("tools/list", {PROTOCOL_VERSION: "2025-11-25"})
    assert get_error(headers("tools/list", version="2025-11-25"), asked).code == UNSUPPORTED_VERSION


def test_an_unknown_method_is_left_to_the_dispatcher() -> None:
    envelope.check(headers("no/such"), request("no/such"), MODERN)


def test_the_envelope_is_read() -> None:
    meta = {
        CLIENT_INFO: {"name": "Cursor", "version": "1.2", "title": "x"},
        CLIENT_CAPABILITIES: {
            "sampling": {"tools": {}},
            "elicitation": {},
            "extensions": {"io.modelcontextprotocol/tasks": {}},
        },
        LOG_LEVEL: "warning",
        "progressToken": 0,
    }
    expected = Envelope(NOW, "Cursor", "1.2", meta[CLIENT_CAPABILITIES], "warning", 0)  # type: ignore[arg-type]
    assert envelope.check(headers(name="t"), request(meta=meta, name="t"), MODERN) == expected
    assert envelope.check(None, request(meta=meta, name="t"), MODERN) == expected


def test_client_info_log_level_and_progress_token_are_optional() -> None:
    assert envelope.check(headers("ping"), request("ping"), MODERN) == Envelope(NOW, "", "", {}, None, None)


texts = st.text(max_size=30)
junk = st.none() | st.booleans() | st.integers() | texts | st.lists(texts, max_size=2) | st.dictionaries(texts, texts)


@bounded
@given(
    st.dictionaries(st.sampled_from(["mcp-protocol-version", "mcp-method", "mcp-name"]), texts | st.just(NOW)),
    st.dictionaries(
        st.sampled_from([PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, "progressToken"]),
        junk | st.just(NOW),
    ),
    junk,
)
def test_no_envelope_breaks_the_check(head: dict[str, str], meta: dict[str, Any], name: Any) -> None:
    for given_headers in (head, None):
        try:
            envelope.check(given_headers, Request(1, "tools/call", {"_meta": meta, "name": name}), MODERN)
        except McpError:
            continue
