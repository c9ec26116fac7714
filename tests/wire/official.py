"""Judge what the server sends by the official message types, and by what those types let pass.

`mcp_types` has two schema eras and accepts `null` and unknown members; here every revision has its own members, read
from the published schema of that revision, and an optional member is absent rather than null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_types import methods
from mcp_types.jsonrpc import jsonrpc_message_adapter
from pydantic import ValidationError

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
MODERN = "2026-07-28"

_CACHEABLE = {
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
}
_EMPTY = {"ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}
_TASKS = {"tasks/get", "tasks/update", "tasks/cancel"}
_TASK_STATUS = {"working", "input_required", "completed", "failed", "cancelled"}

# Below these members anything goes: they carry somebody's data or a JSON Schema.
_FREE = {
    "structuredContent",
    "inputSchema",
    "outputSchema",
    "requestedSchema",
    "data",
    "_meta",
    "arguments",
    "metadata",
    "experimental",
    "extensions",
    "input",
    "content",
}
# Here null is a value like any other.
_NULL = {"ttlMs", "data", "structuredContent"}


def _table(*columns: str) -> dict[str, set[str]]:
    """Members per revision: one text for each, or "+..." for what a revision adds to the one before it."""
    table: dict[str, set[str]] = {}
    known: set[str] = set()
    for revision, column in zip(REVISIONS, columns, strict=True):
        if column.startswith("="):
            known = set(column[1:].split())
        else:
            known = known | set(column.split())
        table[revision] = known
    return table


_CONTENT_META = ("", "", "_meta", "", "")
_MEMBERS = {
    "Tool": _table(
        "name description inputSchema",
        "annotations",
        "title outputSchema _meta",
        "icons execution",
        "=name description inputSchema annotations title outputSchema _meta icons",
    ),
    "ToolAnnotations": _table("", "title readOnlyHint destructiveHint idempotentHint openWorldHint", "", "", ""),
    "Prompt": _table("name description arguments", "", "title _meta", "icons", ""),
    "PromptArgument": _table("name description required", "", "title", "", ""),
    "Resource": _table("uri name description mimeType size annotations", "", "title _meta", "icons", ""),
    "ResourceTemplate": _table("uriTemplate name description mimeType annotations", "", "title _meta", "icons", ""),
    "Contents": _table("uri mimeType text blob", "", "_meta", "", ""),
    "Annotations": _table("audience priority", "", "lastModified", "", ""),
    "Implementation": _table("name version", "", "title", "description icons websiteUrl", ""),
    "Icon": _table("", "", "", "src mimeType sizes theme", ""),
    "ServerCapabilities": _table(
        "experimental logging prompts resources tools",
        "completions",
        "",
        "tasks",
        "=experimental logging prompts resources tools completions extensions",
    ),
}
_BLOCKS: dict[str, dict[str, set[str]]] = {
    "text": _table("type text annotations", *_CONTENT_META[1:]),
    "image": _table("type data mimeType annotations", *_CONTENT_META[1:]),
    "audio": _table("", "type data mimeType annotations", "_meta", "", ""),
    "resource": _table("type resource annotations", *_CONTENT_META[1:]),
    "resource_link": _table("", "", "type uri name title description mimeType size annotations _meta", "icons", ""),
    "tool_use": _table("", "", "", "type id name input _meta", ""),
    "tool_result": _table("", "", "", "type toolUseId content structuredContent isError _meta", ""),
}
_RESULTS = {
    "initialize": _table("_meta protocolVersion capabilities serverInfo instructions", "", "", "", "="),
    "server/discover": _table("", "", "", "", "_meta supportedVersions capabilities instructions"),
    "tools/list": _table("_meta nextCursor tools", "", "", "", ""),
    "tools/call": _table("_meta content isError", "", "structuredContent", "", ""),
    "prompts/list": _table("_meta nextCursor prompts", "", "", "", ""),
    "prompts/get": _table("_meta description messages", "", "", "", ""),
    "resources/list": _table("_meta nextCursor resources", "", "", "", ""),
    "resources/templates/list": _table("_meta nextCursor resourceTemplates", "", "", "", ""),
    "resources/read": _table("_meta contents", "", "", "", ""),
    "completion/complete": _table("_meta completion", "", "", "", ""),
    "subscriptions/listen": _table("", "", "", "", "_meta"),
}
_PROGRESS = _table("progressToken progress total _meta", "message", "", "", "")


def validate_server_message(
    revision: str, message: Any, request_method: str | None = None, capabilities: Mapping[str, Any] | None = None
) -> None:
    """Raise AssertionError unless `message` is something a server of `revision` may send.

    `request_method` is the method that a result answers. `capabilities`, where given, are the client's: a request, or
    an input request, must not ask for more.
    """
    assert revision in REVISIONS, f"no such revision: {revision!r}"
    assert isinstance(message, dict), f"a message is one object, not {type(message).__name__}"
    assert message.get("jsonrpc") == "2.0", '`jsonrpc` must be "2.0"'
    try:
        jsonrpc_message_adapter.validate_python(message)
    except ValidationError as error:
        raise AssertionError(f"not a JSON-RPC message: {error}") from None
    _no_nulls(message, "message", top=True)
    if "method" in message:
        assert not message.keys() & {"result", "error"}, "a message has `method` or an answer, not both"
        _check_keys(message, {"jsonrpc", "id", "method", "params"}, "message")
        if "id" in message:
            _request(revision, message, capabilities)
        else:
            _notification(revision, message)
    elif "error" in message:
        _check_keys(message, {"jsonrpc", "id", "error"}, "message")
        _error(revision, message["error"])
    else:
        _check_keys(message, {"jsonrpc", "id", "result"}, "message")
        assert request_method is not None, "say which method this result answers"
        _result(revision, request_method, message["result"], capabilities)


def _no_nulls(value: Any, path: str, *, top: bool = False) -> None:
    if isinstance(value, dict):
        for name, member in value.items():
            if member is None:
                fine = (top and name == "id" and "error" in value) or name in _NULL
                assert fine, f"{path}.{name} is null; leave it out instead"
            if name not in _FREE or (name == "content" and isinstance(member, list)):
                _no_nulls(member, f"{path}.{name}")
    elif isinstance(value, list):
        for index, member in enumerate(value):
            _no_nulls(member, f"{path}[{index}]")


def _check_keys(value: Mapping[str, Any], known: set[str], path: str) -> None:
    unknown = sorted(value.keys() - known)
    assert not unknown, f"{path} has members unknown to this revision: {', '.join(unknown)}"


def _one(kind: str, revision: str, value: Any, path: str) -> None:
    _check_keys(value, _MEMBERS[kind][revision], path)
    for index, icon in enumerate(value.get("icons", ()) if kind != "Icon" else ()):
        _one("Icon", revision, icon, f"{path}.icons[{index}]")
    if "annotations" in value:
        inner = "ToolAnnotations" if kind == "Tool" else "Annotations"
        _one(inner, revision, value["annotations"], f"{path}.annotations")


def _block(revision: str, item: Any, path: str) -> None:
    kind = item.get("type")
    assert kind in _BLOCKS and _BLOCKS[kind][revision], f"{path}: {revision} has no content of type {kind!r}"
    _check_keys(item, _BLOCKS[kind][revision], path)
    if "annotations" in item:
        _one("Annotations", revision, item["annotations"], f"{path}.annotations")
    if kind == "resource":
        _contents(revision, item["resource"], f"{path}.resource")


def _contents(revision: str, item: Any, path: str) -> None:
    _one("Contents", revision, item, path)
    assert ("text" in item) != ("blob" in item), f"{path} has one of text and blob"


def _error(revision: str, error: Any) -> None:
    assert isinstance(error, dict), "`error` is an object"
    _check_keys(error, {"code", "message", "data"}, "error")
    code, data = error["code"], error.get("data")
    assert type(code) is int, "error.code is an integer"
    assert isinstance(error["message"], str) and error["message"], "error.message is a sentence"
    if revision == MODERN:
        assert code not in (-32002, -32042), f"{code} belongs to older revisions"
        assert not -32099 <= code <= -32023, f"{code} is reserved for the specification"
    else:
        assert not -32099 <= code <= -32020 or code == -32042, f"{code} is unknown to {revision}"
        assert code != -32042 or revision == "2025-11-25", f"{code} is unknown to {revision}"
    if code == -32021:
        assert isinstance(data, dict) and isinstance(data.get("requiredCapabilities"), dict), (
            "-32021 needs data.requiredCapabilities, an object"
        )
    if code == -32022:
        assert isinstance(data, dict) and isinstance(data.get("requested"), str), "-32022 needs data.requested"
        assert data.get("supported"), "-32022 needs data.supported"


def _asked(revision: str, method: str, params: Any, capabilities: Mapping[str, Any] | None, path: str) -> None:
    if method == "sampling/createMessage":
        for index, message in enumerate(params["messages"]):
            content = message["content"]
            for item in content if isinstance(content, list) else [content]:
                _block(revision, item, f"{path}.messages[{index}].content")
    if method == "elicitation/create" and params.get("mode", "form") == "form":
        schema = params["requestedSchema"]
        assert schema.get("type") == "object", f"{path}.requestedSchema.type is object"
        for name, one in schema["properties"].items():
            assert one.get("type") in ("string", "number", "integer", "boolean", "array"), (
                f"{path}.requestedSchema.properties.{name} is a primitive, or an array of choices"
            )
    if capabilities is not None:
        needed = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}
        if method in needed:
            assert needed[method] in capabilities, f"{path}: the client never declared {needed[method]}"


def _request(revision: str, message: Any, capabilities: Mapping[str, Any] | None) -> None:
    method = message["method"]
    assert revision != MODERN, f"a server of {MODERN} sends no requests, but sent {method}"
    try:
        methods.parse_server_request(method, revision, message.get("params"))
    except KeyError:
        raise AssertionError(f"{revision} has no request {method} from the server") from None
    except ValidationError as error:
        raise AssertionError(f"{method} is not valid in {revision}: {error}") from None
    if method == "elicitation/create" and revision == "2025-06-18":
        _check_keys(message["params"], {"message", "requestedSchema"}, "params")
    _asked(revision, method, message.get("params", {}), capabilities, "params")


def _notification(revision: str, message: Any) -> None:
    method, params = message["method"], message.get("params")
    if method == "notifications/tasks" and revision == MODERN:  # of the extension, so unknown to the official types
        _task_members(params, detailed=True, extra={"_meta"}, path="params")
        return
    try:
        methods.parse_server_notification(method, revision, params)
    except KeyError:
        raise AssertionError(f"{revision} has no notification {method} from the server") from None
    except ValidationError as error:
        raise AssertionError(f"{method} is not valid in {revision}: {error}") from None
    if method == "notifications/progress":
        _check_keys(params, _PROGRESS[revision], "params")


def _result(revision: str, method: str, result: Any, capabilities: Mapping[str, Any] | None) -> None:
    assert isinstance(result, dict), "`result` is an object"
    modern = revision == MODERN
    if not modern:
        for name in ("resultType", "ttlMs", "cacheScope", "inputRequests", "requestState"):
            assert name not in result, f"result.{name} is unknown to {revision}"
    elif method in _TASKS or result.get("resultType") == "task":
        _task(method, result)
        return
    elif result.get("resultType") == "input_required":
        _input_required(method, result, capabilities)
        return
    else:
        assert result.get("resultType") == "complete", f"result.resultType is {result.get('resultType')!r}"
    try:
        methods.validate_server_result(method, revision, result)
    except KeyError:
        raise AssertionError(f"{revision} has no method {method}, but it was answered") from None
    except ValidationError as error:
        raise AssertionError(f"the result of {method} is not valid in {revision}: {error}") from None
    if method in _EMPTY:
        assert result == {}, f"the result of {method} is exactly {{}}"
        return
    known = set(_RESULTS[method][revision])
    if modern:
        known.add("resultType")
        if method in _CACHEABLE:
            known |= {"ttlMs", "cacheScope"}
            assert type(result.get("ttlMs")) is int and result["ttlMs"] >= 0, "result.ttlMs is an integer >= 0"
            assert result.get("cacheScope") in ("public", "private"), "result.cacheScope is public or private"
    _check_keys(result, known, "result")
    _members(revision, method, result)


def _members(revision: str, method: str, result: Any) -> None:
    if method == "initialize":
        _one("Implementation", revision, result["serverInfo"], "result.serverInfo")
    if method in ("initialize", "server/discover"):
        _one("ServerCapabilities", revision, result["capabilities"], "result.capabilities")
    for index, tool in enumerate(result.get("tools", ()) if method == "tools/list" else ()):
        path = f"result.tools[{index}]"
        _one("Tool", revision, tool, path)
        assert tool["inputSchema"].get("type") == "object", f"{path}.inputSchema.type is object"
        if "outputSchema" in tool and revision != MODERN:
            assert tool["outputSchema"].get("type") == "object", f"{path}.outputSchema.type is object"
    for index, prompt in enumerate(result.get("prompts", ())):
        _one("Prompt", revision, prompt, f"result.prompts[{index}]")
        for argument in prompt.get("arguments", ()):
            _one("PromptArgument", revision, argument, f"result.prompts[{index}].arguments")
    for name, kind in (("resources", "Resource"), ("resourceTemplates", "ResourceTemplate")):
        for index, one in enumerate(result.get(name, ())):
            _one(kind, revision, one, f"result.{name}[{index}]")
    for index, one in enumerate(result.get("contents", ())):
        _contents(revision, one, f"result.contents[{index}]")
    for index, one in enumerate(result.get("messages", ())):
        _block(revision, one["content"], f"result.messages[{index}].content")
    for index, one in enumerate(result.get("content", ())):
        _block(revision, one, f"result.content[{index}]")
    if "structuredContent" in result and revision != MODERN:
        assert isinstance(result["structuredContent"], dict), f"structuredContent is an object in {revision}"
    if method == "completion/complete":
        _check_keys(result["completion"], {"values", "total", "hasMore"}, "result.completion")
        assert len(result["completion"]["values"]) <= 100, "at most 100 values"


def _input_required(method: str, result: Any, capabilities: Mapping[str, Any] | None) -> None:
    assert method in ("tools/call", "prompts/get", "resources/read"), f"{method} cannot ask for input"
    _check_keys(result, {"resultType", "inputRequests", "requestState", "_meta"}, "result")
    assert result.get("inputRequests") or result.get("requestState"), "input_required says what it needs"
    _input_requests(result.get("inputRequests", {}), capabilities)
    try:
        methods.validate_server_result(method, MODERN, result)
    except ValidationError as error:
        raise AssertionError(f"not a valid InputRequiredResult: {error}") from None


def _input_requests(requests: Any, capabilities: Mapping[str, Any] | None) -> None:
    for key, asked in requests.items():
        path = f"inputRequests.{key}"
        _check_keys(asked, {"method", "params"}, path)
        assert asked["method"] in ("sampling/createMessage", "elicitation/create", "roots/list"), f"{path}.method"
        params = asked.get("params", {})
        if asked["method"] == "elicitation/create":
            _check_keys(params, {"message", "mode", "requestedSchema", "url"}, f"{path}.params")
        _asked(MODERN, asked["method"], params, capabilities, f"{path}.params")


def _task(method: str, result: Any) -> None:
    if method in ("tasks/update", "tasks/cancel"):
        assert result.keys() <= {"resultType", "_meta"}, f"{method} only acknowledges: {sorted(result)}"
        assert result["resultType"] == "complete", "result.resultType is complete"
        return
    expected = "complete" if method == "tasks/get" else "task"
    assert result.get("resultType") == expected, f"result.resultType is {expected}"
    _task_members(result, detailed=method == "tasks/get", extra={"resultType", "_meta"}, path="result")


def _task_members(task: Any, *, detailed: bool, extra: set[str], path: str) -> None:
    known = {"taskId", "status", "statusMessage", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs"} | extra
    _check_keys(task, known | ({"result", "error", "inputRequests"} if detailed else set()), path)
    for name in ("taskId", "createdAt", "lastUpdatedAt"):
        assert isinstance(task.get(name), str) and task[name], f"{path}.{name} is a text"
    assert task.get("status") in _TASK_STATUS, f"{path}.status is {task.get('status')!r}"
    assert "ttlMs" in task, f"{path}.ttlMs is there, if only as null"
    for name in ("ttlMs", "pollIntervalMs"):
        number = task.get(name)
        assert number is None or (type(number) is int and number > 0), f"{path}.{name} is an integer > 0"
    if detailed:
        said = {"completed": "result", "failed": "error", "input_required": "inputRequests"}.get(task["status"])
        for name in ("result", "error", "inputRequests"):
            assert (name in task) == (name == said), f"a task that is {task['status']}: {path}.{name}"
        if said == "inputRequests":
            _input_requests(task["inputRequests"], None)
        if said == "error":
            _error(MODERN, task["error"])
