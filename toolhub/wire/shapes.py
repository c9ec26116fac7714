"""Results, notifications and requests in the shape of each protocol revision.

Handlers build the newest shape; `shape` removes members that the caller's revision does not know and adds the required
ones. It is written by hand and by key, because it is on the path of every call: an unchanged result costs a lookup, not
a copy.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from .envelope import SERVER_INFO
from .versions import AGE, MODERN

CACHEABLE: Final = frozenset(
    {
        "server/discover",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
    }
)
"""Methods whose complete results state for how long, and for whom, they may be cached."""

_MODERN: Final = frozenset(MODERN)
_A0326, _A0618, _A1125, _A0728 = (AGE[r] for r in ("2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"))


def _by_age(*steps: tuple[int, str]) -> tuple[frozenset[str], ...]:
    """Return the members known at each age, from (first age, names) pairs."""
    return tuple(
        frozenset(name for since, names in steps if since <= age for name in names.split()) for age in range(len(AGE))
    )


_IMPLEMENTATION: Final = _by_age((0, "name version"), (_A0618, "title"), (_A1125, "description icons websiteUrl"))
_PROMPT: Final = _by_age((0, "name description arguments"), (_A0618, "title _meta"), (_A1125, "icons"))
_PROMPT_ARGUMENT: Final = _by_age((0, "name description required"), (_A0618, "title"))
_RESOURCE: Final = _by_age(
    (0, "uri name description mimeType size annotations"), (_A0618, "title _meta"), (_A1125, "icons")
)
_TEMPLATE: Final = _by_age(
    (0, "uriTemplate name description mimeType annotations"), (_A0618, "title _meta"), (_A1125, "icons")
)
_CONTENTS: Final = _by_age((0, "uri mimeType text blob"), (_A0618, "_meta"))
_ANNOTATIONS: Final = _by_age((0, "audience priority"), (_A0618, "lastModified"))
_CALL: Final = _by_age((0, "content isError _meta"), (_A0618, "structuredContent"), (_A0728, "resultType"))
# Unlike everything else, `execution` and `tasks` were added and removed: both belong to 2025-11-25 alone.
_TOOL: Final = tuple(
    known | {"execution"} if age == _A1125 else known
    for age, known in enumerate(
        _by_age(
            (0, "name description inputSchema"),
            (_A0326, "annotations"),
            (_A0618, "title outputSchema _meta"),
            (_A1125, "icons"),
        )
    )
)
_CAPABILITIES: Final = tuple(
    known | {"tasks"} if age == _A1125 else known
    for age, known in enumerate(
        _by_age((0, "experimental logging prompts resources tools"), (_A0326, "completions"), (_A0728, "extensions"))
    )
)
_ELICITATION: Final = _by_age((0, "message requestedSchema"), (_A1125, "mode url elicitationId _meta"), (_A0728, ""))
_SAMPLING_NEWER: Final = _by_age((_A1125, "tools toolChoice"))


def shape(
    method: str, revision: str, result: dict[str, Any], server_info: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return `result` in the shape of `revision`. The input is never changed, and may be part of the returned value."""
    if revision in _MODERN:
        shaped = result.copy()
        kind = shaped.setdefault("resultType", "complete")
        if kind == "input_required":
            shaped["inputRequests"] = {
                key: {**asked, "params": outgoing(asked["method"], revision, asked.get("params", {}))}
                for key, asked in shaped.get("inputRequests", {}).items()
            }
        elif method != "tools/call" and kind == "complete":
            if (reshape := _RESHAPE.get(method)) is not None:
                shaped = reshape(shaped, _A0728)
            if method in CACHEABLE:
                shaped.setdefault("ttlMs", 0)
                shaped.setdefault("cacheScope", "private")
        if server_info is not None:
            meta = shaped.get("_meta")
            shaped["_meta"] = {SERVER_INFO: server_info} if meta is None else {**meta, SERVER_INFO: server_info}
        return shaped
    if "resultType" in result or "ttlMs" in result or "cacheScope" in result:
        result = {k: v for k, v in result.items() if k not in _MODERN_ONLY}
    reshape = _RESHAPE.get(method)
    return result if reshape is None else reshape(result, AGE[revision])


_MODERN_ONLY: Final = frozenset({"resultType", "ttlMs", "cacheScope", "requestState", "inputRequests"})


