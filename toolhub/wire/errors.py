"""JSON-RPC and MCP error codes, the exception that carries one, and the HTTP status each travels with."""

from __future__ import annotations

from typing import Any, Final

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

HEADER_MISMATCH: Final = -32020
"""Modern: a header is missing, malformed, or says something else than the body."""
MISSING_CLIENT_CAPABILITY: Final = -32021
"""Modern: `data.requiredCapabilities` names what the client would have to declare."""
UNSUPPORTED_VERSION: Final = -32022
"""Modern: `data` holds `supported` and `requested`."""

RESOURCE_NOT_FOUND: Final = -32002
"""Handshake revisions only; the modern era answers INVALID_PARAMS with `data.uri`."""
URL_ELICITATION_REQUIRED: Final = -32042
"""2025-11-25 only."""

_HTTP_STATUS: Final = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    MISSING_CLIENT_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}


class McpError(Exception):
    """An answer with `error` instead of `result`. The message goes to the client: no internals in it."""

    def __init__(self, code: int, message: str, data: Any = None, *, request_id: str | int | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.data = data
        self.request_id = request_id
        """The id of the message at fault, where it could be read."""

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


def http_status(code: int) -> int:
    """The status an error answer has in the modern era; in the handshake era a dispatched request is answered 200."""
    return _HTTP_STATUS.get(code, 200)
