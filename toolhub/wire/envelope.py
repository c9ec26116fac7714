"""The envelope of stateless requests: the metadata in `params._meta`, and the headers that mirror it.

Headers come as a mapping with lower-case names; a transport joins a repeated header with ", " before it gets here, so
that two copies never agree with one value in the body. None stands for a transport without headers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from . import versions
from .errors import HEADER_MISMATCH, INVALID_PARAMS, UNSUPPORTED_VERSION, McpError
from .headers import check_param_headers as check_param_headers
from .headers import decode_value
from .jsonrpc import Request

PROTOCOL_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
CLIENT_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"
SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"

VERSION_HEADER: Final = "mcp-protocol-version"
METHOD_HEADER: Final = "mcp-method"
NAME_HEADER: Final = "mcp-name"

TASK_MEMBER: Final = "taskId"
"""Names the task of a request. Mcp-Name may be missing where it would mirror this member.

The tasks extension (SEP-2663, "Routing Headers") asks clients for the header so that intermediaries find the server
that has the task; here every worker has it. It asks nothing of servers, and real clients leave it out, such as the
Inspector and FastMCP's client for tasks: they would take a call for failed that goes on, and runs once it is approved.
A value that differs is a mismatch like any other.
"""
NAME_MEMBERS: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": TASK_MEMBER,
    "tasks/update": TASK_MEMBER,
    "tasks/cancel": TASK_MEMBER,
}
"""The member of `params` that Mcp-Name mirrors, by method."""

_OBJECT_CAPABILITIES: Final = ("sampling", "elicitation", "roots", "experimental", "extensions")
_NESTED_CAPABILITIES: Final = ("experimental", "extensions")


@dataclass(slots=True)
class Envelope:
    revision: str
    client_name: str
    client_version: str
    capabilities: dict[str, Any]
    log_level: str | None
    progress_token: str | int | None


def check(headers: Mapping[str, str] | None, request: Request, supported: Collection[str]) -> Envelope:
    """Return the envelope of a stateless request; raise McpError for the first problem in it.

    Callers that know methods and tools check whether the method exists, and whether Mcp-Param headers fit the tool.
    """
    params = request.params
    meta = params.get("_meta")
    if type(meta) is not dict:
        raise _invalid("`_meta` must be an object")
    try:
        revision = meta[PROTOCOL_VERSION]
        claimed = meta[CLIENT_CAPABILITIES]
    except KeyError as missing:
        raise _invalid(f"`_meta` lacks {missing.args[0]}") from None
    if type(revision) is not str:
        raise _invalid(f"{PROTOCOL_VERSION} must be a string")
    capabilities = check_capabilities(claimed)
    client_name, client_version = client_info(meta.get(CLIENT_INFO))

    if headers is not None:
        _check_headers(headers, request, revision)

    if revision not in supported:
        raise unsupported(revision)

    log_level = meta.get(LOG_LEVEL)
    if log_level is not None and (type(log_level) is not str or log_level not in versions.LOG_SEVERITY):
        raise _invalid(f"{LOG_LEVEL} must be one of {', '.join(versions.LOG_LEVELS)}")
    return Envelope(revision, client_name, client_version, capabilities, log_level, progress_token(meta))


def _check_headers(headers: Mapping[str, str], request: Request, revision: str) -> None:
    if headers.get(VERSION_HEADER) != revision:
        raise _mismatch("MCP-Protocol-Version", "the protocol version in `_meta`", VERSION_HEADER in headers)
    if headers.get(METHOD_HEADER) != request.method:
        raise _mismatch("Mcp-Method", "`method`", METHOD_HEADER in headers)
    member = NAME_MEMBERS.get(request.method)
    if member is None:
        return
    expected = request.params.get(member)
    if type(expected) is not str:
        return  # the method itself reports the problem of its parameter
    name = headers.get(NAME_HEADER)
    if name is None and member == TASK_MEMBER:
        return
    if name is None or decode_value(name) != expected:
        raise _mismatch("Mcp-Name", f"`params.{member}`", name is not None)


def check_stateful(headers: Mapping[str, str], request: Request, revision: str | None) -> None:
    """Raise McpError when a request without an envelope's version header has an envelope of another version.

    `revision` is that of the session, None before there is one.
    """
    meta = request.params.get("_meta")
    if type(meta) is not dict or PROTOCOL_VERSION not in meta:
        return
    if meta[PROTOCOL_VERSION] != headers.get(VERSION_HEADER, revision):
        raise _mismatch("MCP-Protocol-Version", "the protocol version in `_meta`", VERSION_HEADER in headers)


def unsupported(requested: str) -> McpError:
    """Build the error for a version that this server does not know, with all that it does, stateful ones included."""
    data = {"supported": list(versions.ALL), "requested": requested}
    return McpError(UNSUPPORTED_VERSION, "Unsupported protocol version", data)


def check_capabilities(claimed: object) -> dict[str, Any]:
    """Return a client's capabilities as plain objects that later code can index safely; also for `initialize`."""
    if type(claimed) is not dict:
        raise _invalid("the client's capabilities must be an object")
    if claimed:
        for name in _OBJECT_CAPABILITIES:
            if name in claimed and type(claimed[name]) is not dict:
                raise _invalid(f"the client's capability `{name}` must be an object")
        for name in _NESTED_CAPABILITIES:
            if name in claimed and not all(type(value) is dict for value in claimed[name].values()):
                raise _invalid(f"every member of the client's `{name}` must be an object")
    return claimed


def client_info(claimed: object) -> tuple[str, str]:
    """Return name and version as the client claims them, ("", "") if it claims none."""
    if claimed is None:
        return "", ""
    if type(claimed) is dict:
        name, version = claimed.get("name"), claimed.get("version")
        if type(name) is str and type(version) is str:
            return name, version
    raise _invalid("the client's info must be an object with the strings `name` and `version`")


def progress_token(meta: Mapping[str, Any]) -> str | int | None:
    token = meta.get("progressToken")
    if token is None or type(token) is str or type(token) is int:
        return token
    raise _invalid("`progressToken` must be a string or an integer")


def _invalid(reason: str) -> McpError:
    return McpError(INVALID_PARAMS, f"Invalid params: {reason}")


def _mismatch(header: str, problem: str, present: bool) -> McpError:
    verb = "does not match" if present else "is missing; it must repeat"
    return McpError(HEADER_MISMATCH, f"Header mismatch: {header} {verb} {problem}")
