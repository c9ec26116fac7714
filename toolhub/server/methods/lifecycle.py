"""Start of a connection: `initialize` with version negotiation, `server/discover`, `ping`, `logging/setLevel`."""

from __future__ import annotations

from typing import Any

from audit.types import Credential
from catalog.errors import TASKS_EXTENSION
from toolhub import __version__
from toolhub.server.methods import params
from toolhub.server.peer import Outlet, Peer, Session
from toolhub.server.process import ServerRole
from toolhub.wire import envelope, jsonrpc, shapes, versions
from toolhub.wire.versions import LOG_LEVELS, LOG_SEVERITY

SERVER_INFO = {"name": "toolhub", "title": "toolhub", "version": __version__}
SERVER_INFO_SHORT = {"name": "toolhub", "version": __version__}
DISCOVER_TTL_MS = 300_000
INSTRUCTIONS = (
    "The lists contain the tools, prompts and resources that this account can use now. They can change at any time, "
    "with a notification. Every call is logged with its arguments and its result. When a result says that a rate "
    "limit was reached, wait for the number of seconds in it before you call the tool again."
)
_CAPABILITIES: dict[str, Any] = {
    "logging": {},
    "completions": {},
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
}


async def initialize(
    request: jsonrpc.Request, credential: Credential, server: ServerRole
) -> tuple[Session, dict[str, Any]]:
    """Create a session; return it with the InitializeResult in the shape of the negotiated revision. Raises McpError.

    Build the peer with `peer.handshake(session, credential, transport, address, connection)`.
    """
    server.rates.count_request(credential.user_id)
    values = request.params
    requested = params.text(values, "protocolVersion")
    capabilities = envelope.check_capabilities(values.get("capabilities", {}))
    name, version = envelope.client_info(values.get("clientInfo"))
    revision = versions.negotiate(requested)
    session = server.sessions.create(credential, revision, capabilities, name, version)
    result = {
        "protocolVersion": revision,
        "capabilities": _CAPABILITIES,
        "serverInfo": SERVER_INFO,
        "instructions": INSTRUCTIONS,
    }
    if server.pages.keys:
        server.connect_check.report_session(credential, revision, name, version)
    return session, shapes.shape("initialize", revision, result)


async def discover(request: jsonrpc.Request, peer: Peer, outlet: Outlet, server: ServerRole) -> dict[str, Any]:
    return {
        "supportedVersions": list(reversed(versions.ALL)),
        "capabilities": {**_CAPABILITIES, "extensions": {TASKS_EXTENSION: {}}},
        "instructions": INSTRUCTIONS,
        "ttlMs": DISCOVER_TTL_MS,
    }


async def ping(request: jsonrpc.Request, peer: Peer, outlet: Outlet, server: ServerRole) -> dict[str, Any]:
    return {}


async def set_level(request: jsonrpc.Request, peer: Peer, outlet: Outlet, server: ServerRole) -> dict[str, Any]:
    """Keep the minimum log level that a session wants to receive (stateful transport)."""
    level = params.text(request.params, "level")
    if level not in LOG_SEVERITY:
        raise params.invalid(f"`level` must be one of {', '.join(LOG_LEVELS)}")
    if peer.session is not None:
        await server.sessions.set_level(peer.session, level)
    return {}
