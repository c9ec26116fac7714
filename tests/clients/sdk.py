"""The Python SDK of this environment, 2.x, as a client that reports like the foreign ones."""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp.client import Client
from mcp.shared.exceptions import MCPError

from tests.clients.report import CALLS, NAME, REFUSED

INFO = types.Implementation(name=NAME, version="1")


async def use(client: Client) -> dict[str, Any]:
    seen: list[list[Any]] = []

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        seen.append([progress, total, message])

    tools = (await client.list_tools()).tools
    total = await client.call_tool("calculate_sum", CALLS["calculate_sum"])
    csv = await client.call_tool("analyze_csv", CALLS["analyze_csv"])
    long = await client.call_tool("long_task", CALLS["long_task"], progress_callback=heard)
    try:
        refused = f"not refused: {await client.call_tool(REFUSED, {'path': 'x'})}"
    except MCPError as error:
        refused = error.message
    return {
        "revision": client.protocol_version,
        "tools": [tool.name for tool in tools],
        "sum": text(total),
        "csv": text(csv),
        "structured": csv.structured_content,
        "long": text(long),
        "progress": seen,
        "refused": refused,
    }


def text(result: types.CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, types.TextContent)
    return block.text
