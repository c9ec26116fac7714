"""Dispatch of messages: one in, one answer out; the methods of each revision, and the boundary for errors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from django.conf import settings

from audit.recorder import AuditLogUnavailable
from catalog.calls import method_limits
from catalog.errors import (
    CANCELLED_BY_CLIENT,
    SESSION_ENDED,
    CallNotLogged,
    CatalogError,
    NeedsInput,
    ToolError,
)
from catalog.policy import visibility
from toolhub import deadline
from toolhub.server import errors as server_errors
from toolhub.server import requests
from toolhub.server.methods import completion, lifecycle, prompts, resources, subscriptions, tasks, tools
from toolhub.server.peer import Outlet, Peer
from toolhub.server.process import ServerRole
from toolhub.server.request_rates import TooManyRequests
from toolhub.wire import jsonrpc, shapes
from toolhub.wire.errors import INTERNAL_ERROR, METHOD_NOT_FOUND, McpError
from toolhub.wire.versions import HANDSHAKE, MODERN

log = logging.getLogger(__name__)

Handler = Callable[[jsonrpc.Request, Peer, Outlet, ServerRole], Awaitable[dict[str, Any]]]


def _limited(method: str, handler: Handler) -> Handler:
    """Return a handler that first counts the request against the limits of its method."""

    async def count_and_handle(
        request: jsonrpc.Request, peer: Peer, outlet: Outlet, server: ServerRole
    ) -> dict[str, Any]:
        await method_limits.take(peer.caller.credential, method)
        return await handler(request, peer, outlet, server)

    return count_and_handle


# Prompts and resources are read through the call pipeline, which counts and logs them itself.
_COMMON_METHODS: dict[str, Handler] = {
    "tools/call": tools.call,
    "tools/list": _limited("tools/list", tools.list_tools),
    "prompts/list": _limited("prompts/list", prompts.list_prompts),
    "prompts/get": prompts.get,
    "resources/list": _limited("resources/list", resources.list_resources),
    "resources/templates/list": _limited("resources/templates/list", resources.list_templates),
    "resources/read": resources.read,
    "completion/complete": _limited("completion/complete", completion.complete),
}
_HANDSHAKE_METHODS: dict[str, Handler] = {
    "ping": lifecycle.ping,
    "logging/setLevel": lifecycle.set_level,
    "resources/subscribe": resources.subscribe,
    "resources/unsubscribe": resources.unsubscribe,
}
_MODERN_METHODS: dict[str, Handler] = {
    "server/discover": lifecycle.discover,
    "subscriptions/listen": subscriptions.listen,
    "tasks/get": _limited("tasks/get", tasks.get),
    "tasks/update": tasks.update,
    "tasks/cancel": tasks.cancel,
}
METHODS: dict[str, dict[str, Handler]] = {
    **{revision: {**_COMMON_METHODS, **_HANDSHAKE_METHODS} for revision in HANDSHAKE},
    **{revision: {**_COMMON_METHODS, **_MODERN_METHODS} for revision in MODERN},
}
"""Revision -> method -> handler: a method that is absent does not exist in that revision."""

_CALL_METHODS = frozenset(server_errors.LOGGED_METHODS)
_CLIENT_CANCELLATIONS = frozenset({CANCELLED_BY_CLIENT, SESSION_ENDED})
"""Cancellations after which the client expects no answer."""


class RequestCancelled(Exception):
    """The client cancelled this request (`notifications/cancelled`): send no response, end its stream."""


async def answer(request: jsonrpc.Request, peer: Peer, outlet: Outlet, server: ServerRole) -> dict[str, Any]:
    """Return the result of a request in the shape of its revision.

    Raises McpError (ready to send) or RequestCancelled. It runs in the caller's task and never creates one.
    `subscriptions/listen` returns when the subscription ends. When the transport itself cancels the task
    (`task.cancel(catalog.errors.CLIENT_GONE)`), CancelledError comes through.
    """
    method = request.method
    if method not in _CALL_METHODS:
        _count_message(peer, server)
    handler = METHODS[peer.revision].get(method)
    if handler is None:
        raise McpError(METHOD_NOT_FOUND, f"Method not found: {method[:100]}", request_id=request.id)
    entry: requests.Entry | None = None
    try:
        if server.needs_start:
            await _start(request, server)
        entry = server.requests.enter(peer, request.id, method in _CALL_METHODS)
        entry.listens = handler is subscriptions.listen
        server.clients.register_message(peer, method in _CALL_METHODS)
        await visibility.prepare(peer.caller.credential)
        result = await handler(request, peer, outlet, server)
        if server.pages.keys:
            server.connect_check.report_result(peer, method, result)
        return shapes.shape(method, peer.revision, result, lifecycle.SERVER_INFO_SHORT)
    except McpError as error:
        server.count_refusal(error, peer.caller.address, peer.caller.username)
        if method in _CALL_METHODS:  # denials of the call pipeline are CatalogErrors and logged already
            await log_rejected(request, peer, error, server)
        server.connect_check.report_error(peer, method, error)
        raise
    except CatalogError as error:
        if isinstance(error, CallNotLogged) and error.busy:
            server.refuse("log_queue", peer.caller.address, peer.caller.username)
        server.connect_check.report_error(peer, method, error)
        raise server_errors.mcp_error(error, peer) from error
    except ToolError as error:
        raise server_errors.convert_tool_error(error) from error
    except NeedsInput as needs:
        return shapes.shape(
            method, peer.revision, server_errors.input_required(needs, request, peer), lifecycle.SERVER_INFO_SHORT
        )
    except asyncio.CancelledError:
        if entry is None or entry.reason is None:
            raise  # cancelled by the transport itself
        entry.task.uncancel()
        if entry.reason in _CLIENT_CANCELLATIONS:
            raise RequestCancelled(entry.reason) from None
        raise McpError(INTERNAL_ERROR, f"The request was cancelled: {entry.reason}") from None
    except Exception:
        # The only boundary for an unforeseen error of a request: the server log gets it, the client does not.
        log.exception("A request failed: %s of %s", method, peer.caller.credential.username)
        raise server_errors.internal_error(None) from None
    finally:
        if entry is not None:
            server.requests.leave(entry)
            entry = None  # an error has a traceback with this frame, and the task of the entry may end with it


def _count_message(peer: Peer, server: ServerRole) -> None:
    """Count a message that is no call. Raises TooManyRequests."""
    try:
        server.rates.count_request(peer.caller.user_id)
    except TooManyRequests as error:
        server.count_refusal(error, peer.caller.address, peer.caller.username)
        raise


async def _start(request: jsonrpc.Request, server: ServerRole) -> None:
    """Wait for the start of the process, which goes on when this request gives up. Raises McpError."""
    starting = asyncio.ensure_future(server.start_process())
    try:
        await deadline.within(asyncio.shield(starting), settings.RECORD_SECONDS)
    except TimeoutError:
        starting.add_done_callback(lambda task: task.cancelled() or task.exception())
        sentence = "The server is starting and waits for its database. Try again in a minute."
        raise McpError(INTERNAL_ERROR, sentence, request_id=request.id) from None


async def handle_notification(notification: jsonrpc.Notification, peer: Peer, server: ServerRole) -> None:
    """Handle a notification of the client; ignore unknown and malformed ones, as JSON-RPC asks.

    Of a flood, those above the rate of its user are ignored, too: each may be a message to all workers.
    """
    with suppress(TooManyRequests):
        _count_message(peer, server)
        await _handle_notification(notification, peer, server)


async def _handle_notification(notification: jsonrpc.Notification, peer: Peer, server: ServerRole) -> None:
    server.clients.register_message(peer, False)
    if notification.method == "notifications/cancelled":
        request_id = notification.params.get("requestId")
        if type(request_id) is str or type(request_id) is int:
            await server.requests.cancel(peer, request_id)


async def handle_response(response: jsonrpc.Response, peer: Peer, server: ServerRole) -> None:
    """Handle the client's answer to a server request of any worker; ignore a foreign or late one, and floods."""
    try:
        _count_message(peer, server)
    except TooManyRequests:
        return
    if server.needs_start:
        await server.start_process()
    await server.channels.handle_reply(response, peer)


async def log_rejected(request: jsonrpc.Request, peer: Peer, error: McpError, server: ServerRole) -> None:
    """Log a request that was rejected before its handler, if its method is logged; the denial stands in any case."""
    reason, own_entry = None, True
    if isinstance(error, TooManyRequests):
        reason, own_entry = error.reason, server.rates.takes_own_entry(peer.caller.user_id)
    try:
        await server_errors.log_rejected(request, peer, error.message, reason, own_entry=own_entry)
    except AuditLogUnavailable as cannot:
        log.warning("A denied request could not be logged: %s", cannot.reason)
