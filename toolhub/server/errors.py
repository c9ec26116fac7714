"""Errors of the call pipeline as results or errors of the caller's protocol revision, in one place for all.

An attempt that is rejected before it reaches the call pipeline is logged like any other denied call.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from audit import outcomes, recorder
from audit.redaction import redactor
from audit.types import Reason
from catalog.calls import call_log, call_tool
from catalog.errors import (
    CallNotLogged,
    CatalogError,
    DatabaseAway,
    EndNotLogged,
    InsufficientScope,
    InternalFailure,
    InvalidArguments,
    LimitReached,
    MissingCapability,
    NeedsInput,
    NotApproved,
    ProtocolError,
    ResultRemoved,
    ToolError,
    UnknownResource,
)
from catalog.functions.content import ABSENT
from catalog.functions.results import ToolResult
from toolhub.server import channels
from toolhub.server.channels import subject
from toolhub.server.peer import Peer
from toolhub.wire import jsonrpc
from toolhub.wire.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    MISSING_CLIENT_CAPABILITY,
    RESOURCE_NOT_FOUND,
    McpError,
)
from toolhub.wire.meta import APPROVAL, CALL_ID, PROBLEMS, RETRY_AFTER

_CORRECTABLE = frozenset({"2025-11-25", "2026-07-28"})
"""Revisions where invalid arguments are a result that the model reads and corrects, not an error of the protocol."""


class ScopeError(McpError):
    """A call that takes another scope than the access token has; over HTTP, status 403 makes clients ask for it."""

    def __init__(self, error: InsufficientScope) -> None:
        details = {"requiredScopes": [error.scope], **({CALL_ID: str(error.call_id)} if error.call_id else {})}
        super().__init__(INVALID_REQUEST, str(error), details)
        self.scope = error.scope


def tool_result(result: ToolResult) -> dict[str, Any]:
    answer: dict[str, Any] = {"content": result.content, "isError": result.is_error}
    if result.structured is not ABSENT:
        answer["structuredContent"] = result.structured
    if result.meta:
        answer["_meta"] = result.meta
    if result.is_error:
        answer["_meta"] = {**(result.meta or {}), CALL_ID: str(result.call_id)}
    return answer


def tool_error_result(error: CatalogError, peer: Peer) -> dict[str, Any] | None:
    """Return the result of a rejected tools/call that the model should read; None for one that is an error."""
    if isinstance(error, LimitReached):
        return _failure(str(error), error.call_id, {RETRY_AFTER: error.seconds})
    if isinstance(error, NotApproved):
        details = {"status": error.status, **({"url": error.link} if error.link else {})}
        return _failure(str(error), error.call_id, {APPROVAL: details})
    if isinstance(error, InvalidArguments) and peer.revision in _CORRECTABLE:
        return _failure(error.message, error.call_id, {PROBLEMS: error.problems} if error.problems else None)
    if isinstance(error, MissingCapability) and peer.era == "handshake":
        return _failure(str(error), error.call_id)
    return None


def mcp_error(error: CatalogError, peer: Peer) -> McpError:
    match error:
        case ResultRemoved():
            code = INVALID_PARAMS if peer.era == "modern" else RESOURCE_NOT_FOUND
            return McpError(code, error.message, {"uri": error.uri})
        case UnknownResource():
            code = INVALID_PARAMS if peer.era == "modern" else RESOURCE_NOT_FOUND
            return McpError(code, "Resource not found", {"uri": error.uri})
        case ProtocolError():
            return McpError(error.code, error.message, error.data)
        case InsufficientScope():
            return ScopeError(error)
        case MissingCapability():
            if peer.era == "modern":
                data = {"requiredCapabilities": error.required}
                return McpError(MISSING_CLIENT_CAPABILITY, "Missing required client capability", data)
            return McpError(INVALID_PARAMS, str(error))
        case LimitReached():
            details = {RETRY_AFTER: error.seconds, **({CALL_ID: str(error.call_id)} if error.call_id else {})}
            return McpError(INTERNAL_ERROR, str(error), details)
        case CallNotLogged():
            return McpError(INTERNAL_ERROR, error.reason)
        case DatabaseAway():
            return McpError(INTERNAL_ERROR, str(error))
        case EndNotLogged():
            return McpError(INTERNAL_ERROR, error.reason, {"callId": str(error.call_id)})
        case InternalFailure():
            return internal_error(error.call_id)
        case InvalidArguments() if error.problems:
            return McpError(INVALID_PARAMS, str(error), {PROBLEMS: error.problems})
        case _:  # UnknownTool, UnknownPrompt, InvalidArguments
            return McpError(INVALID_PARAMS, str(error))


def convert_tool_error(error: ToolError) -> McpError:
    """Convert an error reported by the function of a prompt or resource; for tools the call pipeline makes a result."""
    return McpError(INTERNAL_ERROR, str(error))


def internal_error(call_id: UUID | None) -> McpError:
    """Build an internal error; the server log has the details under the call's id."""
    return McpError(INTERNAL_ERROR, "Internal error", {"callId": str(call_id)} if call_id is not None else None)


def input_required(needs: NeedsInput, request: jsonrpc.Request, peer: Peer) -> dict[str, Any]:
    """Return the questions without an answer, and the state that carries the existing answers."""
    name, arguments = subject(request)
    return {
        "resultType": "input_required",
        "inputRequests": {
            key: {"method": method, "params": params} for key, (method, params) in needs.requests.items()
        },
        "requestState": channels.seal(
            peer.caller.credential.user_id, request.method, name, arguments, needs.answers_so_far, needs.call_id
        ),
    }


def _failure(sentence: str, call_id: UUID | None, meta: dict[str, Any] | None = None) -> dict[str, Any]:
    answer: dict[str, Any] = {"content": [{"type": "text", "text": sentence}], "isError": True}
    details = {**({CALL_ID: str(call_id)} if call_id is not None else {}), **(meta or {})}
    if details:
        answer["_meta"] = details
    return answer


LOGGED_METHODS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


async def log_rejected(
    request: jsonrpc.Request, peer: Peer, sentence: str, reason: Reason | None = None, *, own_entry: bool = True
) -> None:
    """Log an attempt that was rejected for its form, its `requestState`, or too many running requests.

    Its arguments are logged as those of any other denied call are. With `reason`, identical attempts at the same time
    are one entry with their number; without `own_entry`, so are those that differ in their arguments, or in the name of
    something that does not exist. Raises AuditLogUnavailable.
    """
    member = LOGGED_METHODS.get(request.method)
    if member is None:
        return
    given = request.params.get(member)
    name = redactor.redact_text(given[:1000]) if isinstance(given, str) else ""
    arguments = request.params.get("arguments", {})
    if not own_entry:
        text = redactor.canonical({"$redacted": "one of very many attempts"})
        name = name if call_tool.is_known(request.method, name) else ""
    elif request.method == "tools/call":
        text = call_tool.rejected_arguments_text(name, arguments)
    else:
        text = call_log.redact_rejected_arguments(arguments)
    intent = recorder.Intent(peer.caller, request.method, name, arguments=text, request_id=str(request.id))
    ending = recorder.Ending(outcomes.REFUSED, error_class="BadRequest", detail=sentence)
    if reason is not None:
        ending.detail_reason = reason.text
    await recorder.deny(intent, ending, shared=reason is not None)
