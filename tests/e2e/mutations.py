"""What becomes of a recorded message when somebody careless, or somebody hostile, sends it: seeded, so repeatable."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

DEEP: Any = 1
for _ in range(80):
    DEEP = [DEEP]
STRANGE: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**70, -(2**64), 0.5, 1e308, -0.0, "", " ", "a", "\x00", "a\x00b",
    "\ud800", "\U0001f4a5" * 50, "x" * 70_000, "../../etc/passwd", "%s%s%n", "{0.__class__}", "' OR 1=1 --",
    "<script>", "\r\nX: y", "\u202e", "NaN", "null", [], {}, [[]], [None] * 300, {"": ""}, {"$ref": "#"},
    {"__proto__": {}}, DEEP, "2026-07-28", "2025-11-25", "9999-99-99", "tools/call", "ledger", "Ledger",
    "initialize", "tools/list", "resources/read", "tasks/get", "notifications/cancelled", "server/discover",
    "completion/complete", "logging/setLevel", "toolhub://results/0", "file:///etc/passwd", "=?base64?ZX!?=", [1,
    "1", 1.0], {"a": {"b": {"c": [1, 2, {"d": None}]}}},
]  # fmt: skip
WORDS = [
    "jsonrpc", "id", "method", "params", "result", "error", "name", "arguments", "_meta", "entry", "a", "b",
    "cursor", "progressToken", "protocolVersion", "capabilities", "clientInfo", "uri", "level", "ref", "argument",
    "requestState", "inputResponses", "taskId", "requestId", "reason", "notifications", "version", "task", "ttl",
    "type", "io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientCapabilities",
    "io.modelcontextprotocol/clientInfo", "io.modelcontextprotocol/logLevel",
]  # fmt: skip
TEXTS = [
    "", " ", "\t", "x", "0", "-1", "null", "*/*", "text/html", "application/json", "application/xml", "\x7f",
    "\xff\xfe", "a" * 3000, "bytes=0-", "gzip", "identity", "chunked", "close", "keep-alive", "100-continue",
    "websocket", "Bearer", "Bearer ", "Basic eDp5", "tools/call", "tools/list", "initialize", "ledger",
    "2026-07-28", "2025-06-18", "1999-01-01", "=?base64?bGVkZ2Vy?=", "=?base64?!?=", "=?utf-8?q?x?=",
    "evil.example", "localhost", "http://evil.example", "a,b", "a;b=c", "application/json; charset=utf-16",
    "text/event-stream;q=0", "A" * 22 + ".0", "1.1",
]  # fmt: skip
HEADERS = [
    "Mcp-Session-Id", "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", "Mcp-Param-Entry", "Last-Event-ID",
    "Origin", "Accept", "Content-Type", "Content-Encoding", "Cookie", "Daphne-Root-Path", "X-Forwarded-For",
    "X-Forwarded-Proto", "X-HTTP-Method-Override", "If-None-Match", "Range", "Authorization", "Host", "Referer",
]  # fmt: skip
METHODS = [
    "GET",
    "PUT",
    "PATCH",
    "HEAD",
    "OPTIONS",
    "DELETE",
    "POST",
    "TRACE",
    "get",
    "X",
]
PATHS = [
    "/mcp/", "/mcp?",
    "/mcp?x=1&x=2", "/mcp%00", "/mcp/..", "//mcp", "/MCP", "/mcp#a", "/ws/mcp", "/healthz", "/", "/%ff",
    "/mcp;a=b", "/static/../mcp", "/tools/",
]  # fmt: skip


class Mutator:
    def __init__(self, seed: int, known: list[Any]) -> None:
        self.random = random.Random(seed)
        self.known = known
        """Messages to take parts from."""

    def body(self, message: Any) -> bytes:
        """One to three things wrong with it; now and then nothing."""
        choose = self.random.random()
        if choose < 0.02:
            return dump(message)
        if choose < 0.72:
            message = copy.deepcopy(message)
            for _ in range(self.random.choice((1, 1, 1, 2, 3))):
                message = self.value(message)
            return dump(message)
        data = dump(message)
        for _ in range(self.random.choice((1, 1, 2, 4))):
            data = self.bytes(data)
        return data

    def value(self, message: Any) -> Any:
        """The message with one place changed."""
        places: list[tuple[Any, Any]] = []
        collect(message, places)
        if not places or self.random.random() < 0.02:
            return self.strange()
        holder, key = self.random.choice(places)
        how = self.random.randrange(7)
        if how == 0:
            del holder[key]
        elif how <= 2 or isinstance(holder, list):
            holder[key] = self.strange()
        elif how == 3:
            holder[self.random.choice(WORDS)] = holder.pop(key)
        elif how == 4:
            holder[self.random.choice(WORDS)] = self.strange()
        elif how == 5:
            holder[key] = [holder[key]] if self.random.random() < 0.5 else {key: holder[key]}
        else:
            holder[key] = self.part()
        return message

    def strange(self) -> Any:
        return copy.deepcopy(self.random.choice(STRANGE))

    def part(self) -> Any:
        """Something that belongs elsewhere."""
        places: list[tuple[Any, Any]] = []
        collect(self.random.choice(self.known), places)
        holder, key = self.random.choice(places)
        return copy.deepcopy(holder[key])

    def bytes(self, data: bytes) -> bytes:
        place = self.random.randrange(len(data) + 1)
        how = self.random.randrange(9)
        if how == 0:
            return data[:place]
        if how == 1:
            return data[:place] + bytes([self.random.randrange(256)]) + data[place + 1 :]
        if how == 2:
            return data[:place] + self.random.choice(
                (b"\x00", b"\xff", b"\xed\xa0\x80", b"\n", b",", b"}", b'"', b"\\u", b"1e999")
            )
        if how == 3:
            return data[:place] + data[self.random.randrange(len(data) + 1) :]
        if how == 4:
            return data[:place] + dump(self.random.choice(self.known)) + data[place:]
        if how == 5:
            return self.random.choice((b"\xef\xbb\xbf", b" ", b"\x0c", b"[", b"\n\n")) + data
        if how == 6:
            return data.replace(b":", self.random.choice((b":NaN,", b": ", b"::", b":Infinity;", b":-")), 1)
        if how == 7:
            return b"[" + b",".join([data] * self.random.choice((1, 2, 20))) + b"]"
        return data.decode("utf-8", "replace").encode(self.random.choice(("utf-16", "utf-32-le", "latin-1")), "replace")

    def headers(self, headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
        headers = list(headers)
        how = self.random.randrange(5)
        place = self.random.randrange(len(headers))
        name, value = headers[place]
        if how == 0:
            del headers[place]
        elif how == 1:
            headers[place] = (name, self.random.choice(TEXTS))
        elif how == 2:
            headers.append((name, value if self.random.random() < 0.5 else self.random.choice(TEXTS)))
        elif how == 3:
            headers.append((self.random.choice(HEADERS), self.random.choice(TEXTS)))
        elif value:
            at = self.random.randrange(len(value))
            headers[place] = (name, value[:at] + chr(self.random.randrange(33, 256)) + value[at + 1 :])
        return headers


def collect(value: Any, places: list[tuple[Any, Any]], deep: int = 0) -> None:
    """Every (holder, key) in it."""
    if deep > 12:
        return
    if isinstance(value, dict):
        for key in value:
            places.append((value, key))
            collect(value[key], places, deep + 1)
    elif isinstance(value, list):
        for index in range(min(len(value), 20)):
            places.append((value, index))
            collect(value[index], places, deep + 1)


def dump(message: Any) -> bytes:
    return json.dumps(message, ensure_ascii=True, separators=(",", ":")).encode()
