"""completion/complete: suggestions for an argument of a prompt or a variable of a resource template."""

from __future__ import annotations

from typing import Any

from catalog.calls import call_tool
from toolhub.server.methods import params
from toolhub.server.peer import Outlet, Peer
from toolhub.server.process import ServerRole
from toolhub.wire import jsonrpc

MAX_VALUES = 100


async def complete(request: jsonrpc.Request, peer: Peer, outlet: Outlet, server: ServerRole) -> dict[str, Any]:
    ref = params.mapping(request.params, "ref")
    match ref.get("type"):
        case "ref/prompt":
            params.text(ref, "name")
        case "ref/resource":
            params.text(ref, "uri")
        case _:
            raise params.invalid("`ref.type` must be ref/prompt or ref/resource")
    argument = params.mapping(request.params, "argument")
    params.text(argument, "name")
    params.text(argument, "value")
    context = params.mapping(request.params, "context")
    params.string_mapping(context, "arguments")
    values, total, more = await call_tool.complete(peer.caller, ref, argument, context)
    completion: dict[str, Any] = {"values": values[:MAX_VALUES], "hasMore": more or len(values) > MAX_VALUES}
    if total is not None:
        completion["total"] = total
    return {"completion": completion}
