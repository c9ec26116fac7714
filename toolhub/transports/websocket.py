"""MCP over WebSocket at /ws/mcp, a custom transport: one JSON-RPC message per text frame, subprotocol `mcp`.

The token comes in the Authorization header, as a bearer token or as the password of Basic authentication. WebSocket
clients that cannot set a header can often put `user:password@` into their address, and the token is then not sent in
the address. Browsers can do neither; they offer the token as a second subprotocol, `bearer.TOKEN`, which is never
echoed. The query is not read, because a token in it would end up in logs.
"""

from __future__ import annotations

import asyncio
import logging
import time
from base64 import b64decode
from binascii import Error as NotBase64
from functools import partial

from channels.consumer import AsyncConsumer
from django.conf import settings

from toolhub.access import bearer
from toolhub.access.token_errors import BadToken, CheckUnavailable
from toolhub.server.process import ServerRole
from toolhub.server.request_rates import TooManyRequests
from toolhub.server.turns import count_turns
from toolhub.transports import guard
from toolhub.transports.asgi import CONNECTION, ClientConnection, Receive, Scope, Send
from toolhub.transports.connection import (
    BINARY_FRAME,
    TOO_BIG,
    TOO_LARGE,
    TRY_LATER,
    UNSUPPORTED,
    UPLOADS,
    Connection,
)
from toolhub.transports.guard import Rejection
from toolhub.transports.uploads import FREE_BYTES, TooManyUploads, Upload, Uploads

log = logging.getLogger(__name__)

SUBPROTOCOL = "mcp"
BEARER_PREFIX = "bearer."


class McpWebsocketConsumer(AsyncConsumer):  # type: ignore[misc]
    """One socket. Channels' own loop is bypassed: it would await its handlers one message at a time."""

    def __init__(self, server: ServerRole, uploads: Uploads) -> None:
        self.server, self.uploads = server, uploads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        asyncio.current_task().arrived = time.monotonic()  # type: ignore[union-attr]
        try:
            connection = await admit(self.server, scope, send)
        except (Rejection, BadToken) as rejected:
            # Not above this level: a line for each would let anybody fill the disk.
            log.debug("A WebSocket was rejected: %s", rejected)
            guard.report_rejected(self.server, client_of(scope), rejected)
            if isinstance(rejected, TryLater | CheckUnavailable):
                # A refused handshake has no code that tells a client to come back.
                await send({"type": "websocket.accept", "subprotocol": chosen(scope)})
                await send({"type": "websocket.close", "code": TRY_LATER, "reason": str(rejected)})
            else:
                await send({"type": "websocket.close"})
            return
        try:
            while True:
                event = await receive()
                if event["type"] == "websocket.disconnect":
                    return
                text = event.get("text")
                if text is None:
                    connection.end(UNSUPPORTED, BINARY_FRAME)
                elif len(data := text.encode()) > settings.MAX_BODY_BYTES:
                    connection.refuse("large")
                    connection.end(TOO_BIG, TOO_LARGE)
                else:
                    self.take(connection, scope.get(CONNECTION), data)
        finally:
            await connection.on_disconnect()

    def take(self, connection: Connection, client: ClientConnection | None, data: bytes) -> None:
        """Have one message begun at the turn of its user. A large one counts from now on, also while it waits."""
        upload = Upload(self.uploads, f"user:{connection.credential.user_id}")
        try:
            if len(data) > FREE_BYTES:
                upload.grow(len(data))
        except TooManyUploads:
            if client is not None:
                client.on_message_begun()
            connection.refuse("uploads")
            connection.end(TRY_LATER, UPLOADS)
            return
        begin = partial(self.begin, connection, client, data, upload)
        self.server.turns.put(connection.credential.user_id, begin, count_turns(data))

    def begin(
        self, connection: Connection, client: ClientConnection | None, data: bytes, upload: Upload
    ) -> asyncio.Task[None] | None:
        """Begin the work on one message; return its task, or None when nothing is to be done."""
        if client is not None:
            client.on_message_begun()
        task = connection.receive(data)
        if task is None:
            upload.release()
        elif upload.bytes:
            task.add_done_callback(lambda _: upload.release())
        return task


class TryLater(Rejection):
    """A rejection of a client that is welcome later."""


def client_of(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""


def chosen(scope: Scope) -> str | None:
    """Return the subprotocol for the answer to the handshake: none when the client does not offer it."""
    return SUBPROTOCOL if SUBPROTOCOL in (scope.get("subprotocols") or ()) else None


async def admit(server: ServerRole, scope: Scope, send: Send) -> Connection:
    """Accept the handshake. Raises the error that rejects it."""
    headers = guard.read_headers(scope)
    guard.check(headers)
    offered: list[str] = scope.get("subprotocols") or []
    tokens = [name.removeprefix(BEARER_PREFIX) for name in offered if name.startswith(BEARER_PREFIX)]
    if offered and SUBPROTOCOL not in offered:
        raise Rejection(400, "the client offers other subprotocols than `mcp`")
    if len(tokens) > 1 or (tokens and "authorization" in headers):
        raise Rejection(400, "two tokens")
    token = tokens[0] if tokens else from_header(headers.get("authorization"))
    address = client_of(scope)
    try:
        credential = server.authenticator.cached(token) or await server.authenticator.authenticate(token, address)
    except BadToken as bad:
        guard.count_bad_token(server, bad, address)
        raise
    if CONNECTION in scope:
        scope[CONNECTION].identify(credential.user_id)
    await server.turns.wait(credential.user_id)

    async def write(data: bytes) -> None:
        await send({"type": "websocket.send", "text": data.decode()})

    async def close(code: int, reason: str) -> None:
        await send({"type": "websocket.close", "code": code, "reason": reason})

    try:
        connection = Connection(server, credential, token, "websocket", address, write, close)
    except TooManyRequests as error:
        server.count_refusal(error, address, credential.username)
        raise TryLater(429, error.message, code="streams") from None
    await send({"type": "websocket.accept", "subprotocol": chosen(scope)})
    return connection


def from_header(value: str | None) -> str:
    """Return the token of the Authorization header, bearer or password. Raises BadToken."""
    scheme, _, encoded = (value or "").strip().partition(" ")
    if scheme.lower() != "basic":
        return bearer.from_header(value)
    try:
        return b64decode(encoded.strip(), validate=True).decode().partition(":")[2]
    except (NotBase64, ValueError):
        raise BadToken("a malformed Basic header", sent=False) from None