def outgoing(method: str, revision: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the params of a notification or request to the client in the shape of `revision`."""
    age = AGE[revision]
    if method == "notifications/progress":
        return _without(params, "message") if age < _A0326 else params
    if method == "elicitation/create":
        if age < _A1125:
            return _known(params, _ELICITATION[age])
        if age == _A0728:
            return _without(_without(params, "elicitationId"), "_meta")
        return params
    if method == "sampling/createMessage":
        if age < _A1125:
            params = _without(_without(params, "tools"), "toolChoice")
        messages = [_message(message, age) for message in params.get("messages", ())]
        return {**params, "messages": messages}
    return params


def _known(members: dict[str, Any], known: frozenset[str]) -> dict[str, Any]:
    """Return `members` itself if all of them are known, else a copy with the known ones."""
    if members.keys() <= known:
        return members
    return {name: value for name, value in members.items() if name in known}


def _without(members: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in members.items() if key != name} if name in members else members


def _call(result: dict[str, Any], age: int) -> dict[str, Any]:
    if "structuredContent" in result and type(result["structuredContent"]) is not dict:
        result = _as_content(result)  # before 2026-07-28 it is an object or absent
    result = _known(result, _CALL[age])
    if age >= _A1125:
        return result
    content = result.get("content")
    return {**result, "content": [block(item, age) for item in content]} if content else result


def _as_content(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result whose structured value is in its text, where most tools have it already."""
    value, content = result["structuredContent"], result.get("content", [])
    if not any(item.get("type") == "text" and _says(item.get("text"), value) for item in content):
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        content = [*content, {"type": "text", "text": text}]
    return {**_without(result, "structuredContent"), "content": content}


def _says(text: object, value: object) -> bool:
    try:
        return isinstance(text, str) and bool(json.loads(text) == value)
    except (ValueError, RecursionError):
        return False


def _tools(result: dict[str, Any], age: int) -> dict[str, Any]:
    return {**result, "tools": [_tool(tool, age) for tool in result["tools"]]}


def _tool(tool: dict[str, Any], age: int) -> dict[str, Any]:
    if age == _A0326 and "title" in tool and "title" not in tool.get("annotations", ()):
        # Before 2025-06-18 the title for people was a member of the annotations.
        tool = {**tool, "annotations": {"title": tool["title"], **tool.get("annotations", {})}}
    tool = _known(tool, _TOOL[age])
    if age < _A0728 and "outputSchema" in tool and tool["outputSchema"].get("type") != "object":
        return _without(tool, "outputSchema")  # its results come without structuredContent, so no schema is promised
    return tool


def _prompts(result: dict[str, Any], age: int) -> dict[str, Any]:
    return {**result, "prompts": [_prompt(prompt, age) for prompt in result["prompts"]]}


def _prompt(prompt: dict[str, Any], age: int) -> dict[str, Any]:
    prompt = _known(prompt, _PROMPT[age])
    known = _PROMPT_ARGUMENT[age]
    arguments = prompt.get("arguments")
    if arguments and not all(argument.keys() <= known for argument in arguments):
        return {**prompt, "arguments": [_known(argument, known) for argument in arguments]}
    return prompt


def _resources(result: dict[str, Any], age: int) -> dict[str, Any]:
    return {**result, "resources": [_described(one, _RESOURCE[age], age) for one in result["resources"]]}


def _templates(result: dict[str, Any], age: int) -> dict[str, Any]:
    return {**result, "resourceTemplates": [_described(t, _TEMPLATE[age], age) for t in result["resourceTemplates"]]}


def _described(one: dict[str, Any], known: frozenset[str], age: int) -> dict[str, Any]:
    return _annotated(_known(one, known), age)


def _read(result: dict[str, Any], age: int) -> dict[str, Any]:
    known = _CONTENTS[age]
    contents = result["contents"]
    if all(one.keys() <= known for one in contents):
        return result
    return {**result, "contents": [_known(one, known) for one in contents]}


def _messages(result: dict[str, Any], age: int) -> dict[str, Any]:
    if age >= _A1125:
        return result
    return {**result, "messages": [_message(message, age) for message in result["messages"]]}


def _message(message: dict[str, Any], age: int) -> dict[str, Any]:
    content = message.get("content")
    if age >= _A1125 or type(content) is not dict:
        return message
    return {**message, "content": block(content, age)}


def _initialized(result: dict[str, Any], age: int) -> dict[str, Any]:
    return {
        **result,
        "serverInfo": _known(result["serverInfo"], _IMPLEMENTATION[age]),
        "capabilities": _known(result["capabilities"], _CAPABILITIES[age]),
    }


def _discovered(result: dict[str, Any], age: int) -> dict[str, Any]:
    return {**result, "capabilities": _known(result["capabilities"], _CAPABILITIES[age])}


def _empty(result: dict[str, Any], age: int) -> dict[str, Any]:
    return {}  # clients compare with exactly this


_RESHAPE: Final[dict[str, Callable[[dict[str, Any], int], dict[str, Any]]]] = {
    "tools/call": _call,
    "tools/list": _tools,
    "prompts/list": _prompts,
    "prompts/get": _messages,
    "resources/list": _resources,
    "resources/templates/list": _templates,
    "resources/read": _read,
    "initialize": _initialized,
    "server/discover": _discovered,
    "ping": _empty,
    "logging/setLevel": _empty,
    "resources/subscribe": _empty,
    "resources/unsubscribe": _empty,
}


def block(item: dict[str, Any], age: int) -> dict[str, Any]:
    """Convert one content block for an older revision: an unknown kind becomes text that names the kind."""
    kind = item.get("type")
    if kind == "audio" and age < _A0326:
        item = _as_text(item, f"[audio, {item.get('mimeType', 'unknown type')}: not part of this protocol version]")
    elif kind == "resource_link":
        if age < _A0618:
            item = _as_text(item, _link_text(item))
        else:
            item = _without(item, "icons") if age < _A1125 else item
    elif kind == "resource" and age < _A0618 and "_meta" in item.get("resource", ()):
        item = {**item, "resource": _without(item["resource"], "_meta")}
    if age < _A0618 and "_meta" in item:
        item = _without(item, "_meta")
    return _annotated(item, age)


def _annotated(item: dict[str, Any], age: int) -> dict[str, Any]:
    annotations = item.get("annotations")
    if not annotations or annotations.keys() <= _ANNOTATIONS[age]:
        return item
    return {**item, "annotations": _known(annotations, _ANNOTATIONS[age])}


def _as_text(item: dict[str, Any], text: str) -> dict[str, Any]:
    shown = {"type": "text", "text": text}
    return {**shown, "annotations": item["annotations"]} if "annotations" in item else shown


def _link_text(item: dict[str, Any]) -> str:
    label = item.get("title") or item.get("name") or "resource"
    kind = f" ({item['mimeType']})" if "mimeType" in item else ""
    about = f": {item['description']}" if "description" in item else ""
    return f"[resource link] {label}{kind} {item.get('uri', '')}{about}"
