"""HTTP/1.1 by hand, for proofs that send much, or what no client would send: one kept connection, nothing hidden."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolhub.wire.envelope import NAME_MEMBERS
from toolhub.wire.headers import encode_value

WAIT_SECONDS = 60.0
META = "io.modelcontextprotocol/"
MODERN = "2026-07-28"
Headers = Iterable[tuple[str, str]]


class ConnectionLost(Exception):
    """The connection ended before the answer was complete."""


@dataclass(slots=True)
class Answer:
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    complete: bool = True

    @property
    def is_stream(self) -> bool:
        return self.headers.get("content-type", "").startswith("text/event-stream")

    def messages(self) -> list[Any]:
        """What it says, as JSON-RPC."""
        if self.is_stream:
            lines = self.body.split(b"\n")
            return [json.loads(line[5:]) for line in lines if line.startswith(b"data:") and line[5:].strip()]
        is_json = self.headers.get("content-type") == "application/json"
        return [json.loads(self.body)] if is_json and self.body else []

    def result(self) -> dict[str, Any]:
        last = self.messages()[-1]
        assert "result" in last, (self.status, last)
        found: dict[str, Any] = last["result"]
        return found

    def seen(self, *hide: str) -> tuple[int, dict[str, str], bytes]:
        """All that a client can see of it, without the clock, and with these texts of the question left out."""
        body = self.body
        for text in hide:
            body = body.replace(text.encode(), b"...")
        varying = {"date", "content-length"} if hide else {"date"}
        return self.status, {name: value for name, value in self.headers.items() if name not in varying}, body


class Raw:
    """One connection, which stays with the worker that accepted it."""

    def __init__(self, port: int, token: str) -> None:
        self.port, self.token = port, token
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter | None = None

    async def open(self) -> Raw:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**24)
        return self

    async def __aenter__(self) -> Raw:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        self.close()
        await asyncio.sleep(0)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.transport.abort()
            self.writer = None

    # --- requests ----------------------------------------------------------------------------------------------------

    def plain(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        return {
            "Host": f"127.0.0.1:{self.port}",
            "Authorization": f"Bearer {self.token}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            **(more or {}),
        }

    async def modern(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        request_id: Any = 1,
        capabilities: Mapping[str, Any] | None = None,
    ) -> Answer:
        meta = {
            f"{META}protocolVersion": MODERN,
            f"{META}clientInfo": {"name": "raw", "version": "1"},
            f"{META}clientCapabilities": dict(capabilities or {}),
        }
        headers = self.plain({"MCP-Protocol-Version": MODERN, "Mcp-Method": method})
        if isinstance(name := (params or {}).get(NAME_MEMBERS.get(method, "")), str):
            headers["Mcp-Name"] = encode_value(name)
        body = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": {**(params or {}), "_meta": meta}}
        return await self.ask("POST", "/mcp", headers.items(), json.dumps(body).encode())

    async def session(self, revision: str = "2025-11-25") -> str:
        """`initialize`; the id of the session."""
        hello = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        answer = await self.handshake("initialize", hello, None)
        return answer.headers["mcp-session-id"]

    async def handshake(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        session: str | None,
        request_id: Any = 1,
    ) -> Answer:
        more = {} if session is None else {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
        body = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": dict(params or {})}
        return await self.ask("POST", "/mcp", self.plain(more).items(), json.dumps(body).encode())

    async def ask(
        self,
        method: str,
        path: str,
        headers: Headers,
        body: bytes = b"",
        *,
        wait: float = WAIT_SECONDS,
        until: bytes = b"",
    ) -> Answer:
        """Send one request and read its whole answer; of an event stream, up to an event that contains `until`."""
        if self.writer is None:
            await self.open()
        assert self.writer is not None
        head = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
        self.writer.write("\r\n".join([*head, f"Content-Length: {len(body)}", "", ""]).encode("latin-1", "replace"))
        self.writer.write(body)
        try:
            async with asyncio.timeout(wait):
                return await self.read(until, no_body=method == "HEAD")
        except (asyncio.IncompleteReadError, OSError) as error:
            self.close()
            raise ConnectionLost(repr(error)) from error
        except TimeoutError:
            self.close()
            raise

    # --- answers -----------------------------------------------------------------------------------------------------

    async def read(self, until: bytes = b"", *, no_body: bool = False) -> Answer:
        while True:
            line = await self.reader.readuntil(b"\r\n")
            status = int(line.split(b" ", 2)[1])
            headers: dict[str, str] = {}
            while (line := await self.reader.readuntil(b"\r\n")) != b"\r\n":
                name, _, value = line.decode("latin-1").partition(":")
                headers[name.strip().lower()] = value.strip()
            if status >= 200:
                break
        answer = Answer(status, headers)
        if no_body or status in (204, 304):
            pass
        elif headers.get("transfer-encoding", "").lower() == "chunked":
            await self._chunks(answer, until)
        elif "content-length" in headers:
            answer.body = await self.reader.readexactly(int(headers["content-length"]))
        else:
            answer.body = await self.reader.read(-1)
            self.close()
        if headers.get("connection", "").lower() == "close" or not answer.complete:
            self.close()
        return answer

    async def _chunks(self, answer: Answer, until: bytes) -> None:
        while size := int((await self.reader.readuntil(b"\r\n")).split(b";")[0], 16):
            answer.body += (await self.reader.readexactly(size + 2))[:-2]
            if until and until in answer.body:
                answer.complete = False
                return
        await self.reader.readuntil(b"\r\n")
