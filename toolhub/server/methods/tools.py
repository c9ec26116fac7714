"""tools/list and tools/call."""

from __future__ import annotations

import time
from typing import Any

from catalog.calls import call_tool
from catalog.errors import TASKS_EXTENSION, CatalogError
from catalog.policy import visibility
from catalog.policy.rules import Visible
from toolhub.server import errors, pagination
from toolhub.server.methods import params, tasks
from toolhub.server.peer import Outlet, Peer
from toolhub.server.process import ServerRole
from toolhub.wire import jsonrpc

LIST_TTL_MS = 5000
"""Maximum milliseconds for which a client that caches its list still shows a revoked tool, as for every revocation."""


async def list_tools(request: jsonrpc.Request, peer: Peer, outlet: Outlet, server: ServerRole) -> dict[str, Any]:
    credential = peer.caller.credential
    seen = visibility.for_credential(credential)
    items = [definition for definition, _ in seen.tools.values()]
    found, cursor = pagination.page(items, "tools", credential.user_id, request.params)
    result: dict[str, Any] = {"tools": [item.wire for item in found], "ttlMs": ttl_ms(seen)}
    if cursor is not None:
        result["nextCursor"] = cursor
    return result


async def call(request: jsonrpc.Request, peer: Peer, outlet: Outlet, server: ServerRole) -> dict[str, Any]:
    values = request.params
    name = values.get("name")
    if type(name) is not str:
        raise params.invalid("`name` must be a string")
    arguments = values.get("arguments")
    if type(arguments) is not dict:
        arguments = params.mapping(values, "arguments")
    channel = server.channels.open(request, peer, outlet)
    try:
        if peer.era == "modern" and TASKS_EXTENSION in peer.capabilities.get("extensions", ()):
            definition = tasks.find_task_definition(name, peer, channel)
            if definition is not None:
                return await tasks.create(definition, arguments, request, peer, outlet, server)
        return errors.tool_result(await call_tool.call_tool(peer.caller, name, arguments, channel))
    except CatalogError as error:
        result = errors.tool_error_result(error, peer)
        if result is None:
            # Raised from here, where `error` ends with the block: a function that raises its argument makes a cycle of
            # the error and its own frame, which held the request until a rare collection (measured).
            raise
        return result


def ttl_ms(seen: Visible) -> int:
    """Return how long a list is valid, in milliseconds: at most until it changes by itself."""
    if seen.changes_at is None:
        return LIST_TTL_MS
    return max(0, min(LIST_TTL_MS, int((seen.changes_at - time.time()) * 1000)))
