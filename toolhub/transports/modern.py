"""The stateless transport over HTTP: every POST carries its own envelope; no session, no GET, no DELETE.

Closing the connection cancels the request. Each error is sent with its own HTTP status.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from django.db import DatabaseError, InterfaceError

from catalog.policy import snapshot, visibility
from toolhub.server import peer as peers
from toolhub.transports import guard
from toolhub.transports.exchange import Exchange, Watch, answer, cancel_on_disconnect
from toolhub.wire import envelope, errors, jsonrpc, versions
from toolhub.wire.errors import McpError


async def post(exchange: Exchange) -> None:
    try:
        message = jsonrpc.parse(exchange.body)
        if isinstance(message, jsonrpc.Notification):
            # This revision defines no notifications over HTTP: closing the stream cancels.
            await exchange.accept()
            return
        if not isinstance(message, jsonrpc.Request):
            raise McpError(
                errors.INVALID_REQUEST, "Invalid request: clients of this protocol version send no responses"
            )
    except McpError as error:
        await exchange.reject(error, errors.http_status(error.code))
        return
    try:
        peer = peers.modern(
            envelope.check(exchange.headers, message, versions.MODERN), exchange.credential, "http", exchange.address
        )
        if message.method == "tools/call":
            await check_parameters(exchange, message)
    except McpError as error:
        await guard.log_rejected(message, exchange, versions.LATEST_MODERN, str(error))
        error.request_id = message.id
        exchange.server.connect_check.report_invalid(exchange.credential, error)
        await exchange.reject(error, errors.http_status(error.code))
        return
    await run(exchange, message, peer)


async def check_parameters(exchange: Exchange, request: jsonrpc.Request) -> None:
    """Check that headers and arguments agree, by the schema of the tool as this caller sees it."""
    name, arguments = request.params.get("name"), request.params.get("arguments")
    with suppress(DatabaseError, InterfaceError, TimeoutError):  # the call itself is refused for it, and logged
        await snapshot.ensure_in_time()
    await visibility.prepare(exchange.credential)
    try:
        seen = visibility.for_credential(exchange.credential).tools.get(name) if isinstance(name, str) else None
    except snapshot.NotLoaded:  # at the start, with a database that does not answer: refused like the above
        return
    if seen is not None:
        schema: dict[str, Any] = seen[0].input_schema
        envelope.check_param_headers(exchange.headers, schema, arguments if isinstance(arguments, dict) else {})


async def run(exchange: Exchange, request: jsonrpc.Request, peer: peers.Peer) -> None:
    stream = exchange.stream()
    on_disconnect = cancel_on_disconnect(stream)
    stream.on_slow = on_disconnect
    watch = Watch(exchange.receive, stream, on_disconnect)
    try:
        message = await answer(request, peer, stream, exchange.server)
    except asyncio.CancelledError:
        if stream.connected:
            raise
        message = None
    finally:
        watch.stop()
    status = errors.http_status(message["error"]["code"]) if message is not None and "error" in message else 200
    await stream.finish(message, status)
