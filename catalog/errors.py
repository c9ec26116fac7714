"""Errors that the call pipeline raises instead of a result. The layers above give each exactly one form on the wire.

    CatalogError
    ├── UnknownTool, UnknownPrompt, UnknownResource    missing, or no access for the caller: the same answer for both
    ├── InvalidArguments                               the arguments do not match the schema
    ├── LimitReached                                   which limit, and how many seconds to wait
    ├── MissingCapability                              the client did not declare a capability that the tool needs
    ├── RecordUnavailable                              nothing runs that cannot be logged
    ├── ProtocolError                                  a function wants this JSON-RPC error; ToolError is usual
    └── InternalFailure                                a fault of the hub; details are in the log, under the call's id
    ToolError                                          a function reports what went wrong, in words for the model
    ├── ClientLacks                                    the client cannot be asked for this
    └── ClientRefused                                  the client answered with an error
    NeedsInput (BaseException)                         the call pauses until the client sends answers

A tool that fails or times out is not an exception here: it is a `ToolResult` with `is_error`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from audit.types import Reason

# Reasons for the cancellation of a running call: pass one (or a sentence) to `task.cancel(reason)`; it is logged.
CANCELLED_BY_CLIENT = "notifications/cancelled"
CLIENT_GONE = "the client closed the stream"
SERVER_STOPPING = "the server is stopping"
ACCESS_REVOKED = "access was revoked"
CANCEL_CODES = {
    CANCELLED_BY_CLIENT: "cancelled.by_client",
    CLIENT_GONE: "cancelled.client_gone",
    SERVER_STOPPING: "cancelled.server_stopping",
    ACCESS_REVOKED: "cancelled.access_revoked",
}
"""The codes that the log keeps beside these reasons, for pages."""

TASKS_EXTENSION = "io.modelcontextprotocol/tasks"


class CatalogError(Exception):
    """The base class of the errors that the call pipeline raises."""


class UnknownTool(CatalogError):
    def __init__(self, name: str) -> None:
        super().__init__(f"Unknown tool: {name}")
        self.name = name


class UnknownPrompt(CatalogError):
    def __init__(self, name: str) -> None:
        super().__init__(f"Unknown prompt: {name}")
        self.name = name


class UnknownResource(CatalogError):
    def __init__(self, uri: str) -> None:
        super().__init__(f"Unknown resource: {uri}")
        self.uri = uri


class InvalidArguments(CatalogError):
    """Invalid arguments.

    `message` names the field and what was expected; so does `reason`, for pages, if the schema was not met.
    """

    def __init__(self, message: str, call_id: UUID | None = None, reason: Reason | None = None) -> None:
        super().__init__(message)
        self.message, self.call_id, self.reason = message, call_id, reason


class LimitReached(CatalogError):
    """A rate limit that is reached: `label` is the limit in English; `reason` names it for pages."""

    def __init__(self, label: str, seconds: int, call_id: UUID | None = None, reason: Reason | None = None) -> None:
        super().__init__(f"Limit reached: {label}. Try again in {seconds} s.")
        self.label, self.seconds, self.call_id, self.reason = label, seconds, call_id, reason


class MissingCapability(CatalogError):
    """A missing client capability: `required` has the shape of client capabilities: {"sampling": {}}."""

    def __init__(self, required: dict[str, Any], call_id: UUID | None = None) -> None:
        super().__init__(f"This needs a client that declares: {', '.join(capability_names(required))}.")
        self.required, self.call_id = required, call_id


class RecordUnavailable(CatalogError):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ProtocolError(CatalogError):
    """An error raised by a function: the call ends with this JSON-RPC error instead of a result."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


class InternalFailure(CatalogError):
    def __init__(self, call_id: UUID | None = None) -> None:
        super().__init__("Internal error")
        self.call_id = call_id


class ToolError(Exception):
    """An error raised by a function: the call ends with `isError` and this sentence, which the model reads.

    `on_record` is the text for the audit log instead, which may contain more than the caller may know.
    """

    def __init__(self, *words: Any, on_record: str = "") -> None:
        super().__init__(*words)
        self.on_record = on_record


class ClientLacks(ToolError):
    def __init__(self, capability: str) -> None:
        super().__init__(f"The client did not declare the capability '{capability}', so it cannot be asked.")
        self.capability = capability


class ClientRefused(ToolError):
    def __init__(self, message: str) -> None:
        super().__init__(f"The client did not answer the request: {message}")
        self.message = message


class NeedsInput(BaseException):
    """A request of a function for answers that have not arrived yet: {key: (method, params)}.

    It is a BaseException, so that the `except Exception` of a function does not swallow it.
    """

    def __init__(
        self,
        requests: Mapping[str, tuple[str, dict[str, Any]]],
        answers_so_far: Mapping[str, dict[str, Any]] | None = None,
    ) -> None:
        super().__init__("the call needs input from the client")
        self.requests = dict(requests)
        self.answers_so_far = dict(answers_so_far or {})
        self.call_id: UUID | None = None


def capability_names(required: Mapping[str, Any]) -> list[str]:
    """Return the names of required capabilities.

    ['sampling', 'io.modelcontextprotocol/tasks'] for {"sampling": {}, "extensions": {"io...tasks": {}}}.
    """
    extensions = required.get("extensions")
    names = [name for name in required if name != "extensions"]
    return [*names, *(extensions if isinstance(extensions, dict) else {})]
