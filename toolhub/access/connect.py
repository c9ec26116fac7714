"""The AI clients that `/connect/` explains, as data: each entry here gets its page.

In a text, @URL@ is the address of /mcp, @TOKEN@ the token (or a placeholder), and @NAME@ the name under which the
client lists this server; @HTTP@ is text that only an address without TLS needs.

Problems of connecting clients: what happened, and how to fix it. Data, like `clients`.

The keys are the reasons of `toolhub.server.live.connect_check`; a reason that is missing here is shown as "request".
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from urllib.parse import quote

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

PLACEHOLDER = "thp_YOUR_TOKEN"
Text = str | Promise


@dataclass(frozen=True, slots=True)
class Snippet:
    label: Text
    """The instruction above the text."""
    text: str
    file: Text = ""
    """The file that the text belongs in, if there is one."""


@dataclass(frozen=True, slots=True)
class Client:
    key: str
    title: str
    about: Text
    snippets: tuple[Snippet, ...]
    verification: Text
    """How to verify that it works."""
    deeplink: str = ""
    """The scheme, cursor or vscode, of a link that is shown once a token is known."""


@dataclass(frozen=True, slots=True)
class FilledSnippet:
    label: Text
    text: str
    file: Text


def _json(value: object) -> str:
    return json.dumps(value, indent=2)


_BEARER = {"Authorization": "Bearer @TOKEN@"}
_BRIDGE = ["-y", "mcp-remote", "@URL@", "--header", "Authorization:${AUTHORIZATION}"]

CLIENTS: tuple[Client, ...] = (
    Client(
        key="claude-code",
        title="Claude Code",
        about=_("Run one command in a terminal. With “--scope user”, the server is available in all your projects."),
        snippets=(
            Snippet(
                _("Run this command"),
                "claude mcp add --scope user --transport http @NAME@ @URL@ \\\n"
                '  --header "Authorization: Bearer @TOKEN@"',
            ),
            Snippet(
                _("Or share it with a project: everyone sets their own token in TOOLHUB_TOKEN"),
                _json(
                    {
                        "mcpServers": {
                            "@NAME@": {
                                "type": "http",
                                "url": "@URL@",
                                "headers": {"Authorization": "Bearer ${TOOLHUB_TOKEN}"},
                            }
                        }
                    }
                ),
                ".mcp.json",
            ),
        ),
        verification=_("Type /mcp in Claude Code. The list shows the server as connected, with your tools."),
    ),
    Client(
        key="claude-desktop",
        title="Claude Desktop",
        about=_("Claude Desktop starts a small bridge (mcp-remote), which needs Node.js."),
        snippets=(
            Snippet(
                _("Open Settings → Developer → Edit Config, add this, and restart Claude Desktop"),
                _json(
                    {
                        "mcpServers": {
                            "@NAME@": {
                                "command": "npx",
                                "args": [*_BRIDGE, "@HTTP@"],
                                "env": {"AUTHORIZATION": "Bearer @TOKEN@"},
                            }
                        }
                    }
                ),
                "claude_desktop_config.json",
            ),
        ),
        verification=_("The tools icon below the text box lists your tools."),
    ),
    Client(
        key="cursor",
        title="Cursor",
        about=_(
            "Add the settings to a file in your home folder. After you create a token, you can use the button instead."
        ),
        snippets=(
            Snippet(
                _("Add this to the file"),
                _json({"mcpServers": {"@NAME@": {"url": "@URL@", "headers": _BEARER}}}),
                "~/.cursor/mcp.json",
            ),
        ),
        verification=_("Cursor Settings → MCP shows the server with a green dot and your tools."),
        deeplink="cursor",
    ),
    Client(
        key="vscode",
        title="VS Code",
        about=_(
            "For GitHub Copilot's agent mode. In a shared project, VS Code asks for the token once and "
            "keeps it in its secret store."
        ),
        snippets=(
            Snippet(
                _("Run this command"),
                "code --add-mcp '"
                + json.dumps({"name": "@NAME@", "type": "http", "url": "@URL@", "headers": _BEARER})
                + "'",
            ),
            Snippet(
                _("Or share it with a project: VS Code asks everyone for their own token"),
                _json(
                    {
                        "inputs": [
                            {"type": "promptString", "id": "toolhub", "description": "toolhub token", "password": True}
                        ],
                        "servers": {
                            "@NAME@": {
                                "type": "http",
                                "url": "@URL@",
                                "headers": {"Authorization": "Bearer ${input:toolhub}"},
                            }
                        },
                    }
                ),
                ".vscode/mcp.json",
            ),
        ),
        verification=_(
            "Run “MCP: List Servers” from the command palette. The tools button of the chat lists your tools."
        ),
        deeplink="vscode",
    ),
    Client(
        key="python",
        title="Python SDK",
        about=_("The official package, version 2."),
        snippets=(
            Snippet(_("Install"), "pip install 'mcp>=2.3,<3'"),
            Snippet(
                _("List your tools"),
                """import asyncio

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


