"""Which clients are run, at which versions, over what and at which revisions: the README's table is this one."""

from __future__ import annotations

from dataclasses import dataclass

from tests.clients.approval_catalogue import BY_APPROVER, IN_BROWSER, IN_CLIENT

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
FASTMCP_TASKS = "4.1.4"
AGENT = Client(f"Pydantic AI (agent framework) with `fastmcp-tasks` {FASTMCP_TASKS}", "2.68.0", ((HTTP, (MODERN,)),))
PYTHON_2_TASKS = Client(f"Python SDK `mcp` 2.x with `fastmcp-tasks` {FASTMCP_TASKS}", "2.3.0", ((HTTP, (MODERN,)),))
"""They are not among the clients below: the tests run them only for calls that ask."""
CLIENTS = (PYTHON_2, PYTHON_1, FASTMCP, TYPESCRIPT_2, TYPESCRIPT_1, INSPECTOR, MCP_REMOTE)

SDK_1 = f"mcp[ws]=={PYTHON_1.version}"
FASTMCP_CLIENT = f"fastmcp-slim[client]=={FASTMCP.version}"
"""The client alone, without the server half of the package."""
WITH_TASKS = (
    f"pydantic-ai-slim[mcp]=={AGENT.version}",
    f"mcp=={PYTHON_2_TASKS.version}",
    f"fastmcp-tasks=={FASTMCP_TASKS}",
    f"fastmcp-slim[client]=={FASTMCP_TASKS}",
)
"""The agent framework, and the package with which it and the SDK know tasks. All exact, or pip finds none that fit."""
NPM = (
    f"@modelcontextprotocol/client@{TYPESCRIPT_2.version}",
    f"@modelcontextprotocol/sdk@{TYPESCRIPT_1.version}",
    f"@modelcontextprotocol/inspector@{INSPECTOR.version}",
    f"mcp-remote@{MCP_REMOTE.version}",
)

PROGRESS, LINK, QUESTION, TASK, NOTHING = "progress", "link", "question", "task", "nothing"
SHOWN = {
    PROGRESS: "progress that names who is asked",
    LINK: "the link to the page",
    QUESTION: "the question with the arguments",
    TASK: "the status of a task",
    NOTHING: "nothing",
}
"""What a client can show before the result."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a client shows while its call waits for approval, by who is asked and where."""

    key: str
    client: Client
    revision: str
    by_approver: str
    in_client: str
    in_browser: str
    questions: bool = True
    """Whether it can show questions (elicitation)."""

    def row(self) -> str:
        cells = (self.client.title, self.client.version, self.revision, *(SHOWN[kind] for kind in self.kinds()))
        return f"| {' | '.join(cells)} |"

    def kind(self, tool: str) -> str:
        """What is shown while a call of this tool waits."""
        return dict(zip((BY_APPROVER, IN_CLIENT, IN_BROWSER), self.kinds(), strict=True))[tool]

    def kinds(self) -> tuple[str, str, str]:
        return self.by_approver, self.in_client, self.in_browser


ASKED = (
    Asked("python 2", PYTHON_2, LATEST_HANDSHAKE, PROGRESS, QUESTION, LINK),
    Asked("python 2", PYTHON_2, MODERN, PROGRESS, QUESTION, LINK),
    Asked("python 1", PYTHON_1, LATEST_HANDSHAKE, PROGRESS, QUESTION, LINK),
    Asked("fastmcp", FASTMCP, LATEST_HANDSHAKE, PROGRESS, QUESTION, LINK),
    Asked("fastmcp", FASTMCP, MODERN, PROGRESS, QUESTION, LINK),
    Asked("typescript 2", TYPESCRIPT_2, LATEST_HANDSHAKE, PROGRESS, QUESTION, LINK),
    Asked("typescript 2", TYPESCRIPT_2, MODERN, PROGRESS, QUESTION, LINK),
    Asked("typescript 1", TYPESCRIPT_1, LATEST_HANDSHAKE, PROGRESS, QUESTION, LINK),
    Asked("inspector", INSPECTOR, LATEST_HANDSHAKE, NOTHING, NOTHING, NOTHING, questions=False),
    Asked("inspector", INSPECTOR, MODERN, TASK, NOTHING, NOTHING, questions=False),
    Asked("bridge", MCP_REMOTE, LATEST_HANDSHAKE, PROGRESS, QUESTION, LINK),
    Asked("bridge", MCP_REMOTE, MODERN, PROGRESS, QUESTION, LINK),
    Asked("python 2 tasks", PYTHON_2_TASKS, MODERN, TASK, QUESTION, LINK),
    Asked("agent", AGENT, MODERN, TASK, QUESTION, LINK),
)
