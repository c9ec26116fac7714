"""The official Python SDK 1.x, in an environment of its own: reads what to do from stdin, writes reports to stdout."""

from __future__ import annotations

import asyncio
import json
import sys
import warnings
from contextlib import AsyncExitStack
from importlib.metadata import version

import httpx
from mcp import ClientSession, McpError, types
from mcp.client.streamable_http import streamable_http_client
from mcp.client.websocket import websocket_client

warnings.simplefilter("ignore", DeprecationWarning)


async def connect(stack, task, use):
    if use["transport"] == "http":
        headers = {"Authorization": f"Bearer {use['token']}"}
        http = await stack.enter_async_context(httpx.AsyncClient(headers=headers, timeout=60))
        read, write, _ = await stack.enter_async_context(streamable_http_client(task["http"], http_client=http))
    else:
        # This transport takes an address and nothing else; what stands before the @ is sent as a Basic header.
        address = task["websocket"].replace("ws://", f"ws://token:{use['token']}@")
        read, write = await stack.enter_async_context(websocket_client(address))
    info = types.Implementation(name=task["name"], version="1")
    return await stack.enter_async_context(ClientSession(read, write, client_info=info))


async def report(task, use):
    # The client always proposes the newest revision it knows; this is how it is made to propose an older one.
    types.LATEST_PROTOCOL_VERSION = use["revision"]
    progress = []

    async def heard(value, total, message):
        progress.append([value, total, message])

    async with AsyncExitStack() as stack:
        session = await connect(stack, task, use)
        hello = await session.initialize()
        tools = (await session.list_tools()).tools
        calls = task["calls"]
        total = await session.call_tool("calculate_sum", calls["calculate_sum"])
        csv = await session.call_tool("analyze_csv", calls["analyze_csv"])
        long = await session.call_tool("long_task", calls["long_task"], progress_callback=heard)
        try:
            refused = f"not refused: {await session.call_tool(task['refused'], {'path': 'x'})}"
        except McpError as error:
            refused = error.error.message
        return {
            "revision": hello.protocolVersion,
            "tools": [tool.name for tool in tools],
            "sum": total.content[0].text,
            "csv": csv.content[0].text,
            "structured": csv.structuredContent,
            "long": long.content[0].text,
            "progress": progress,
            "refused": refused,
        }


async def main():
    task = json.load(sys.stdin)
    reports = [await report(task, use) for use in task["uses"]]
    json.dump({"version": version("mcp"), "reports": reports}, sys.stdout)


asyncio.run(main())
