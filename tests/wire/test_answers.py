from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tests.wire.official import MODERN, REVISIONS, validate_server_message
from toolhub.wire import jsonrpc
from toolhub.wire.envelope import SERVER_INFO
from toolhub.wire.shapes import outgoing, shape

HANDSHAKE = REVISIONS[:-1]
ICON = {"src": "https://example.com/i.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"}
INFO = {"name": "toolhub", "title": "Tool hub", "version": "1", "websiteUrl": "https://example.com", "icons": [ICON]}
ANNOTATIONS = {"audience": ["user"], "priority": 0.5, "lastModified": "2026-01-01T00:00:00Z"}
META = {"example.com/a": None}
PNG = "iVBORw0KGgo="

TEXT = {"type": "text", "text": "hi", "annotations": ANNOTATIONS, "_meta": META}
IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav", "annotations": ANNOTATIONS}
EMBEDDED = {"type": "resource", "resource": {"uri": "a://b", "mimeType": "text/plain", "text": "x", "_meta": META}}
LINK = {
    "type": "resource_link",
    "uri": "a://b",
    "name": "b",
    "title": "The b",
    "description": "All of it",
    "mimeType": "text/plain",
    "size": 3,
    "icons": [ICON],
}
CONTENT = [TEXT, IMAGE, AUDIO, EMBEDDED, LINK]
TOOL = {
    "name": "sum",
    "title": "Sum",
    "description": "Adds",
    "inputSchema": {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "default": None},
    "outputSchema": {"type": "object", "properties": {"sum": {"type": "number"}}},
    "annotations": {"title": "Sum", "readOnlyHint": True},
    "icons": [ICON],
    "execution": {"taskSupport": "optional"},
    "_meta": META,
}
PROMPT = {
    "name": "p",
    "title": "P",
    "description": "A prompt",
    "arguments": [{"name": "a", "title": "A", "description": "d", "required": True}],
    "icons": [ICON],
    "_meta": META,
}
RESOURCE = {
    "uri": "a://b",
    "name": "b",
    "title": "B",
    "description": "d",
    "mimeType": "text/plain",
    "size": 1,
    "annotations": ANNOTATIONS,
    "icons": [ICON],
    "_meta": META,
}
TEMPLATE = {**{k: v for k, v in RESOURCE.items() if k not in ("uri", "size")}, "uriTemplate": "a://{b}"}
CAPABILITIES = {
    "tools": {"listChanged": True},
    "prompts": {},
    "resources": {"subscribe": True},
    "logging": {},
    "completions": {},
    "extensions": {"io.modelcontextprotocol/tasks": {}},
}
HINTS = {"ttlMs": 60_000, "cacheScope": "private"}

NEWEST: dict[str, dict[str, Any]] = {
    "tools/list": {"tools": [TOOL, {**TOOL, "outputSchema": {"type": "array"}}], "nextCursor": "c", **HINTS},
    "tools/call": {
        "content": CONTENT,
        "structuredContent": {"a": None},
        "isError": False,
        "_meta": META,
        "resultType": "complete",
    },
    "prompts/list": {"prompts": [PROMPT, {"name": "bare"}], **HINTS},
    "prompts/get": {"description": "d", "messages": [{"role": "user", "content": item} for item in CONTENT]},
    "resources/list": {"resources": [RESOURCE], **HINTS},
    "resources/templates/list": {"resourceTemplates": [TEMPLATE], **HINTS},
    "resources/read": {
        "contents": [{"uri": "a://b", "text": "x", "_meta": META}, {"uri": "a://c", "blob": PNG}],
        **HINTS,
    },
    "completion/complete": {"completion": {"values": ["a"], "total": 1, "hasMore": False}},
}


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("method", NEWEST)
def test_every_result_is_valid_in_every_revision_and_its_source_is_untouched(method: str, revision: str) -> None:
    source = copy.deepcopy(NEWEST[method])
    shaped = shape(method, revision, source, INFO)
    validate_server_message(revision, jsonrpc.result(1, shaped), method)
    assert source == NEWEST[method]


@pytest.mark.parametrize("revision", HANDSHAKE)
def test_initialize_is_valid_in_every_handshake_revision(revision: str) -> None:
    result = {"protocolVersion": revision, "capabilities": CAPABILITIES, "serverInfo": INFO, "instructions": "Hi"}
    shaped = shape("initialize", revision, result, INFO)
    validate_server_message(revision, jsonrpc.result(0, shaped), "initialize")
    assert ("completions" in shaped["capabilities"]) == (revision != "2024-11-05")
    assert ("title" in shaped["serverInfo"]) == (revision >= "2025-06-18")


