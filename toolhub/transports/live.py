"""/ws/live: what happens, for pages that are open in a browser. Read only, and of the person who is signed in there.

The browser sends {"watch": "calls"}, {"watch": "call", "id": UUID}, {"watch": "connect"}, or the same with "unwatch";
what it is sent is described in `toolhub.server.live`. A browser's cookie signs in here, so only pages of this very
site may connect: the Origin must be our own address.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from functools import partial
from typing import Any
from uuid import UUID

from channels.consumer import AsyncConsumer

from catalog import threads
from toolhub.server import process
from toolhub.server.live import calls, connect_check
from toolhub.server.live.calls import AWAY, Watcher
from toolhub.transports import live_viewers
from toolhub.transports.asgi import Receive, Scope, Send
from toolhub.transports.connection import GOING_AWAY, INTERNAL, POLICY, TOO_BIG, TRY_LATER, UNSUPPORTED
from toolhub.transports.guard import Refused
from toolhub.transports.live_viewers import Viewer

log = logging.getLogger(__name__)

PER_USER = 20
PER_PROCESS = 5_000
WATCHES = 50
"""Calls that one socket looks at."""
LARGEST = 512
"""Characters of a message."""
MESSAGES = 1_000
"""How many messages one socket may send in its life; a page sends a handful."""
WAITING = 500
"""Messages that wait for a slow reader: beyond it the socket is closed, and the page comes back and looks anew."""
CHECK_SECONDS = 3.0
"""How often every socket's session is looked up again."""
SIGNED_OUT = 4401
"""The close code that tells the page not to come back: nobody is signed in there any more."""


class LiveConsumer(AsyncConsumer):  # type: ignore[misc]
    """One socket. Channels' own loop is left out: it costs a task per message."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        try:
            key = live_viewers.admit(scope)
            if process.needs_start():
                await process.start()
            found = await threads.looking().run(lambda: live_viewers.identify([key]), wait=30.0)
            if key not in found:
                raise Refused(401, "not signed in")
            client = scope.get("client")
            socket = Socket(found[key], key, client[0] if client else "", send)
        except Refused as refused:
            log.info("A page's WebSocket was rejected: %s", refused.message)
            await send({"type": "websocket.close"})
            return
        except AWAY as error:
            log.warning("A page's WebSocket was rejected: %s", type(error).__name__)
            await send({"type": "websocket.close"})
            return
        await send({"type": "websocket.accept"})
        try:
            await socket.run(receive)
        finally:
            await socket.left()


_open: set[Socket] = set()
_by_user: dict[int, int] = {}
_checking: asyncio.Task[None] | None = None


class Socket:
    """One window: what it looks at, and what waits to be sent to it."""

    def __init__(self, viewer: Viewer, key: str, address: str, send: Send) -> None:
        if len(_open) >= PER_PROCESS or _by_user.get(viewer.user_id, 0) >= PER_USER:
            raise Refused(503, "too many open pages")
        self.viewer, self.key, self.address, self._send = viewer, key, address, send
        self.watcher = Watcher(viewer.user_id, self.put, self.go_away, everything=viewer.auditor)
        self.calls: set[UUID] = set()
        self._out: deque[str] = deque()
        self._ready = asyncio.Event()
        self._closing: int | None = None
        self._heard = 0
        _open.add(self)
        calls.opened(self.watcher)
        _by_user[viewer.user_id] = _by_user.get(viewer.user_id, 0) + 1
        self._writer = asyncio.get_running_loop().create_task(self._write(), name="live socket")
        _keep_checking()

    async def run(self, receive: Receive) -> None:
        while True:
            event = await receive()
            if event["type"] == "websocket.disconnect":
                return
            text = event.get("text")
            self._heard += 1
            if text is None:
                self.close(UNSUPPORTED)
            elif len(text) > LARGEST:
                self.close(TOO_BIG)
            elif self._heard > MESSAGES:
                self.close(POLICY)
            elif self._closing is None:
                self._understand(text)

    def _understand(self, text: str) -> None:
        try:
            message = json.loads(text)
            if "unwatch" in message:
                self._unwatch(UUID(message["id"]))
            elif message["watch"] == "calls":
                calls.watch_mine(self.watcher)
            elif message["watch"] == "connect":
                connect_check.watch(self.watcher, self.address)
            elif message["watch"] == "call":
                self._watch(UUID(message["id"]))
            else:
                raise ValueError("nothing to watch")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            self.close(POLICY)

    def _watch(self, call_id: UUID) -> None:
        if len(self.calls) >= WATCHES:
            self.close(POLICY)
            return
        self.calls.add(call_id)
        calls.watch_one(self.watcher, call_id)

    def _unwatch(self, call_id: UUID) -> None:
        self.calls.discard(call_id)
        calls.forget(self.watcher, call_id)

    def put(self, message: dict[str, Any]) -> None:
        """Queue a message; never waits."""
        if self._closing is not None:
            return
        if len(self._out) >= WAITING:
            self._out.clear()
            self.close(TRY_LATER)
            return
        if message.get("topic") == "call" and (message.get("outcome") or message.get("error")):
            self.calls.discard(UUID(message["id"]))
        self._out.append(json.dumps(message, ensure_ascii=False))
        self._ready.set()

    def close(self, code: int) -> None:
        if self._closing is None:
            self._closing = code
            self._ready.set()
            self._forget()

    def go_away(self) -> None:
        self.close(GOING_AWAY)

    async def left(self) -> None:
        """The window is closed, or was told to go."""
        self.close(GOING_AWAY)
        self._writer.cancel()
        await asyncio.wait([self._writer])

    def _forget(self) -> None:
        if self in _open:
            calls.closed(self.watcher)
            connect_check.forget(self.watcher)
            _open.discard(self)
            left = _by_user[self.viewer.user_id] - 1
            if left:
                _by_user[self.viewer.user_id] = left
            else:
                del _by_user[self.viewer.user_id]

    async def _write(self) -> None:
        try:
            while True:
                await self._ready.wait()
                self._ready.clear()
                while self._out:
                    await self._send({"type": "websocket.send", "text": self._out.popleft()})
                if self._closing is not None:
                    await self._send({"type": "websocket.close", "code": self._closing})
                    return
        except Exception:
            log.exception("Writing to a page's WebSocket failed")
            self.close(INTERNAL)


# --- sessions that end -----------------------------------------------------------------------------------------------


def _keep_checking() -> None:
    global _checking
    loop = asyncio.get_running_loop()
    if _checking is None or _checking.done() or _checking.get_loop() is not loop:
        _checking = loop.create_task(_check(), name="live sessions")


async def _check() -> None:
    """Close the sockets whose person signed out, was deactivated, or may see less than before."""
    while _open:
        await asyncio.sleep(CHECK_SECONDS)
        keys = {socket.key for socket in _open}
        try:
            found = await threads.looking().run(partial(live_viewers.identify, keys), wait=30.0)
        except AWAY as error:
            # A page shows nothing new while the database is away, so nothing can leak meanwhile.
            log.warning("The sessions of open pages cannot be checked: %s", type(error).__name__)
            continue
        except Exception:
            log.exception("The sessions of open pages could not be checked")
            continue
        for socket in list(_open):
            now = found.get(socket.key)
            if socket.key in keys and now != socket.viewer:
                # Rights changed: the page may come back with those it has now. Nobody: it may not.
                same = now is not None and now.user_id == socket.viewer.user_id
                socket.close(TRY_LATER if same else SIGNED_OUT)
