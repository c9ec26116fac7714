"""Which clients are run, at which versions, over what and at which revisions: the README's table is this one."""

from __future__ import annotations

from dataclasses import dataclass

MODERN = "2026-07-28"
HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
LATEST_HANDSHAKE = HANDSHAKE[-1]
EVERY = (*HANDSHAKE, MODERN)


@dataclass(frozen=True, slots=True)
class Client:
    title: str
    version: str
    over: tuple[tuple[str, tuple[str, ...]], ...]
    """Transport, and the revisions spoken over it."""

    def row(self) -> str:
        over = "; ".join(f"{transport}: {', '.join(revisions)}" for transport, revisions in self.over)
        return f"| {self.title} | {self.version} | {over} |"


HTTP, WEBSOCKET, STDIO = "Streamable HTTP", "WebSocket", "stdio"
PYTHON_2 = Client("Python SDK `mcp` 2.x", "2.3 or newer", ((HTTP, EVERY), (STDIO, (LATEST_HANDSHAKE, MODERN))))
PYTHON_1 = Client("Python SDK `mcp` 1.x", "1.30.0", ((HTTP, HANDSHAKE), (WEBSOCKET, HANDSHAKE)))
FASTMCP = Client("`fastmcp`", "4.1.6", ((HTTP, (LATEST_HANDSHAKE, MODERN)),))
TYPESCRIPT_2 = Client("TypeScript SDK `@modelcontextprotocol/client`", "2.4.0", ((HTTP, EVERY),))
TYPESCRIPT_1 = Client(
    "TypeScript SDK `@modelcontextprotocol/sdk`",
    "1.32.2",
    ((HTTP, (LATEST_HANDSHAKE,)), (WEBSOCKET, (LATEST_HANDSHAKE,))),
)
INSPECTOR = Client("MCP Inspector, `--cli`", "2.12.0", ((HTTP, (LATEST_HANDSHAKE, MODERN)),))
MCP_REMOTE = Client("`mcp-remote`", "0.15.1", ((f"{STDIO} bridged to {HTTP}", (LATEST_HANDSHAKE, MODERN)),))
CLIENTS = (PYTHON_2, PYTHON_1, FASTMCP, TYPESCRIPT_2, TYPESCRIPT_1, INSPECTOR, MCP_REMOTE)

NPM = (
    f"@modelcontextprotocol/client@{TYPESCRIPT_2.version}",
    f"@modelcontextprotocol/sdk@{TYPESCRIPT_1.version}",
    f"@modelcontextprotocol/inspector@{INSPECTOR.version}",
    f"mcp-remote@{MCP_REMOTE.version}",
)
