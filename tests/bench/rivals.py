"""Bare rival servers with the same tool on uvicorn: no account, no limit, no record.

`python rivals.py fastmcp|sdk PORT`, run by the interpreter of an environment that has the package.
"""

from __future__ import annotations

import sys


def fastmcp(port: int) -> None:
    from fastmcp import FastMCP  # type: ignore[import-not-found,unused-ignore]

    server = FastMCP("bench")

    @server.tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    server.run(
        transport="http",
        host="127.0.0.1",
        port=port,
        path="/mcp",
        log_level="error",
        stateless_http=True,
        json_response=True,
    )


def sdk(port: int) -> None:
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("bench", log_level="ERROR")

    @server.tool()
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    server.run(transport="streamable-http", host="127.0.0.1", port=port, stateless_http=True, json_response=True)


if __name__ == "__main__":
    {"fastmcp": fastmcp, "sdk": sdk}[sys.argv[1]](int(sys.argv[2]))
