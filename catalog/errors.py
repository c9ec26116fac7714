"""Errors that the call pipeline raises instead of a result. The layers above give each exactly one form on the wire.

    CatalogError
    ├── UnknownTool, UnknownPrompt, UnknownResource    missing, or no access for the caller: the same answer for both
    │   └── ResultRemoved                              a stored result of the caller that newer ones replaced
    ├── InvalidArguments                               the arguments do not match the schema
    ├── LimitReached                                   which limit, and how many seconds to wait
    ├── NotApproved                                    a person has to approve the call, or did not
    ├── MissingCapability                              the client did not declare a capability that the tool needs
    ├── CallNotLogged                                  nothing runs that cannot be logged
    ├── DatabaseAway                                   the database does not answer before the request's deadline
    ├── ProtocolError                                  a function wants this JSON-RPC error; ToolError is usual
    └── InternalFailure                                a fault of the hub; details are in the log, under the call's id
        └── EndNotLogged                               the tool ran, and its end cannot be logged
    ToolError                                          a function reports what went wrong, in words for the model
    ├── ClientLacks                                    the client cannot be asked for this
    └── ClientRefused                                  the client answered with an error
    NeedsInput (BaseException)                         the call pauses until the client sends answers

A tool that fails or times out is not an exception here: it is a `ToolResult` with `is_error`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from audit.types import Reason
from toolhub import contact

WRITE_SCOPE = "mcp:write"
"""The OAuth scope that tools which are not read-only take, where TOOLHUB_WRITE_SCOPE is on."""
TASKS_EXTENSION = "io.modelcontextprotocol/tasks"


CANCELLATIONS = {
    "cancelled.by_client": "notifications/cancelled",
    "cancelled.client_gone": "the client closed the stream",
    "cancelled.session_ended": "the client ended the session",
    "cancelled.task": "tasks/cancel",
    "cancelled.in_browser": "cancelled by {name} in the browser",
    "cancelled.in_admin": "cancelled in the admin by {name}",
    "cancelled.disconnected": "an administrator ended this connection",
    "cancelled.access_revoked": "access was revoked",
    "cancelled.server_stopping": "the server is stopping",
    "cancelled.slow_reader": "the reader is too slow",
    "cancelled.too_many": "too many messages at once",
    "cancelled.uploads": "too many large messages at once",
    "cancelled.too_large": "a message that is too large",
    "cancelled.binary_frame": "a binary frame",
    "cancelled.unchecked": "the token cannot be checked",
    "cancelled.internal": "internal error",
    "cancelled.unknown": "cancelled",
}
"""English sentences by code. Tools, clients and the log read them; pages show their own, from the code."""


class Cancellation(str):
    """The reason for the cancellation of a running call: `task.cancel(reason)`, and the log keeps text and code."""

    reason: Reason

    def __new__(cls, code: str, **params: str) -> Cancellation:
        made = super().__new__(cls, CANCELLATIONS[code].format(**params))
        made.reason = Reason(code, params)
        return made

    @classmethod
    def read(cls, text: str) -> Cancellation | None:
        """Return the cancellation of `reason.encode()`, as another worker sent it; None when it is not known here."""
        reason = Reason.read(text)
        try:
            return None if reason is None else cls(reason.code, **reason.params)
        except (KeyError, TypeError):
            return None

    def cancel(self, task: asyncio.Future[Any]) -> None:
        """Cancel a task for this reason, which stays with the task also when its function hides the cancellation."""
        task.hub_cancellation = self  # type: ignore[attr-defined]
        task.cancel(self)

    @staticmethod
    def given_to(task: asyncio.Future[Any]) -> Cancellation | None:
        """Return the reason for which the hub cancelled this task; None when it did not."""
        return getattr(task, "hub_cancellation", None)


CANCELLED_BY_CLIENT = Cancellation("cancelled.by_client")
CLIENT_GONE = Cancellation("cancelled.client_gone")
SESSION_ENDED = Cancellation("cancelled.session_ended")
SERVER_STOPPING = Cancellation("cancelled.server_stopping")
ACCESS_REVOKED = Cancellation("cancelled.access_revoked")
UNKNOWN_CANCELLATION = Cancellation("cancelled.unknown")
"""A reason that only a newer or older worker knows."""


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


class ResultRemoved(UnknownResource):
    """A stored result of the caller that newer ones replaced, told apart because only its user can learn of it."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.message = (
            "This stored result was removed to make room for newer ones: the space for large results is limited. "
            "Call the tool again, and request less at a time or read each result before the next call."
        )