async def main() -> None:
    async with httpx2.AsyncClient(headers={"Authorization": "Bearer @TOKEN@"}, timeout=60) as http:
        async with Client(streamable_http_client("@URL@", http_client=http)) as client:
            for tool in (await client.list_tools()).tools:
                print(tool.name, "-", tool.description)


asyncio.run(main())""",
                "list_tools.py",
            ),
        ),
        verification=_("It prints the names of your tools."),
    ),
    Client(
        key="typescript",
        title="TypeScript SDK",
        about=_("The official package. The WebSocket transport works too, at /ws/mcp."),
        snippets=(
            Snippet(_("Install"), "npm install @modelcontextprotocol/sdk"),
            Snippet(
                _("List your tools"),
                """import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const client = new Client({ name: "my-client", version: "1.0.0" });
await client.connect(
  new StreamableHTTPClientTransport(new URL("@URL@"), {
    requestInit: { headers: { Authorization: "Bearer @TOKEN@" } },
  }),
);
const { tools } = await client.listTools();
console.log(tools.map((tool) => tool.name));
await client.close();""",
                "list-tools.mjs",
            ),
        ),
        verification=_("It prints the names of your tools."),
    ),
    Client(
        key="inspector",
        title="MCP Inspector",
        about=_("For testing the server by hand, in a browser or in a terminal."),
        snippets=(
            Snippet(
                _("In a terminal"),
                "npx @modelcontextprotocol/inspector --cli @URL@ --transport http \\\n"
                '  --method tools/list --header "Authorization: Bearer @TOKEN@"',
            ),
            Snippet(
                _("In a browser: choose “Streamable HTTP”, and under Authentication add this header"),
                "Authorization: Bearer @TOKEN@",
            ),
        ),
        verification=_("The list shows exactly the tools on your Tools page."),
    ),
    Client(
        key="mcp-remote",
        title=_("Any stdio client"),  # type: ignore[arg-type]
        about=_("For clients that only start a local program (stdio). The bridge mcp-remote needs Node.js."),
        snippets=(
            Snippet(
                _("Command to start"),
                'npx -y mcp-remote @URL@ @HTTP@ --header "Authorization: Bearer @TOKEN@"',
            ),
        ),
        verification=_("It writes “Proxy established successfully” to stderr and waits for the client."),
    ),
    Client(
        key="curl",
        title="curl",
        about=_("One request, nothing to install."),
        snippets=(
            Snippet(
                _("List your tools"),
                """curl -sS @URL@ \\
  -H "Authorization: Bearer @TOKEN@" \\
  -H "Content-Type: application/json" \\
  -H "Accept: application/json, text/event-stream" \\
  -H "MCP-Protocol-Version: 2026-07-28" \\
  -H "Mcp-Method: tools/list" \\
  -d '{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "curl", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}}}}'""",
            ),
        ),
        verification=_("The response is one JSON object with your tools in result.tools."),
    ),
)
CLIENTS_BY_KEY = {client.key: client for client in CLIENTS}


def fill(client: Client, public_url: str, token: str = "", name: str = "toolhub") -> list[FilledSnippet]:
    """Return the snippets with this server's address and, when there is one, the token."""
    return [
        FilledSnippet(part.label, _replace_placeholders(part.text, public_url, token, name), part.file)
        for part in client.snippets
    ]


def _replace_placeholders(text: str, public_url: str, token: str, name: str) -> str:
    # mcp-remote rejects an address without TLS unless allowed by an option; localhost needs no option.
    host = public_url.split("://", 1)[-1]
    plain = public_url.startswith("http://") and not host.startswith(("localhost", "127.0.0.1", "[::1]"))
    if plain:
        text = text.replace("@HTTP@", "--allow-http")
    else:
        text = text.replace(',\n        "@HTTP@"', "").replace(" @HTTP@", "")
    return text.replace("@URL@", f"{public_url}/mcp").replace("@TOKEN@", token or PLACEHOLDER).replace("@NAME@", name)


