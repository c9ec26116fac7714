"""/ws/live: a read-only WebSocket that notifies open browser pages about the calls of the signed-in user.

The browser sends {"watch": "calls"}, {"watch": "call", "id": UUID}, {"watch": "connect"}, and auditors
{"watch": "all_calls"}; {"unwatch": "call", "id": UUID} and {"unwatch": "all_calls"} end it. `toolhub.server.live`
describes the answers. For others than auditors "all_calls" is an unknown topic, and the rights of an auditor are read
again before each message about it. A browser's cookie signs in here, so only pages of this site may connect:
the Origin must be our own address.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any
from uuid import UUID

from channels.consumer import AsyncConsumer

from catalog import threads
from toolhub.log_throttle import ThrottledWarning
from toolhub.server.live.calls import UNAVAILABLE_ERRORS, Watcher
from toolhub.server.process import ServerRole
from toolhub.transports import live_viewers
from toolhub.transports.asgi import CONNECTION, ClientConnection, Receive, Scope, Send
from toolhub.transports.connection import GOING_AWAY, INTERNAL, POLICY, TOO_BIG, TRY_LATER, UNSUPPORTED
from toolhub.transports.guard import Rejection
from toolhub.transports.live_viewers import Viewer
from toolhub.transports.outgoing import OutgoingQueue

log = logging.getLogger(__name__)

MAX_SOCKETS_PER_USER = 20
MAX_SOCKETS = 5_000
MAX_WATCHED_CALLS = 50
"""Maximum calls that one socket watches."""
MAX_MESSAGE_CHARACTERS = 512
"""Maximum characters of a message."""
MAX_MESSAGES = 1_000
"""Maximum messages that one socket may send in its life; a page sends a handful."""
MAX_WAITING_MESSAGES = 500
"""Maximum messages that wait for a slow reader; above it the socket is closed, and the page reconnects and reloads."""
CHECK_SECONDS = 3.0
"""Seconds between two checks of every socket's session."""
SIGNED_OUT = 4401
"""The close code that tells the page not to reconnect: its user is signed out."""


class LiveConsumer(AsyncConsumer):  # type: ignore[misc]
    """One socket. Channels' own loop is bypassed: it costs a task per message."""

    def __init__(self, sockets: LiveSockets) -> None:
        self.sockets = sockets

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        try:
            key = live_viewers.admit(scope)
            if self.sockets.server.needs_start:
                await self.sockets.server.start_process()
            found = await threads.queries().run(lambda: live_viewers.identify([key]), wait=30.0)
            if key not in found:
                raise Rejection(401, "not signed in")
            client = scope.get("client")
            socket = Socket(self.sockets, found[key], key, client[0] if client else "", send, scope.get(CONNECTION))
        except Rejection as rejected:
            # Not above this level: a line for each would let anybody fill the disk.
            log.debug("A page's WebSocket was rejected: %s", rejected.message)
            await send({"type": "websocket.close"})
            return
        except UNAVAILABLE_ERRORS as error:
            self.sockets.warning.warn("A page's WebSocket was rejected: %s", type(error).__name__)
            await send({"type": "websocket.close"})
            return
        await send({"type": "websocket.accept"})
        try:
            await socket.run(receive)
        finally:
            await socket.clean_up()


class Socket:
    """One window: the calls it watches, and its outgoing messages."""

    def __init__(
        self,
        sockets: LiveSockets,
        viewer: Viewer,
        key: str,
        address: str,
        send: Send,
        client: ClientConnection | None = None,
    ) -> None:
        self.viewer, self.key, self.address, self._send = viewer, key, address, send
        self._client = client
        if client is not None:
            client.identify(viewer.user_id)
        self.watcher = Watcher(
            viewer.user_id,
            self.put,
            self.go_away,
            everything=viewer.auditor,
            announce=partial(sockets.announce, self),
            interrupt=partial(self.close, TRY_LATER),
        )
        self.calls: set[UUID] = set()
        # Limited by number only: no message of a page is larger than a few hundred bytes.
        self._out: OutgoingQueue[str] = OutgoingQueue(MAX_WAITING_MESSAGES, sys.maxsize)
        self._closing: int | None = None
        self._received = 0
        self._sockets, self._calls, self._connect_check = sockets, sockets.server.calls, sockets.server.connect_check
        sockets.add(self)
        self._calls.register(self.watcher)
        self._writer = asyncio.get_running_loop().create_task(self._write(), name="live socket")

    async def run(self, receive: Receive) -> None:
        while True:
            event = await receive()
            if event["type"] == "websocket.disconnect":
                return
            if self._client is not None:
                self._client.on_message_begun()
            text = event.get("text")
            self._received += 1
            if text is None:
                self.close(UNSUPPORTED)
            elif len(text) > MAX_MESSAGE_CHARACTERS:
                self.close(TOO_BIG)
            elif self._received > MAX_MESSAGES:
                self.close(POLICY)
            elif self._closing is None:
                self._handle_message(text)

    def _handle_message(self, text: str) -> None:
        try:
            message = json.loads(text)
            if message.get("unwatch") == "all_calls":
                self._calls.forget_log(self.watcher)
            elif "unwatch" in message:
                self._unwatch(UUID(message["id"]))
            elif message["watch"] == "calls":
                self._calls.watch_mine(self.watcher)
            elif message["watch"] == "all_calls":
                self._calls.watch_log(self.watcher)
            elif message["watch"] == "connect":
                self._connect_check.watch(self.watcher, self.address)
            elif message["watch"] == "call":
                self._watch(UUID(message["id"]))
            else:
                raise ValueError("nothing to watch")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, PermissionError):
            self.close(POLICY)

    def _watch(self, call_id: UUID) -> None:
        if len(self.calls) >= MAX_WATCHED_CALLS:
            self.close(POLICY)
            return
        self.calls.add(call_id)
        self._calls.watch_one(self.watcher, call_id)

    def _unwatch(self, call_id: UUID) -> None:
        self.calls.discard(call_id)
        self._calls.forget(self.watcher, call_id)

    def put(self, message: dict[str, Any]) -> None:
        """Queue a message; never waits."""
        if self._closing is not None:
            return
        if message.get("topic") == "call" and (message.get("outcome") or message.get("error")):
            self.calls.discard(UUID(message["id"]))
        text = json.dumps(message, ensure_ascii=False)
        if not self._out.put(text, len(text)):
            self._out.clear()
            self.close(TRY_LATER)

    def close(self, code: int) -> None:
        if self._closing is None:
            self._closing = code
            self._out.wake()
            self._forget()

    def go_away(self) -> None:
        self.close(GOING_AWAY)

    async def clean_up(self) -> None:
        """Clean up after the window was closed, by itself or by the server."""
        self.close(GOING_AWAY)
        self._writer.cancel()
        await asyncio.wait([self._writer])

    def _forget(self) -> None:
        if self._sockets.remove(self):
            self._calls.unregister(self.watcher)
            self._connect_check.forget(self.watcher)

    async def _write(self) -> None:
        try:
            await self._out.run(self._send_text, self._idle)
        except Exception:
            log.exception("Writing to a page's WebSocket failed")
            self.close(INTERNAL)

    async def _send_text(self, text: str) -> None:
        await self._send({"type": "websocket.send", "text": text})

    async def _idle(self) -> bool:
        if self._closing is None:
            return False
        await self._send({"type": "websocket.close", "code": self._closing})
        return True


