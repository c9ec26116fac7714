"""One call by the client of FastMCP: reads what to call from stdin, writes a line for everything that happens."""

from __future__ import annotations

import asyncio
import json
import sys

from approval_events import accept, heard, say
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StreamableHttpTransport


async def answer(_message, _response_type, params, _context):
    return accept(params, ElicitResult)


async def main():
    task = json.load(sys.stdin)
    transport = StreamableHttpTransport(task["url"], headers={"Authorization": f"Bearer {task['token']}"})
    mode = "auto" if task["revision"] == "2026-07-28" else "legacy"
    async with Client(
        transport, mode=mode, timeout=120, elicitation_handler=answer if task["asks"] else None
    ) as client:
        result = await client.call_tool(task["tool"], task["arguments"], progress_handler=heard, raise_on_error=False)
        say(revision=client.protocol_version, result=result.content[0].text, error=result.is_error)


asyncio.run(main())
