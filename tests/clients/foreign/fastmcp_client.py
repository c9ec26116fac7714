"""The client of FastMCP, in an environment of its own: reads what to do from stdin, writes reports to stdout."""

from __future__ import annotations

import asyncio
import json
import sys

import fastmcp
import mcp_types
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from mcp.shared.exceptions import MCPError


async def report(task, use):
    progress = []

    async def heard(value, total, message):
        progress.append([value, total, message])

    mode = "auto" if use["revision"] == "2026-07-28" else "legacy"
    transport = StreamableHttpTransport(task["http"], headers={"Authorization": f"Bearer {use['token']}"})
    info = mcp_types.Implementation(name=task["name"], version="1")
    async with Client(transport, mode=mode, client_info=info, timeout=60) as client:
        tools = await client.list_tools()
        calls = task["calls"]
        total = await client.call_tool("calculate_sum", calls["calculate_sum"])
        csv = await client.call_tool("analyze_csv", calls["analyze_csv"])
        long = await client.call_tool("long_task", calls["long_task"], progress_handler=heard)
        try:
            refused = f"not refused: {await client.call_tool(task['refused'], {'path': 'x'})}"
        except MCPError as error:
            refused = error.error.message
        return {
            "revision": client.protocol_version,
            "tools": [tool.name for tool in tools],
            "sum": total.content[0].text,
            "csv": csv.content[0].text,
            "structured": csv.structured_content,
            "long": long.content[0].text,
            "progress": progress,
            "refused": refused,
        }


async def main():
    task = json.load(sys.stdin)
    reports = [await report(task, use) for use in task["uses"]]
    json.dump({"version": fastmcp.__version__, "reports": reports}, sys.stdout)


asyncio.run(main())