class LiveSockets:
    """The sockets of open pages that this process serves."""

    def __init__(self, server: ServerRole) -> None:
        self.server, self.warning = server, ThrottledWarning(log)
        self._open: set[Socket] = set()
        self._by_user: dict[int, int] = {}
        self._checking: asyncio.Task[None] | None = None
        self._due: set[Socket] = set()
        """Sockets of auditors that will be told that the audit log changed."""
        self._announcing: asyncio.Task[None] | None = None

    def __iter__(self) -> Iterator[Socket]:
        return iter(list(self._open))

    def add(self, socket: Socket) -> None:
        """Register a socket until `remove`, and check its session regularly. Raises Rejection if there are too many."""
        user_id = socket.viewer.user_id
        if len(self._open) >= MAX_SOCKETS or self._by_user.get(user_id, 0) >= MAX_SOCKETS_PER_USER:
            raise Rejection(503, "too many open pages")
        self._open.add(socket)
        self._by_user[user_id] = self._by_user.get(user_id, 0) + 1
        if self._checking is None or self._checking.done():
            self._checking = asyncio.get_running_loop().create_task(self._check(), name="live sessions")

    def remove(self, socket: Socket) -> bool:
        """Remove a socket; return whether it was known."""
        if socket not in self._open:
            return False
        self._open.discard(socket)
        remaining = self._by_user[socket.viewer.user_id] - 1
        if remaining:
            self._by_user[socket.viewer.user_id] = remaining
        else:
            del self._by_user[socket.viewer.user_id]
        return True

    def announce(self, socket: Socket) -> None:
        """Tell this socket that the audit log changed, if its user may still view it then; never waits."""
        self._due.add(socket)
        if self._announcing is None or self._announcing.done():
            self._announcing = asyncio.get_running_loop().create_task(self._announce(), name="live audit log")

    async def stop(self) -> None:
        """Stop checking sessions; the sockets are closed by the parts they subscribed to."""
        self._due.clear()
        tasks = [task for task in (self._checking, self._announcing) if task is not None]
        self._checking = self._announcing = None
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=5.0)

    async def _announce(self) -> None:
        """Read the rights of all due sockets in one query, then send: nobody hears anything after losing the right."""
        while self._due:
            due, self._due = self._due, set()
            found = await self._identify({socket.key for socket in due})
            for socket in due:
                if found is None:
                    socket.close(TRY_LATER)
                elif self._is_unchanged(socket, found):
                    socket.put({"topic": "all_calls"})

    async def _check(self) -> None:
        """Close the sockets of users who signed out, were deactivated, or lost rights."""
        while self._open:
            await asyncio.sleep(CHECK_SECONDS)
            keys = {socket.key for socket in self._open}
            # Without an answer they stay open: a page gets no new data while the database is unavailable.
            found = await self._identify(keys)
            if found is None:
                continue
            for socket in self:
                if socket.key in keys:
                    self._is_unchanged(socket, found)

    async def _identify(self, keys: set[str]) -> dict[str, Viewer] | None:
        """Return the users of these sessions; None while they cannot be read."""
        try:
            return await threads.queries().run(partial(live_viewers.identify, keys), wait=30.0)
        except UNAVAILABLE_ERRORS as error:
            log.warning("The sessions of open pages cannot be checked: %s", type(error).__name__)
        except Exception:
            log.exception("The sessions of open pages could not be checked")
        return None

    def _is_unchanged(self, socket: Socket, found: dict[str, Viewer]) -> bool:
        """Return whether the user of the socket has the rights it was opened with; close it otherwise."""
        now = found.get(socket.key)
        if now == socket.viewer:
            return True
        # A user with changed rights may reconnect with the current rights. A signed-out one may not.
        same = now is not None and now.user_id == socket.viewer.user_id
        socket.close(TRY_LATER if same else SIGNED_OUT)
        return False