class InvalidArguments(CatalogError):
    """Invalid arguments.

    `message` names the field and what was expected; so does `reason`, for pages, if the schema was not met.
    """

    def __init__(
        self,
        message: str,
        call_id: UUID | None = None,
        reason: Reason | None = None,
        problems: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(message)
        self.message, self.call_id, self.reason = message, call_id, reason
        self.problems = problems
        """Each problem as data for programs: path, code, expected, got."""


class LimitReached(CatalogError):
    """A limit that is reached: `label` is the limit in English; `reason` names it for pages.

    `sentence` says when to try again, and what to do instead.
    """

    def __init__(
        self, label: str, seconds: int, call_id: UUID | None = None, reason: Reason | None = None, sentence: str = ""
    ) -> None:
        super().__init__(f"Limit reached: {label}. {sentence or f'Try again in {seconds} s.'}")
        self.label, self.seconds, self.call_id, self.reason = label, seconds, call_id, reason


class NotApproved(CatalogError):
    """A call that did not run because a person has not approved it: the sentence is for the model.

    `status`: "waiting", "denied", "expired" or "void". `link` is where people decide; "" without one.
    """

    def __init__(self, sentence: str, status: str, call_id: UUID | None = None, link: str = "") -> None:
        super().__init__(sentence)
        self.status, self.call_id, self.link = status, call_id, link


class MissingCapability(CatalogError):
    """A missing client capability: `required` has the shape of client capabilities: {"sampling": {}}."""

    def __init__(self, required: dict[str, Any], call_id: UUID | None = None) -> None:
        super().__init__(f"This needs a client that declares: {', '.join(capability_names(required))}.")
        self.required, self.call_id = required, call_id


class InsufficientScope(CatalogError):
    """A tool that changes something, called with an access token that may only read; `scope` is what it takes."""

    def __init__(self, scope: str, call_id: UUID | None = None) -> None:
        super().__init__(f"This tool changes something. The client must ask the person for the scope {scope}.")
        self.scope, self.call_id = scope, call_id


class CallNotLogged(CatalogError):
    def __init__(self, reason: str, busy: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.busy = busy
        """Whether too many calls wait for the audit log, which is available."""


class DatabaseAway(CatalogError):
    def __init__(self) -> None:
        super().__init__("The server's database does not answer. Try again in a minute.")


class ProtocolError(CatalogError):
    """An error raised by a function: the call ends with this JSON-RPC error instead of a result."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


class InternalFailure(CatalogError):
    def __init__(self, call_id: UUID | None = None) -> None:
        super().__init__("Internal error")
        self.call_id = call_id


class EndNotLogged(InternalFailure):
    """The tool ran, and neither the database nor the spool takes the end of its call: a full disk, for example."""

    def __init__(self, call_id: UUID, reason: str) -> None:
        super().__init__(call_id)
        self.reason = (
            f"The tool ran, but the end of the call cannot be logged: {reason}. The call may have taken effect: check "
            f"that before you repeat it, and tell {contact.english()}"
        )


class ToolError(Exception):
    """An error raised by a function: the call ends with `isError` and this sentence, which the model reads.

    `audit_message` is the text for the audit log instead, which may contain more than the caller may know. `code` is
    what hints choose by (see `catalog.runners.hints`), such as the HTTP status of an API. `rejected` says that a
    service refused the credentials of the request itself, so that nothing ran.
    """

    def __init__(self, *words: Any, audit_message: str = "", code: str = "", rejected: bool = False) -> None:
        super().__init__(*words)
        self.audit_message, self.code, self.rejected = audit_message, code, rejected


CLIENT_CAPABILITIES = frozenset({"elicitation", "roots", "sampling"})
"""The capabilities without which a client cannot be asked."""


class ClientLacks(ToolError):
    def __init__(self, capability: str) -> None:
        super().__init__(f"The client did not declare the capability '{capability}', so it cannot be asked.")
        self.capability = capability

    @property
    def required(self) -> dict[str, Any]:
        """The capability in the shape of client capabilities, {"elicitation": {"url": {}}}; {} if it has none."""
        name, _, mode = self.capability.partition(".")
        return {name: {mode: {}} if mode else {}} if name in CLIENT_CAPABILITIES else {}


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
