"""logging/setLevel: the minimum log level that a session wants to receive (stateful transport)."""

from __future__ import annotations

from typing import Any

from toolhub.server.methods import params
from toolhub.server.peer import Outlet, Peer
from toolhub.server.process import ServerRole
from toolhub.wire import jsonrpc
from toolhub.wire.versions import LOG_LEVELS, LOG_SEVERITY


async def set_level(request: jsonrpc.Request, peer: Peer, outlet: Outlet, server: ServerRole) -> dict[str, Any]:
    level = params.text(request.params, "level")
    if level not in LOG_SEVERITY:
        raise params.invalid(f"`level` must be one of {', '.join(LOG_LEVELS)}")
    if peer.session is not None:
        await server.sessions.set_level(peer.session, level)
    return {}