@pytest.mark.parametrize("method", ["ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"])
@pytest.mark.parametrize("revision", HANDSHAKE)
def test_an_empty_result_is_exactly_empty(method: str, revision: str) -> None:
    assert shape(method, revision, {"_meta": {}, "resultType": "complete"}, INFO) == {}


def test_discover_and_listen_are_valid() -> None:
    result = {"supportedVersions": [MODERN], "capabilities": {**CAPABILITIES, "tasks": {}}}
    shaped = shape("server/discover", MODERN, result, INFO)
    validate_server_message(MODERN, jsonrpc.result(1, shaped), "server/discover")
    assert (shaped["ttlMs"], shaped["cacheScope"]) == (0, "private")
    listen = shape("subscriptions/listen", MODERN, {"_meta": {"io.modelcontextprotocol/subscriptionId": 1}}, INFO)
    validate_server_message(MODERN, jsonrpc.result(1, listen), "subscriptions/listen")
    assert listen["_meta"].keys() == {"io.modelcontextprotocol/subscriptionId", SERVER_INFO}


def test_modern_results_name_their_type_and_their_server() -> None:
    shaped = shape("tools/call", MODERN, {"content": [], "_meta": {"example.com/a": 1}}, INFO)
    assert shaped == {
        "content": [],
        "resultType": "complete",
        "_meta": {"example.com/a": 1, SERVER_INFO: INFO},
    }
    assert "_meta" not in shape("tools/call", MODERN, {"content": []})


def test_cache_hints_are_private_and_short_by_default() -> None:
    shaped = shape("tools/list", MODERN, {"tools": []})
    assert (shaped["ttlMs"], shaped["cacheScope"]) == (0, "private")
    assert shape("tools/list", MODERN, {"tools": [], **HINTS})["ttlMs"] == 60_000
    assert "ttlMs" not in shape("prompts/get", MODERN, {"messages": []})
    assert "ttlMs" not in shape("tools/list", "2025-11-25", {"tools": [], **HINTS})


def test_a_request_for_input_carries_no_cache_hints_and_only_what_its_requests_may_say() -> None:
    asked: dict[str, Any] = {
        "who": {
            "method": "elicitation/create",
            "params": {"mode": "url", "message": "m", "url": "https://example.com", "elicitationId": "1"},
        },
        "roots": {"method": "roots/list"},
    }
    result = {"resultType": "input_required", "inputRequests": asked, "requestState": "s"}
    shaped = shape("resources/read", MODERN, result, INFO)
    validate_server_message(MODERN, jsonrpc.result(1, shaped), "resources/read", {"elicitation": {}, "roots": {}})
    assert "ttlMs" not in shaped
    assert "elicitationId" in asked["who"]["params"]


def test_a_task_passes_unchanged_but_for_the_server() -> None:
    task = {
        "resultType": "task",
        "taskId": "1",
        "status": "working",
        "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:00Z",
        "ttlMs": None,
    }
    shaped = shape("tools/call", MODERN, task, INFO)
    validate_server_message(MODERN, jsonrpc.result(1, shaped), "tools/call")
    got = shape("tasks/get", MODERN, {**task, "resultType": "complete"}, INFO)
    validate_server_message(MODERN, jsonrpc.result(1, got), "tasks/get")
    validate_server_message(MODERN, jsonrpc.result(1, shape("tasks/cancel", MODERN, {}, INFO)), "tasks/cancel")


def test_audio_becomes_text_where_it_is_unknown() -> None:
    [item] = shape("tools/call", "2024-11-05", {"content": [AUDIO]})["content"]
    assert item["type"] == "text"
    assert "audio/wav" in item["text"]
    assert item["annotations"] == {"audience": ["user"], "priority": 0.5}
    assert shape("tools/call", "2025-03-26", {"content": [AUDIO]})["content"][0]["type"] == "audio"


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26"])
def test_a_resource_link_becomes_text_that_keeps_its_uri(revision: str) -> None:
    [item] = shape("tools/call", revision, {"content": [LINK]})["content"]
    assert item == {"type": "text", "text": "[resource link] The b (text/plain) a://b: All of it"}
    [bare] = shape("tools/call", revision, {"content": [{"type": "resource_link", "uri": "a://b", "name": "b"}]})[
        "content"
    ]
    assert bare["text"] == "[resource link] b a://b"


