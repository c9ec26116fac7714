"""Open streams and keep them: `python -m tests.bench.listen --port N --streams 500`, tokens on standard input.

Every other stream is a `subscriptions/listen` of 2026-07-28, the rest are GET streams of sessions of 2025-11-25. Prints
"open" when all of them are, and how many still are when standard input closes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
from typing import Any

ACCEPT = "application/json, text/event-stream"
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Stream:
    def __init__(self, port: int, token: str) -> None:
        self.port, self.token = port, token
        self.ended = False

    async def ask(self, method: str, headers: dict[str, str], message: dict[str, Any] | None) -> dict[str, str]:
        """Send a request on a connection of its own; the answer's headers. `self.reader` has the rest."""
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        body = b"" if message is None else json.dumps({"jsonrpc": "2.0", **message}).encode()
        lines = [f"{method} /mcp HTTP/1.1", f"Host: 127.0.0.1:{self.port}", f"Authorization: Bearer {self.token}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if message is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        if " 20" not in head[0]:
            raise SystemExit(f"{method}: {head[0]} {await self.reader.read(500)!r}")
        return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}

    async def subscribe(self) -> None:
        wanted = {"notifications": {"toolsListChanged": True, "promptsListChanged": True}, "_meta": META}
        headers = {"Accept": ACCEPT, "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"}
        await self.ask("POST", headers, {"id": 1, "method": "subscriptions/listen", "params": wanted})
        await self.reader.readuntil(b"subscriptions/acknowledged")

    async def get(self) -> None:
        about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        headers = {"Accept": ACCEPT, "MCP-Protocol-Version": "2025-11-25"}
        answer = await self.ask("POST", headers, {"id": 1, "method": "initialize", "params": about})
        self.writer.close()
        headers["Mcp-Session-Id"] = answer["mcp-session-id"]
        await self.ask("POST", headers, {"method": "notifications/initialized"})
        self.writer.close()
        await self.ask("GET", headers | {"Accept": "text/event-stream"}, None)

    async def stay(self) -> None:
        while await self.reader.read(65_536):
            pass
        self.ended = True


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--streams", type=int, default=500)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    tokens = sys.stdin.readline().split()
    streams = [Stream(options.port, tokens[number % len(tokens)]) for number in range(options.streams)]
    for start in range(0, len(streams), 20):
        part = list(enumerate(streams[start : start + 20]))
        await asyncio.gather(*(stream.get() if number % 2 else stream.subscribe() for number, stream in part))
    staying = [asyncio.create_task(stream.stay()) for stream in streams]
    sys.stdout.write("open\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    sys.stdout.write(f"{sum(not stream.ended for stream in streams)}\n")
    sys.stdout.flush()
    for task in staying:
        task.cancel()


if __name__ == "__main__":
    asyncio.run(main())
