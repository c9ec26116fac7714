"""Streamable HTTP at /mcp: guard, bearer token, body, then the transport of the requested protocol version.

This consumer is the boundary for errors: every error below ends here as an answer without internals.
"""

from __future__ import annotations

import asyncio
import logging
import time

from channels.consumer import AsyncConsumer

from toolhub.access import bearer
from toolhub.access.token_errors import BadToken
from toolhub.server.process import ServerRole
from toolhub.server.turns import count_turns
from toolhub.transports import guard, handshake, modern
from toolhub.transports.asgi import CONNECTION, HTML, SAFE, Headers, Receive, Scope, Send, respond
from toolhub.transports.exchange import Exchange
from toolhub.transports.guard import Rejection
from toolhub.transports.resume import StreamLogs
from toolhub.transports.uploads import TooManyUploads, Uploads
from toolhub.wire import envelope, errors, versions
from toolhub.wire.errors import McpError

log = logging.getLogger(__name__)

ALLOW: Headers = [(b"allow", b"GET, POST, DELETE, OPTIONS")]
ALLOW_MODERN: Headers = [(b"allow", b"POST, OPTIONS")]


class StreamableHttpConsumer(AsyncConsumer):  # type: ignore[misc]
    """One HTTP request. Channels' own loop is bypassed: it costs a task per message and cannot detect a disconnect."""

    def __init__(self, server: ServerRole, streams: StreamLogs, uploads: Uploads) -> None:
        self.server, self.streams, self.uploads = server, streams, uploads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")
        asyncio.current_task().arrived = time.monotonic()  # type: ignore[union-attr]
        exchange = Exchange(self.server, self.streams, self.uploads, receive, send, client[0] if client else "")
        try:
            exchange.connection = scope.get(CONNECTION)
            await answer(scope, exchange)
        except Rejection as rejected:
            guard.report_rejected(self.server, exchange.address, rejected)
            error = McpError(errors.INVALID_REQUEST, rejected.message)
            await exchange.reject(error, rejected.status, rejected.headers)
        except TooManyUploads as full:
            exchange.refuse("uploads")
            await exchange.reject(McpError(errors.INVALID_REQUEST, full.sentence), full.status, full.headers())
        except asyncio.CancelledError:
            raise
        except BaseException:
            log.exception("A request to /mcp failed")
            await exchange.fail()
        finally:
            exchange.release()


async def answer(scope: Scope, exchange: Exchange) -> None:
    headers = exchange.headers = guard.read_headers(scope)
    guard.check(headers)
    exchange.cors = guard.cors(headers)
    method = scope["method"]
    if method == "POST":
        await post(exchange, headers)
    elif method == "GET":
        await get(exchange, headers)
    elif method == "DELETE":
        if is_modern(headers):
            raise Rejection(405, "This protocol version has no sessions.", ALLOW_MODERN)
        await identify(exchange, headers)
        await exchange.server.turns.wait(exchange.credential.user_id)
        await handshake.delete(exchange)
    elif method == "OPTIONS":
        await respond(exchange.send, 204, [*SAFE, *ALLOW, *guard.preflight(headers)], b"")
    else:
        raise Rejection(405, f"{method[:20]} is not allowed at this address.", ALLOW)


async def post(exchange: Exchange, headers: dict[str, str]) -> None:
    guard.check_announced_size(headers)
    if not guard.is_json(headers.get("content-type")):
        raise Rejection(415, "The body must be application/json in UTF-8.")
    guard.check_encoding(headers)
    exchange.json, exchange.events, _ = guard.parse_accept(headers.get("accept"))
    if not (exchange.json or exchange.events):
        raise Rejection(406, "The client must accept application/json and text/event-stream.")
    await identify(exchange, headers)
    body = await guard.read_body(exchange.receive, headers.get("content-length"), exchange.count_body)
    if body is None:
        return
    exchange.body = body
    await exchange.server.turns.wait(exchange.credential.user_id, count_turns(body))
    if is_modern(headers) or lacks_version_header(exchange):
        await modern.post(exchange)
    else:
        await handshake.post(exchange)


async def get(exchange: Exchange, headers: dict[str, str]) -> None:
    _, events, page = guard.parse_accept(headers.get("accept"))
    if page:
        from toolhub.access import views

        await respond(exchange.send, 200, HTML, views.mcp_help(headers.get("accept-language", "")))
        return
    if is_modern(headers):
        raise Rejection(405, "This protocol version has no GET stream; use subscriptions/listen.", ALLOW_MODERN)
    if not events:
        raise Rejection(406, "The client must accept text/event-stream.")
    await identify(exchange, headers)
    await exchange.server.turns.wait(exchange.credential.user_id)
    await handshake.get(exchange)


def is_modern(headers: dict[str, str]) -> bool:
    """Return whether the version header is unknown to the stateful transport; the stateless one then decides."""
    version = headers.get("mcp-protocol-version")
    return version is not None and version not in versions.HANDSHAKE


def lacks_version_header(exchange: Exchange) -> bool:
    """Return whether a stateless envelope lacks its version header; the stateless transport reports the error."""
    headers = exchange.headers
    return (
        envelope.PROTOCOL_VERSION.encode() in exchange.body
        and "mcp-protocol-version" not in headers
        and "mcp-session-id" not in headers
    )


async def identify(exchange: Exchange, headers: dict[str, str]) -> None:
    """Identify the caller. Raises Rejection with instructions for the client."""
    try:
        token = bearer.from_header(headers.get("authorization"))
        authenticator = exchange.server.authenticator
        credential = authenticator.cached(token) or await authenticator.authenticate(token, exchange.address)
        exchange.credential = credential
        if exchange.connection is not None:
            exchange.connection.identify(credential.user_id)
    except BadToken as bad:
        guard.count_bad_token(exchange.server, bad, exchange.address)
        extra = [(name.lower().encode(), value.encode()) for name, value in bad.headers().items()]
        raise Rejection(bad.status, bad.sentence, extra, code=bad.code, owner=bad.owner) from None