def test_structured_content_that_is_no_object_is_only_for_the_newest_revision() -> None:
    result = {"content": [], "structuredContent": [1, 2]}
    assert shape("tools/call", MODERN, result)["structuredContent"] == [1, 2]
    for revision in HANDSHAKE:
        assert shape("tools/call", revision, result) == {"content": [{"type": "text", "text": "[1,2]"}]}
    assert "outputSchema" not in shape("tools/list", "2025-11-25", NEWEST["tools/list"])["tools"][1]


@pytest.mark.parametrize("revision", HANDSHAKE)
@pytest.mark.parametrize("value", [[1, "\u00e9"], None, False, 1.5, "text"])
def test_older_clients_read_a_value_that_is_no_object_as_text_once(revision: str, value: Any) -> None:
    written = {"type": "text", "text": json.dumps(value, ensure_ascii=False, separators=(",", ":"))}
    said = [{"type": "text", "text": json.dumps(value, indent=2)}]
    words = [{"type": "text", "text": "in words"}]
    for given, content in ((said, said), (words, [*words, written]), ([], [written])):
        result = {"content": given, "structuredContent": value, "isError": False}
        assert shape("tools/call", revision, result) == {"content": content, "isError": False}
        assert result["structuredContent"] == value and result["content"] is given, "the input is as it was"


def test_an_output_schema_of_an_object_with_alternatives_is_for_every_revision_that_knows_schemas() -> None:
    listed = {"tools": [{"name": "a", "inputSchema": {}, "outputSchema": {"type": "object", "anyOf": [{}]}}]}
    for revision in ("2025-06-18", "2025-11-25", MODERN):
        assert "outputSchema" in shape("tools/list", revision, listed)["tools"][0]


def test_the_title_of_a_tool_is_an_annotation_before_it_had_a_member_of_its_own() -> None:
    plain = {"name": "a", "title": "Title", "inputSchema": {}}
    own = {**plain, "annotations": {"title": "Own", "readOnlyHint": True}}
    hinted = {**plain, "annotations": {"readOnlyHint": True}}
    listed = {"tools": [plain, own, hinted, {"name": "b", "inputSchema": {}}]}
    shaped = shape("tools/list", "2025-03-26", listed)["tools"]
    assert [tool.get("annotations") for tool in shaped] == [
        {"title": "Title"},
        {"title": "Own", "readOnlyHint": True},
        {"title": "Title", "readOnlyHint": True},
        None,
    ]
    assert all("title" not in tool for tool in shaped)
    assert "annotations" not in shape("tools/list", "2024-11-05", listed)["tools"][0]
    for revision in ("2025-06-18", "2025-11-25", MODERN):
        assert shape("tools/list", revision, listed)["tools"][0] == plain


def test_a_result_that_needs_no_change_is_not_copied() -> None:
    result = {"content": [TEXT], "isError": False}
    assert shape("tools/call", "2025-11-25", result) is result


def test_progress_has_no_message_in_the_first_revision() -> None:
    params = {"progressToken": 1, "progress": 1, "total": 2, "message": "half"}
    for revision in REVISIONS:
        sent = outgoing("notifications/progress", revision, params)
        validate_server_message(revision, jsonrpc.notification("notifications/progress", sent))
        assert ("message" in sent) == (revision != "2024-11-05")


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
def test_a_form_is_requested_with_the_members_of_the_revision(revision: str) -> None:
    params = {"mode": "form", "message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
    sent = outgoing("elicitation/create", revision, params)
    validate_server_message(revision, jsonrpc.request("1", "elicitation/create", sent))


@pytest.mark.parametrize("revision", HANDSHAKE)
def test_a_sample_is_requested_without_members_that_the_revision_lacks(revision: str) -> None:
    params = {
        "messages": [{"role": "user", "content": AUDIO}],
        "maxTokens": 5,
        "tools": [],
        "toolChoice": {"mode": "auto"},
    }
    sent = outgoing("sampling/createMessage", revision, params)
    validate_server_message(revision, jsonrpc.request("1", "sampling/createMessage", sent))
    assert ("tools" in sent) == (revision == "2025-11-25")


def test_other_messages_pass_as_they_are() -> None:
    params = {"level": "info", "data": None}
    assert outgoing("notifications/message", "2024-11-05", params) is params
    assert shape("completion/complete", "2025-11-25", params) is params
