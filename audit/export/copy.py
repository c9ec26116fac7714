"""Copies of one call: all columns as JSON, the request as a curl command. Secrets remain digests."""

from __future__ import annotations

import json
import re
from shlex import quote
from typing import Any

from django.conf import settings

from audit.export import rows
from audit.models import Call
from toolhub import invisible
from toolhub.wire.headers import encode_value

REVISION = "2026-07-28"
"""Stateless protocol revision: one request is complete, without a session to open first."""
_META = "io.modelcontextprotocol/"
_HIDDEN = re.compile(r"\$redacted|\[redacted |pruned:sha256:")
_OTHER_CHARACTERS = re.compile(r"[^\x00-\x7e]")
_encode_ascii = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode


def as_json(call: Call) -> str:
    """Return every column as JSON, with arguments and result as values where they are JSON.

    Letters of every language are readable, and invisible characters are escaped. A result of which only the beginning
    is kept remains text, and `result_complete` is false.
    """
    values: dict[str, Any] = rows.serialize(call)
    for name in ("arguments", "result"):
        values[name] = _parse_json(values[name])
    return _OTHER_CHARACTERS.sub(_escape, json.dumps(values, indent=2, ensure_ascii=False)) + "\n"


def _escape(match: re.Match[str]) -> str:
    return json.dumps(match[0])[1:-1] if invisible.is_invisible(match[0]) else match[0]


def as_curl(call: Call) -> str:
    """Return the request as a command for a POSIX shell; the token comes from $TOKEN.

    Raise ValueError for a method that is not a request of a client.
    """
    params = _params(call)
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": call.method,
        "params": {
            **params,
            "_meta": {
                f"{_META}protocolVersion": REVISION,
                f"{_META}clientInfo": {"name": "curl", "version": "1"},
                f"{_META}clientCapabilities": {},
            },
        },
    }
    headers = [
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        f"MCP-Protocol-Version: {REVISION}",
        f"Mcp-Method: {call.method}",
        f"Mcp-Name: {encode_value(call.name)}",
    ]
    lines = [
        f"curl -sS {quote(settings.PUBLIC_URL.rstrip('/') + '/mcp')}",
        '-H "Authorization: Bearer $TOKEN"',
        *(f"-H {quote(header)}" for header in headers),
        f"--data-raw {quote(_encode_ascii(request))}",
    ]
    note = ""
    if _HIDDEN.search(call.arguments):
        note = "# Secret and removed values are not in the audit log: fill them in before you run this command.\n"
    return note + " \\\n  ".join(lines) + "\n"


def _params(call: Call) -> dict[str, Any]:
    if call.method == "resources/read":
        return {"uri": call.name}
    if call.method not in {"tools/call", "prompts/get"}:
        raise ValueError(f"{call.method} is no request of a client")
    arguments = _parse_json(call.arguments)
    return {"name": call.name, "arguments": arguments if isinstance(arguments, dict) else {}}


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
