"""JSON-RPC and MCP error codes, their exception, and the HTTP status of each code."""

from __future__ import annotations

from typing import Any, Final

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

HEADER_MISMATCH: Final = -32020
"""Stateless revisions: a header is missing, malformed, or differs from the body."""
MISSING_CLIENT_CAPABILITY: Final = -32021
"""Stateless revisions: `data.requiredCapabilities` names the capabilities that the client would have to declare."""
UNSUPPORTED_VERSION: Final = -32022
"""Stateless revisions: `data` holds `supported` and `requested`."""

RESOURCE_NOT_FOUND: Final = -32002
"""Stateful revisions only; the stateless ones answer INVALID_PARAMS with `data.uri`."""
URL_ELICITATION_REQUIRED: Final = -32042
"""Revision 2025-11-25 only."""

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
    """An answer with `error` instead of `result`; the client sees the message, so it contains no internals."""

    def __init__(self, code: int, message: str, data: Any = None, *, request_id: str | int | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.data = data
        self.request_id = request_id
        """The id of the faulty message, if it was readable."""

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


def http_status(code: int) -> int:
    """Return the HTTP status of an error in stateless revisions; stateful ones answer dispatched requests with 200."""
    return _HTTP_STATUS.get(code, 200)
