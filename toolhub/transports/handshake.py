"""The stateful transport over HTTP: sessions, the standalone GET stream, resumption, DELETE.

A client that loses its connection has not cancelled: the call continues, and its messages are kept for the client's
return. Errors of a dispatched request are sent with HTTP 200; other statuses report errors of the transport.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from toolhub import deadline
from toolhub.server import dispatch, listeners, sessions, subscribers
from toolhub.server import peer as peers
from toolhub.server.methods import lifecycle
from toolhub.server.peer import Session
from toolhub.server.process import ServerRole
from toolhub.server.request_rates import TooManyRequests
from toolhub.transports import guard, resume
from toolhub.transports.asgi import SAFE, respond
from toolhub.transports.exchange import Exchange, Watch, answer
from toolhub.transports.guard import Rejection
from toolhub.transports.stream import EventStream
from toolhub.wire import envelope, errors, jsonrpc, versions
from toolhub.wire.errors import McpError

log = logging.getLogger(__name__)

SESSION_HEADER = "mcp-session-id"
NO_SESSION = McpError(
    errors.INVALID_REQUEST, "Invalid request: the Mcp-Session-Id header is missing; a session begins with `initialize`"
)


async def post(exchange: Exchange) -> None:
    session = gone = None
    session_id = exchange.headers.get(SESSION_HEADER)
    if session_id is not None:
        try:
            session = await exchange.server.sessions.require(session_id, exchange.credential)
        except sessions.UnknownSession as unknown:
            gone = unknown
    try:
        messages = jsonrpc.parse(
            exchange.body, batches=session is not None and session.revision in versions.BATCHING_REVISIONS
        )
    except McpError as error:
        await exchange.reject(error, 404 if gone else 400)
        return
    if envelope.PROTOCOL_VERSION.encode() in exchange.body:
        for one in messages if isinstance(messages, list) else [messages]:
            if isinstance(one, jsonrpc.Request):
                try:
                    envelope.check_stateful(exchange.headers, one, session.revision if session else None)
                except McpError as error:
                    await reject_envelope(exchange, one, error)
                    return
    if isinstance(messages, jsonrpc.Request) and messages.method == "initialize":
        await initialize(exchange, messages)
    elif session is not None:
        peer = peers.handshake(session, exchange.credential, "http", exchange.address)
        await run(exchange, messages, peer, session)
    else:
        await reject_without_session(exchange, messages, gone)


async def reject_envelope(exchange: Exchange, request: jsonrpc.Request, error: McpError) -> None:
    """Reject a stateless envelope under a header of a stateful version, and log it like any denied call."""
    revision = exchange.headers.get("mcp-protocol-version", versions.DEFAULT_WITHOUT_HEADER)
    await guard.log_rejected(request, exchange, revision, error.message)
    exchange.server.connect_check.report_invalid(exchange.credential, error)
    await exchange.reply(jsonrpc.error(request.id, error), 400)


async def reject_without_session(exchange: Exchange, message: Any, gone: sessions.UnknownSession | None) -> None:
    """Reject a message without a session: 404 makes a client repeat `initialize`, 400 means it never sent one."""
    error = McpError(errors.INVALID_REQUEST, "Session not found") if gone else NO_SESSION
    request_id = None
    if isinstance(message, jsonrpc.Request):
        request_id = message.id
        revision = exchange.headers.get("mcp-protocol-version", versions.DEFAULT_WITHOUT_HEADER)
        await guard.log_rejected(message, exchange, revision, error.message)
    await exchange.reply(jsonrpc.error(request_id, error), 404 if gone else 400)


async def initialize(exchange: Exchange, request: jsonrpc.Request) -> None:
    try:
        session, result = await lifecycle.initialize(request, exchange.credential, exchange.server)
    except McpError as error:
        exchange.server.connect_check.report_invalid(exchange.credential, error)
        exchange.server.count_refusal(error, exchange.address, exchange.credential.username)
        status, headers = 200, []
        if isinstance(error, TooManyRequests):
            status, headers = 429, guard.retry_after(error)
        await exchange.reply(jsonrpc.error(request.id, error), status, headers)
        return
    await exchange.reply(jsonrpc.result(request.id, result), headers=[(b"mcp-session-id", session.id.encode("ascii"))])


async def run(
    exchange: Exchange, messages: jsonrpc.Message | list[jsonrpc.Message], peer: peers.Peer, session: Session
) -> None:
    """Run one message, or a batch of messages as 2025-03-26 allows."""
    if isinstance(messages, jsonrpc.Request):
        stream, watch = open_stream(exchange, session)
        try:
            message = await answer(messages, peer, stream, exchange.server)
        finally:
            watch.stop()
        await stream.finish(message)
        return
    requests = []
    for one in messages if isinstance(messages, list) else [messages]:
        if isinstance(one, jsonrpc.Request):
            requests.append(one)
        elif isinstance(one, jsonrpc.Notification):
            await dispatch.handle_notification(one, peer, exchange.server)
        else:
            await dispatch.handle_response(one, peer, exchange.server)
    if not requests:
        await exchange.accept()
        return
    stream, watch = open_stream(exchange, session)
    try:
        answers = await asyncio.gather(
            *(
                deadline.hand_over(asyncio.ensure_future(answer(request, peer, stream, exchange.server)))
                for request in requests
            )
        )
    finally:
        watch.stop()
    await stream.finish([message for message in answers if message is not None] or None)


def open_stream(exchange: Exchange, session: Session) -> tuple[EventStream, Watch]:
    # No specification describes the oldest revision over this transport, so its streams cannot be resumed.
    event_log = exchange.streams.open(session) if versions.is_at_least(session.revision, "2025-03-26") else None
    stream = exchange.stream(event_log)
    return stream, Watch(exchange.receive, stream, stream.leave)


async def require(exchange: Exchange) -> Session:
    """Return the session of a GET or DELETE. Raises Rejection."""
    session_id = exchange.headers.get(SESSION_HEADER)
    if session_id is None:
        raise Rejection(400, NO_SESSION.message)
    try:
        return await exchange.server.sessions.require(session_id, exchange.credential)
    except sessions.UnknownSession:
        raise Rejection(404, "Session not found") from None


async def get(exchange: Exchange) -> None:
    """Open the standalone stream for catalogue notifications, or resume a response stream (Last-Event-ID)."""
    session = await require(exchange)
    peer = peers.handshake(session, exchange.credential, "http", exchange.address)
    last_event_id = exchange.headers.get("last-event-id")
    if last_event_id:
        await replay(exchange, peer, session, last_event_id)
        return
    stream = exchange.stream()
    listener = attach(exchange.server, peer, stream, subscribers.KINDS)
    stream.commit()
    watch = Watch(exchange.receive, stream, stream.stop)
    try:
        await stream.wait_written()
    finally:
        watch.stop()
        listener.detach()


async def replay(exchange: Exchange, peer: peers.Peer, session: Session, last_event_id: str) -> None:
    try:
        events = await exchange.streams.replay(session, last_event_id)
    except resume.UnknownEvent:
        raise Rejection(400, "That event is unknown or too old to resume from.") from None
    stream = exchange.stream()
    # Watched for revocation, but without the session, whose notifications go to its standalone stream.
    watched = peers.Peer(peer.caller, "handshake", peer.revision, peer.capabilities)
    listener = attach(exchange.server, watched, stream, frozenset())
    stream.commit()
    watch = Watch(exchange.receive, stream, stream.stop)
    try:
        async for event in events:
            if not stream.connected:
                break
            if event is not None:
                stream.replay(*event)
        stream.end()
        await stream.wait_written()
    finally:
        watch.stop()
        listener.detach()


def attach(server: ServerRole, peer: peers.Peer, stream: EventStream, kinds: frozenset[str]) -> listeners.Listener:
    try:
        return server.subscribers.attach(peer, stream.notify, lambda reason: stream.end(), kinds=kinds)
    except TooManyRequests as error:
        server.count_refusal(error, peer.caller.address, peer.caller.username)
        raise Rejection(429, error.message, guard.retry_after(error), code="streams") from None


async def delete(exchange: Exchange) -> None:
    await require(exchange)
    try:
        await exchange.server.sessions.close(exchange.headers[SESSION_HEADER], exchange.credential)
    except sessions.UnknownSession:
        raise Rejection(404, "Session not found") from None
    await respond(exchange.send, 204, [*SAFE, *exchange.cors], b"")