def deeplink(client: Client, public_url: str, token: str, name: str = "toolhub") -> str:
    """Return the link that adds this server to the client, or "" if there is none."""
    settings = {"url": f"{public_url}/mcp", "headers": {"Authorization": f"Bearer {token}"}}
    if client.deeplink == "cursor":
        packed = base64.b64encode(json.dumps(settings).encode()).decode()
        return f"cursor://anysphere.cursor-deeplink/mcp/install?name={quote(name)}&config={quote(packed)}"
    if client.deeplink == "vscode":
        return "vscode:mcp/install?" + quote(json.dumps({"name": name, "type": "http", **settings}))
    return ""


@dataclass(frozen=True, slots=True)
class Trouble:
    key: str
    problem: Text
    advice: Text


TROUBLES: tuple[Trouble, ...] = (
    Trouble(
        "missing",
        _("A client on your network sent no token."),
        _(
            "Its settings lack the Authorization header, or it first tried its own sign-in. Paste all the "
            "settings above again and restart the client."
        ),
    ),
    Trouble(
        "scheme",
        _("A client on your network sent an Authorization header in the wrong format."),
        _("The header value must be the word Bearer, one space, and the token."),
    ),
    Trouble(
        "malformed",
        _("A client on your network sent an invalid token."),
        _(
            "A token starts with thp_ and has 47 characters. Perhaps the copy was cut off, or the "
            "placeholder is still there."
        ),
    ),
    Trouble(
        "unknown",
        _("A client on your network sent an unknown token."),
        _("It may belong to another server. Create a token here and paste the settings again."),
    ),
    Trouble(
        "revoked",
        _("The client sent a token that was revoked."),
        _("Create a new token here and paste the settings again. A revoked token can't be restored."),
    ),
    Trouble(
        "expired",
        _("The client sent a token that has expired."),
        _("Create a new token here and paste the settings again. You can choose a longer lifetime on the Tokens page."),
    ),
    Trouble(
        "inactive",
        _("The account of this token is not active."),
        _("Ask your administrator for help."),
    ),
    Trouble(
        "throttled",
        _("Too many invalid tokens came from your network, so new clients must wait."),
        _("Stop clients that still use an old token. Try again in a minute."),
    ),
    Trouble(
        "unavailable",
        _("The server cannot check tokens right now, or it has too many connections."),
        _("Try again in a minute. If the problem continues, tell your administrator."),
    ),
    Trouble(
        "streams",
        _("Your clients have too many open connections."),
        _("Close clients that you do not use, and try again in half a minute."),
    ),
    Trouble(
        "host",
        _("A client on your network used a host name that this server does not accept."),
        _(
            "Use exactly the address above. If it fails too, ask your administrator to add its host name to "
            "TOOLHUB_ALLOWED_HOSTS."
        ),
    ),
    Trouble(
        "origin",
        _("A client on your network runs in a web page that may not use this server."),
        _("Ask your administrator to add the page’s origin to TOOLHUB_ALLOWED_ORIGINS."),
    ),
    Trouble(
        "revision",
        _("The client uses a protocol version that this server does not support."),
        _(
            "Update the client, or choose another protocol version in its settings. This server supports "
            "all published versions."
        ),
    ),
    Trouble(
        "headers",
        _("Request headers and body do not match."),
        _("Check for a proxy that changes requests. If there is none, update the client."),
    ),
    Trouble(
        "accept",
        _("A client on your network does not accept the response format of this server."),
        _(
            "The client must accept application/json and text/event-stream. Choose “Streamable HTTP” in its "
            "settings, not SSE."
        ),
    ),
    Trouble(
        "content_type",
        _("A client on your network sent a request that is not JSON."),
        _("Choose “Streamable HTTP” in its settings."),
    ),
    Trouble(
        "verb",
        _("A client on your network used an HTTP method that this address does not support."),
        _("Choose “Streamable HTTP” in its settings, not the older SSE transport."),
    ),
    Trouble("large", _("A request was larger than this server accepts."), _("Ask your administrator for help.")),
    Trouble(
        "request",
        _("The server did not understand the client's request."),
        _("Update the client. If that does not help, tell your administrator what this page shows."),
    ),
    Trouble(
        "no_tools",
        _("The client is connected, but no tools are available to it."),
        _("Ask your administrator to grant you tools. They appear in the client automatically."),
    ),
    Trouble(
        "call",
        _("The client is connected, but its first call failed."),
        _("The Calls page shows the call with its arguments and result."),
    ),
    Trouble(
        "other",
        _("One of your clients is connected with another token."),
        _("This page waits for a client with the new token. If you meant this other client, you are done."),
    ),
)
