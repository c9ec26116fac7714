"""resources/list, resources/templates/list, resources/read, resources/subscribe and resources/unsubscribe."""

from __future__ import annotations

from typing import Any

from catalog.calls import call_tool
from catalog.calls.resources import is_readable
from catalog.errors import UnknownResource
from catalog.policy import visibility
from toolhub.server import pagination, sessions
from toolhub.server.methods import params
from toolhub.server.methods.tools import ttl_ms
from toolhub.server.peer import Outlet, Peer
from toolhub.server.process import ServerRole
from toolhub.wire import jsonrpc
from toolhub.wire.errors import INTERNAL_ERROR, McpError

MAX_URI_CHARACTERS = 8192


async def list_resources(request: jsonrpc.Request, peer: Peer, outlet: Outlet, server: ServerRole) -> dict[str, Any]:
    credential = peer.caller.credential
    seen = visibility.for_credential(credential)
    items = [definition for definition, _ in seen.resources.values()]
    found, cursor = pagination.page(items, "resources", credential.user_id, request.params)
    result: dict[str, Any] = {"resources": [item.wire for item in found], "ttlMs": ttl_ms(seen)}
    if cursor is not None:
        result["nextCursor"] = cursor
    return result


async def list_templates(request: jsonrpc.Request, peer: Peer, outlet: Outlet, server: ServerRole) -> dict[str, Any]:
    credential = peer.caller.credential
    seen = visibility.for_credential(credential)
    items = [definition for definition, _ in seen.templates.values()]
    found, cursor = pagination.page(items, "templates", credential.user_id, request.params)
    result: dict[str, Any] = {"resourceTemplates": [item.wire for item in found], "ttlMs": ttl_ms(seen)}
    if cursor is not None:
        result["nextCursor"] = cursor
    return result


async def read(request: jsonrpc.Request, peer: Peer, outlet: Outlet, server: ServerRole) -> dict[str, Any]:
    uri = _uri(request)
    found = await call_tool.read_resource(peer.caller, uri, server.channels.open(request, peer, outlet))
    return {"contents": found.contents}


async def subscribe(request: jsonrpc.Request, peer: Peer, outlet: Outlet, server: ServerRole) -> dict[str, Any]:
    uri = _uri(request)
    if not is_readable(visibility.for_credential(peer.caller.credential), uri):
        raise UnknownResource(uri)
    if peer.session is not None:
        try:
            await server.sessions.subscribe(peer.session, uri)
        except sessions.TooManySubscriptions:
            sentence = (
                f"This session has {sessions.MAX_SUBSCRIPTIONS} subscriptions, the maximum. Unsubscribe from one."
            )
            raise McpError(INTERNAL_ERROR, sentence) from None
    return {}


async def unsubscribe(request: jsonrpc.Request, peer: Peer, outlet: Outlet, server: ServerRole) -> dict[str, Any]:
    uri = _uri(request)
    if peer.session is not None:
        await server.sessions.unsubscribe(peer.session, uri)
    return {}


def _uri(request: jsonrpc.Request) -> str:
    uri = params.text(request.params, "uri")
    if len(uri) > MAX_URI_CHARACTERS:
        raise params.invalid("`uri` is too long")
    return uri
