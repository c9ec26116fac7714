"""One call by the official Python SDK 1.x: reads what to call from stdin, writes a line for everything that happens."""

from __future__ import annotations

import asyncio
import json
import sys

import httpx
from approval_events import accept, heard, say
from mcp import ClientSession, types
from mcp.client.streamable_http import streamable_http_client


async def answer(_context, params):
    return accept(params, types.ElicitResult)


async def main():
    task = json.load(sys.stdin)
    headers = {"Authorization": f"Bearer {task['token']}"}
    async with (
        httpx.AsyncClient(headers=headers, timeout=120) as http,
        streamable_http_client(task["url"], http_client=http) as (read, write, _),
        ClientSession(read, write, elicitation_callback=answer if task["asks"] else None) as session,
    ):
        hello = await session.initialize()
        result = await session.call_tool(task["tool"], task["arguments"], progress_callback=heard)
        say(revision=hello.protocolVersion, result=result.content[0].text, error=bool(result.isError))


asyncio.run(main())
