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

from toolhub.access.token_errors import PLACEHOLDER
from toolhub.contact import fill_lazily

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
    """With a token; empty for a client that takes none."""
    verification: Text
    """How to verify that it works."""
    sign_in: tuple[Snippet, ...] = ()
    """Without a token: the person signs in; empty for a client that cannot do that."""
    deeplink: str = ""
    """The scheme of a link that adds this server: cursor, vscode, lmstudio or goose."""
    needs_public_address: bool = False
    """Whether it connects from its vendor's servers."""


@dataclass(frozen=True, slots=True)
class FilledSnippet:
    label: Text
    text: str
    file: Text


def _json(value: object) -> str:
    return json.dumps(value, indent=2)


_BEARER = {"Authorization": "Bearer @TOKEN@"}
_BRIDGE = ["-y", "mcp-remote", "@URL@"]
_URL = {"url": "@URL@"}
_ADD_TO_FILE, _RUN = _("Add this to the file"), _("Run this command")


def _servers(**server: object) -> str:
    return _json({"mcpServers": {"@NAME@": server}})


CLIENTS: tuple[Client, ...] = (
    Client(
        key="claude-code",
        title="Claude Code",
        about=_("Run one command in a terminal. With “--scope user”, the server is available in all your projects."),
        sign_in=(
            Snippet(_RUN, "claude mcp add --scope user --transport http @NAME@ @URL@"),
            Snippet(_("Start Claude Code, type this, choose the server, and authenticate"), "/mcp"),
        ),
        snippets=(
            Snippet(
                _RUN,
                "claude mcp add --scope user --transport http @NAME@ @URL@ \\\n"
                '  --header "Authorization: Bearer @TOKEN@"',
            ),
            Snippet(
                _("Or share it with a project: everyone sets their own token in TOOLHUB_TOKEN"),
                _servers(type="http", url="@URL@", headers={"Authorization": "Bearer ${TOOLHUB_TOKEN}"}),
                ".mcp.json",
            ),
        ),
        verification=_("Type /mcp in Claude Code. The list shows the server as connected, with your tools."),
    ),
    Client(
        key="claude",
        title="Claude",
        about=_("For claude.ai, Claude Desktop and the mobile apps. In a company, an owner adds the connector first."),
        sign_in=(
            Snippet(
                _("Open Customize → Connectors, choose “Add custom connector”, paste this URL, and choose Connect"),
                "@URL@",
            ),
        ),
        snippets=(),
        verification=_("The connector shows as connected. In a chat, it is listed under the tools button."),
        needs_public_address=True,
    ),
    Client(
        key="claude-desktop",
        title="Claude Desktop",
        about=_("For a server that Claude cannot reach from outside. A small bridge (mcp-remote) needs Node.js."),
        sign_in=(
            Snippet(
                _("Open Settings → Developer → Edit Config, add this, and restart Claude Desktop"),
                _servers(command="npx", args=[*_BRIDGE, "@HTTP@"]),
                "claude_desktop_config.json",
            ),
        ),
        snippets=(
            Snippet(
                _("Open Settings → Developer → Edit Config, add this, and restart Claude Desktop"),
                _servers(
                    command="npx",
                    args=[*_BRIDGE, "--header", "Authorization:${AUTHORIZATION}", "@HTTP@"],
                    env={"AUTHORIZATION": "Bearer @TOKEN@"},
                ),
                "claude_desktop_config.json",
            ),
        ),
        verification=_("The tools icon below the text box lists your tools."),
    ),
    Client(
        key="chatgpt",
        title="ChatGPT",
        about=_("Needs developer mode. In a company, an administrator turns it on for the workspace first."),
        sign_in=(
            Snippet(
                _(
                    "Open Settings → Apps → Advanced settings and turn on developer mode. Choose “Create app”, paste "
                    "this URL, choose OAuth, and create"
                ),
                "@URL@",
            ),
        ),
        snippets=(),
        verification=_("In a chat, choose + → More → Developer mode, and the app. It lists your tools."),
        needs_public_address=True,
    ),
    Client(
        key="cursor",
        title="Cursor",
        about=_("Use the button, or add the settings to a file in your home folder."),
        sign_in=(Snippet(_ADD_TO_FILE, _servers(**_URL), "~/.cursor/mcp.json"),),
        snippets=(Snippet(_ADD_TO_FILE, _servers(**_URL, headers=_BEARER), "~/.cursor/mcp.json"),),
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
        sign_in=(
            Snippet(
                _("Or run this command, on macOS and Linux"),
                "code --add-mcp '" + json.dumps({"name": "@NAME@", "type": "http", "url": "@URL@"}) + "'",
            ),
            Snippet(
                _("Or share it with a project"),
                _json({"servers": {"@NAME@": {"type": "http", "url": "@URL@"}}}),
                ".vscode/mcp.json",
            ),
        ),
        snippets=(
            Snippet(
                _("Run this command, on macOS and Linux"),
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
        key="codex",
        title="Codex CLI",
        about=_("The command line, the IDE extension and the app share this configuration."),
        sign_in=(
            Snippet(_("Run this command. It opens your browser"), "codex mcp add @NAME@ --url @URL@"),
            Snippet(_("If it does not, run this one"), "codex mcp login @NAME@"),
        ),
        snippets=(
            Snippet(_("Set the token in the environment of Codex"), 'export TOOLHUB_TOKEN="@TOKEN@"'),
            Snippet(
                _ADD_TO_FILE,
                '[mcp_servers.@NAME@]\nurl = "@URL@"\nbearer_token_env_var = "TOOLHUB_TOKEN"',
                "~/.codex/config.toml",
            ),
        ),
        verification=_("“codex mcp list” shows the server, and /mcp in Codex lists your tools."),
    ),
    Client(
        key="gemini",
        title="Gemini CLI",
        about=_("Run one command in a terminal. With “--scope user”, the server is available in all your projects."),
        sign_in=(
            Snippet(_RUN, "gemini mcp add --scope user --transport http @NAME@ @URL@"),
            Snippet(_("Start Gemini CLI and type this"), "/mcp auth @NAME@"),
        ),
        snippets=(
            Snippet(
                _RUN,
                "gemini mcp add --scope user --transport http \\\n"
                '  --header "Authorization: Bearer @TOKEN@" @NAME@ @URL@',
            ),
        ),
        verification=_("“gemini mcp list” shows the server as connected."),
    ),
    Client(
        key="windsurf",
        title="Windsurf",
        about=_("Choose the MCP icon in the Cascade panel, and Configure. On Windows, ~ is your user folder."),
        sign_in=(Snippet(_ADD_TO_FILE, _servers(serverUrl="@URL@"), "~/.codeium/windsurf/mcp_config.json"),),
        snippets=(
            Snippet(_ADD_TO_FILE, _servers(serverUrl="@URL@", headers=_BEARER), "~/.codeium/windsurf/mcp_config.json"),
        ),
        verification=_("Choose the MCP icon, then Refresh. The server is green and lists your tools."),
    ),
    Client(
        key="zed",
        title="Zed",
        about=_("Run “zed: open settings file” from the command palette. Zed signs in since March 2026."),
        sign_in=(
            Snippet(
                _("Add this to the file, and choose Authenticate in the MCP settings"),
                _json({"context_servers": {"@NAME@": _URL}}),
                "settings.json",
            ),
        ),
        snippets=(
            Snippet(
                _ADD_TO_FILE, _json({"context_servers": {"@NAME@": {**_URL, "headers": _BEARER}}}), "settings.json"
            ),
        ),
        verification=_("Settings → AI → MCP Servers shows a green dot beside the server."),
    ),
    Client(
        key="lmstudio",
        title="LM Studio",
        about=_("Use the button, or choose Program → Install → Edit mcp.json in the right sidebar."),
        sign_in=(Snippet(_ADD_TO_FILE, _servers(**_URL), "mcp.json"),),
        snippets=(Snippet(_ADD_TO_FILE, _servers(**_URL, headers=_BEARER), "mcp.json"),),
        verification=_("The sidebar shows the server as signed in, with your tools. Turn it on for a chat."),
        deeplink="lmstudio",
    ),
    Client(
        key="cline",
        title="Cline",
        about=_("In the Cline panel, choose the MCP Servers icon → Configure → Configure MCP Servers."),
        sign_in=(
            Snippet(
                _("Add this to the file, and choose Authenticate beside the server"),
                _servers(type="streamableHttp", url="@URL@"),
                "cline_mcp_settings.json",
            ),
        ),
        snippets=(
            Snippet(
                _ADD_TO_FILE, _servers(type="streamableHttp", url="@URL@", headers=_BEARER), "cline_mcp_settings.json"
            ),
        ),
        verification=_("The row of the server lists your tools."),
    ),
    Client(
        key="goose",
        title="Goose",
        about=_("Use the button, or “goose configure” → Add Extension → Remote Extension (Streamable HTTP)."),
        sign_in=(
            Snippet(
                _ADD_TO_FILE,
                "extensions:\n  @NAME@:\n    name: @NAME@\n    type: streamable_http\n    uri: @URL@\n"
                "    enabled: true\n    timeout: 300",
                "~/.config/goose/config.yaml",
            ),
        ),
        snippets=(
            Snippet(
                _ADD_TO_FILE,
                "extensions:\n  @NAME@:\n    name: @NAME@\n    type: streamable_http\n    uri: @URL@\n"
                "    enabled: true\n    timeout: 300\n    headers:\n      Authorization: Bearer @TOKEN@",
                "~/.config/goose/config.yaml",
            ),
        ),
        verification=_("Start a new session. The extension is on, and its tools can be used."),
        deeplink="goose",
    ),
    Client(
        key="jetbrains",
        title="JetBrains AI Assistant",
        about=_("Open Settings → Tools → AI Assistant → Model Context Protocol (MCP), choose +, and “As JSON”."),
        sign_in=(
            Snippet(
                _("Paste this. The bridge mcp-remote signs you in, and needs Node.js"),
                _servers(command="npx", args=[*_BRIDGE, "@HTTP@"]),
            ),
        ),
        snippets=(Snippet(_("Paste this"), _servers(**_URL, headers=_BEARER)),),
        verification=_("The list of MCP servers shows it as connected."),
    ),
    Client(
        key="inspector",
        title="MCP Inspector",
        about=_("For testing the server by hand, in a browser or in a terminal. It needs Node.js 22.19 or later."),
        sign_in=(
            Snippet(_("In a browser"), "npx @modelcontextprotocol/inspector --server-url @URL@ --transport http"),
            Snippet(
                _("In a terminal"),
                "npx @modelcontextprotocol/inspector --cli @URL@ --transport http --method tools/list",
            ),
        ),
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
        sign_in=(
            Snippet(_("Command to start"), "npx -y mcp-remote @URL@ @HTTP@"),
            Snippet(_("On a machine without a browser"), "npx -y mcp-remote @URL@ @HTTP@ --device-code"),
        ),
        snippets=(
            Snippet(
                _("Command to start"),
                'npx -y mcp-remote @URL@ @HTTP@ --header "Authorization: Bearer @TOKEN@"',
            ),
        ),
        verification=_("It writes “Proxy established successfully” to stderr and waits for the client."),
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
    """Return the snippets with a token, or a placeholder for it, and with this server's address."""
    return _fill(client.snippets, public_url, token, name)


def fill_sign_in(client: Client, public_url: str, name: str = "toolhub") -> list[FilledSnippet]:
    """Return the snippets without a token, with this server's address."""
    return _fill(client.sign_in, public_url, "", name)


def _fill(parts: tuple[Snippet, ...], public_url: str, token: str, name: str) -> list[FilledSnippet]:
    return [
        FilledSnippet(part.label, _replace_placeholders(part.text, public_url, token, name), part.file)
        for part in parts
    ]


def _replace_placeholders(text: str, public_url: str, token: str, name: str) -> str:
    # mcp-remote rejects an address without TLS unless allowed by an option; localhost needs no option.
    if not is_secure(public_url):
        text = text.replace("@HTTP@", "--allow-http")
    else:
        text = text.replace(',\n        "@HTTP@"', "").replace(" @HTTP@", "")
    return text.replace("@URL@", f"{public_url}/mcp").replace("@TOKEN@", token or PLACEHOLDER).replace("@NAME@", name)


def is_secure(public_url: str) -> bool:
    """Return whether clients sign in at this address: https, or the own computer."""
    host = public_url.split("://", 1)[-1]
    return public_url.startswith("https://") or host.startswith(("localhost", "127.0.0.1", "[::1]"))


def is_public(public_url: str) -> bool:
    """Return whether a client in a data center could reach this address, as far as its spelling tells."""
    host = public_url.split("://", 1)[-1].partition(":")[0].partition("/")[0]
    return (
        public_url.startswith("https://")
        and "." in host.strip(".")
        and not host.startswith(("127.", "10.", "192.168."))
    )


def deeplink(client: Client, public_url: str, name: str = "toolhub") -> str:
    """Return the link that adds this server to the client, or "" if there is none.

    The person then signs in: a link with a token would stay in the history of the browser.
    """
    url = f"{public_url}/mcp"
    settings = {"url": url}
    packed = quote(base64.b64encode(json.dumps(settings).encode()).decode())
    match client.deeplink:
        case "cursor":
            return f"cursor://anysphere.cursor-deeplink/mcp/install?name={quote(name)}&config={packed}"
        case "vscode":
            return "vscode:mcp/install?" + quote(json.dumps({"name": name, "type": "http", **settings}))
        case "lmstudio":
            return f"lmstudio://add_mcp?name={quote(name)}&config={packed}"
        case "goose":
            given = {"type": "streamable_http", "url": url, "id": name, "name": name, "description": "toolhub"}
            return "goose://extension?" + "&".join(f"{key}={quote(value, safe='')}" for key, value in given.items())
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
        "placeholder",
        _("A client on your network sent the placeholder instead of a token."),
        _("Create a token here, and paste the settings again: they then contain it."),
    ),
    Trouble(
        "path",
        _("A client on your network used a wrong address of this server."),
        _("The address ends with /mcp. Paste it again as shown above, with nothing after it."),
    ),
    Trouble(
        "silence",
        _("Nothing has come from the client for 30 seconds."),
        _(
            "Restart the client, and check that it uses exactly the address above. If it says that it is connected, it "
            "was connected before: see Apps and Tokens."
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
        fill_lazily(_("Ask %(contact)s for help.")),
    ),
    Trouble(
        "throttled",
        _("Too many invalid tokens came from your network, so new clients must wait."),
        _("Stop clients that still use an old token. Try again in a minute."),
    ),
    Trouble(
        "unavailable",
        _("The server cannot check tokens right now, or it has too many connections."),
        fill_lazily(_("Try again in a minute. If the problem continues, tell %(contact)s.")),
    ),
    Trouble(
        "streams",
        _("Your clients have too many open connections."),
        _("Close clients that you do not use, and try again in half a minute."),
    ),
    Trouble(
        "host",
        _("A client on your network used a host name that this server does not accept."),
        fill_lazily(
            _(
                "Use exactly the address above. If it fails too, ask %(contact)s to add its host name to "
                "TOOLHUB_ALLOWED_HOSTS."
            )
        ),
    ),
    Trouble(
        "origin",
        _("A client on your network runs in a web page that may not use this server."),
        fill_lazily(_("Ask %(contact)s to add the page’s origin to TOOLHUB_ALLOWED_ORIGINS.")),
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
    Trouble(
        "large",
        _("A request was larger than this server accepts."),
        fill_lazily(_("Ask %(contact)s for help.")),
    ),
    Trouble(
        "request",
        _("The server did not understand the client's request."),
        fill_lazily(_("Update the client. If that does not help, tell %(contact)s what this page shows.")),
    ),
    Trouble(
        "no_tools",
        _("The client is connected, but no tools are available to it."),
        fill_lazily(_("Ask %(contact)s to grant you tools. They appear in the client automatically.")),
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
