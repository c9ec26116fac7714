"""prompts/list and prompts/get."""

from __future__ import annotations

from typing import Any

from catalog.calls import call_tool
from catalog.policy import visibility
from toolhub.server import pagination
from toolhub.server.methods import params
from toolhub.server.methods.tools import ttl_ms
from toolhub.server.peer import Outlet, Peer
from toolhub.server.process import ServerRole
from toolhub.wire import jsonrpc


async def list_prompts(request: jsonrpc.Request, peer: Peer, outlet: Outlet, server: ServerRole) -> dict[str, Any]:
    credential = peer.caller.credential
    seen = visibility.for_credential(credential)
    items = [definition for definition, _ in seen.prompts.values()]
    found, cursor = pagination.page(items, "prompts", credential.user_id, request.params)
    result: dict[str, Any] = {"prompts": [item.wire for item in found], "ttlMs": ttl_ms(seen)}
    if cursor is not None:
        result["nextCursor"] = cursor
    return result


async def get(request: jsonrpc.Request, peer: Peer, outlet: Outlet, server: ServerRole) -> dict[str, Any]:
    name = params.text(request.params, "name")
    arguments = params.string_mapping(request.params, "arguments")
    found = await call_tool.get_prompt(peer.caller, name, arguments, server.channels.open(request, peer, outlet))
    result: dict[str, Any] = {"messages": found.messages}
    if found.description:
        result["description"] = found.description
    return result
