"""The judge itself: what it lets pass is what the other tests do not see."""

from __future__ import annotations

from typing import Any

import pytest

from tests.wire.official import MODERN, REVISIONS, validate_server_message

TASK = {
    "taskId": "1",
    "status": "working",
    "createdAt": "2026-01-01T00:00:00Z",
    "lastUpdatedAt": "2026-01-01T00:00:00Z",
    "ttlMs": 1000,
}


def answer(result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "result": result}


def error(code: int, data: Any = None, **extra: Any) -> dict[str, Any]:
    body = {"code": code, "message": "m", **extra}
    return {"jsonrpc": "2.0", "id": 1, "error": body if data is None else {**body, "data": data}}


def tools(**members: Any) -> dict[str, Any]:
    return {"tools": [{"name": "t", "inputSchema": {"type": "object"}, **members}]}


WRONG: list[tuple[str, Any, str | None]] = [
    ("2025-11-25", [], None),
    ("2025-11-25", {"id": 1, "result": {}}, "ping"),
    ("2025-11-25", {"jsonrpc": "2.0", "id": 1.5, "result": {}}, "ping"),
    ("2025-11-25", {"jsonrpc": "2.0", "id": 1, "result": {}, "extra": 1}, "ping"),
    ("2025-11-25", answer({}), None),
    ("2025-11-25", answer({"_meta": {}}), "ping"),
    ("2025-11-25", answer({}), "server/discover"),
    ("2025-11-25", answer({"tools": [], "resultType": "complete"}), "tools/list"),
    ("2025-11-25", answer({"tools": [], "ttlMs": 1}), "tools/list"),
    ("2025-11-25", answer(tools(title=None)), "tools/list"),
    ("2025-11-25", answer(tools(madeUp=1)), "tools/list"),
    ("2025-06-18", answer(tools(icons=[])), "tools/list"),
    ("2025-03-26", answer(tools(title="T")), "tools/list"),
    ("2024-11-05", answer(tools(annotations={})), "tools/list"),
    ("2025-11-25", answer(tools(inputSchema={"type": "string"})), "tools/list"),
    ("2025-11-25", answer(tools(outputSchema={"type": "array"})), "tools/list"),
    (MODERN, answer({"tools": [], "resultType": "complete"}), "tools/list"),
    (MODERN, answer({"tools": [], "resultType": "complete", "ttlMs": -1, "cacheScope": "private"}), "tools/list"),
    (MODERN, answer({"tools": [], "ttlMs": 1, "cacheScope": "private"}), "tools/list"),
    (MODERN, answer({"content": []}), "tools/call"),
    ("2025-11-25", answer({"content": [{"type": "video"}]}), "tools/call"),
    ("2024-11-05", answer({"content": [{"type": "audio", "data": "", "mimeType": "a/b"}]}), "tools/call"),
    ("2025-03-26", answer({"content": [{"type": "resource_link", "uri": "a://b", "name": "b"}]}), "tools/call"),
    ("2025-03-26", answer({"content": [], "structuredContent": {}}), "tools/call"),
    ("2025-11-25", answer({"content": [], "structuredContent": []}), "tools/call"),
    ("2025-11-25", answer({"content": [{"type": "text", "text": "x", "annotations": None}]}), "tools/call"),
    ("2025-11-25", answer({"contents": [{"uri": "a://b"}]}), "resources/read"),
    ("2025-11-25", answer({"completion": {"values": ["x"] * 101}}), "completion/complete"),
    ("2025-11-25", error(-32021, {"requiredCapabilities": {}}), None),
    ("2025-06-18", error(-32042), None),
    (MODERN, error(-32002), None),
    (MODERN, error(-32042), None),
    (MODERN, error(-32050), None),
    (MODERN, error(-32021), None),
    (MODERN, error(-32021, {"requiredCapabilities": ["sampling"]}), None),
    (MODERN, error(-32022, {"supported": []}), None),
    (MODERN, error(-32603, extra=1), None),
    (MODERN, {"jsonrpc": "2.0", "id": 1, "method": "roots/list"}, None),
    ("2024-11-05", {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": {}}, None),
    ("2025-11-25", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x"}}, None),
    ("2025-11-25", {"jsonrpc": "2.0", "method": "notifications/made/up"}, None),
    ("2025-11-25", {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged"}, None),
    ("2025-11-25", {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}}, None),
    (MODERN, answer({"resultType": "input_required"}), "tools/call"),
    (MODERN, answer({"resultType": "input_required", "requestState": "x"}), "tools/list"),
    (MODERN, answer({"resultType": "input_required", "inputRequests": {"a": {"method": "tools/list"}}}), "tools/call"),
    (MODERN, answer({"resultType": "task", **TASK, "task": {}}), "tools/call"),
    (MODERN, answer({"resultType": "task", **TASK, "result": {}}), "tools/call"),
    (MODERN, answer({"resultType": "complete", **TASK, "status": "completed"}), "tasks/get"),
    (MODERN, answer({"resultType": "complete", "taskId": "1"}), "tasks/cancel"),
    (MODERN, {"jsonrpc": "2.0", "method": "notifications/tasks", "params": {**TASK, "status": "failed"}}, None),
    ("2025-11-25", {"jsonrpc": "2.0", "method": "notifications/tasks", "params": TASK}, None),
]


@pytest.mark.parametrize(("revision", "message", "method"), WRONG)
def test_messages_that_no_server_may_send_are_caught(revision: str, message: Any, method: str | None) -> None:
    with pytest.raises(AssertionError, match=r"\w"):
        validate_server_message(revision, message, method)


def test_asking_for_more_than_the_client_declared_is_caught() -> None:
    asked = {"a": {"method": "elicitation/create", "params": {"message": "m", "requestedSchema": SCHEMA}}}
    message = answer({"resultType": "input_required", "inputRequests": asked})
    validate_server_message(MODERN, message, "tools/call", {"elicitation": {}})
    with pytest.raises(AssertionError, match="elicitation"):
        validate_server_message(MODERN, message, "tools/call", {"sampling": {}})


SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.mark.parametrize("revision", REVISIONS)
def test_ordinary_messages_pass(revision: str) -> None:
    validate_server_message(revision, error(-32601))
    validate_server_message(revision, {**error(-32700), "id": None})
    validate_server_message(revision, {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    validate_server_message(
        revision,
        {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": None}},
    )


def test_notifications_of_a_task_pass() -> None:
    validate_server_message(MODERN, {"jsonrpc": "2.0", "method": "notifications/tasks", "params": TASK})
    done = {**TASK, "status": "completed", "result": {"content": []}, "pollIntervalMs": 500}
    validate_server_message(MODERN, {"jsonrpc": "2.0", "method": "notifications/tasks", "params": done})
