"""Messages between the worker processes: over the channel layer with Redis, directly in a single process.

A message is only an early hint: everything that depends on it is also detected by polling or time-outs, so losing Redis
delays things and hides nothing. Publishing never raises and never delays a request for more than half a second; while
Redis is unavailable it is not even tried more than once in two seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Callable
from typing import Any

from channels.layers import get_channel_layer
from django.conf import settings

from toolhub.log_throttle import ThrottledWarning
from toolhub.parts import parts

log = logging.getLogger(__name__)

GROUP = "toolhub.workers"
BREAK_SECONDS = 2.0
REJOIN_SECONDS = 5.0

Handler = Callable[[dict[str, Any]], None]


class Bus:
    """The bus of one process: sends and receives messages. The parts register their handlers in their constructors."""

    def __init__(self) -> None:
        self.worker = secrets.token_hex(4)
        """Identifies this process to the others; new with every start."""
        self._handlers: dict[str, list[Handler]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reader: asyncio.Task[None] | None = None
        self._sending: set[asyncio.Task[None]] = set()
        self._closed_until = 0.0
        self._warning = ThrottledWarning(log)

    def on(self, kind: str, handler: Handler) -> None:
        """Register `handler(payload)` for every message of this kind, our own included; it runs on the event loop."""
        self._handlers.setdefault(kind, []).append(handler)

    async def start(self) -> None:
        """Listen on this loop; a repeated call has no effect. Returns at once, also while Redis is unavailable."""
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        self._loop = loop
        if settings.REDIS_URL:
            self._reader = loop.create_task(self._read(), name="bus")

    async def stop(self) -> None:
        """Stop listening."""
        reader, self._reader, self._loop = self._reader, None, None
        # More than once: a cancellation can get lost between the layers of the Redis client.
        for _ in range(20):
            if reader is None or reader.done():
                break
            reader.cancel()
            await asyncio.wait([reader], timeout=0.25)

    async def publish(self, kind: str, payload: dict[str, Any], worker: str | None = None) -> bool:
        """Send to every worker, this one at once, or only to `worker`; return False when the others got nothing."""
        if worker is None or worker == self.worker:
            self._deliver(kind, payload)
        if worker == self.worker:
            return True
        if not settings.REDIS_URL:
            return worker is None
        return await self._send({"type": "news", "kind": kind, "by": self.worker, "payload": payload}, worker)

    def publish_soon(self, kind: str, payload: dict[str, Any], worker: str | None = None) -> None:
        """Publish without waiting. Call on the event loop's thread."""
        task = asyncio.get_running_loop().create_task(self._publish_quietly(kind, payload, worker))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    def publish_from_thread(self, kind: str, payload: dict[str, Any]) -> None:
        """Publish from any thread; while this process does not listen, nothing is sent and others rely on polling."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            with contextlib.suppress(RuntimeError):  # the loop closed in between
                loop.call_soon_threadsafe(self.publish_soon, kind, payload)

    def is_degraded(self) -> bool:
        """Return whether the other workers could not be reached recently."""
        return time.monotonic() < self._closed_until

    async def _publish_quietly(self, kind: str, payload: dict[str, Any], worker: str | None) -> None:
        await self.publish(kind, payload, worker)

    def _deliver(self, kind: str, payload: dict[str, Any]) -> None:
        for handler in self._handlers.get(kind, ()):
            try:
                handler(payload)
            except Exception:
                # One failing listener must not block the message for the others.
                log.exception("A listener for %r failed", kind)

    async def _send(self, message: dict[str, Any], worker: str | None) -> bool:
        if self.is_degraded():
            return False
        layer = get_channel_layer()
        try:
            async with asyncio.timeout(settings.REDIS_SECONDS):
                if worker is None:
                    await layer.group_send(GROUP, message)
                else:
                    await layer.send(_channel(worker), message)
        except Exception as error:  # noqa: BLE001 - whatever the store does, a request goes on without it; _open_breaker logs
            self._open_breaker(error)
            return False
        return True

    async def _read(self) -> None:
        """Receive messages for as long as the process runs, through every loss of Redis."""
        layer = get_channel_layer()
        # A blocking read must end before the socket's time-out, or every quiet period would look like a lost
        # connection.
        layer.brpop_timeout = 1
        channel = _channel(self.worker)
        joined = -REJOIN_SECONDS
        pause = 0.1
        me = asyncio.current_task()
        while self._reader is me:
            try:
                if time.monotonic() - joined > REJOIN_SECONDS:
                    # Repeated, because a store that came back empty has no groups.
                    await layer.group_add(GROUP, channel)
                    joined = time.monotonic()
                async with asyncio.timeout(REJOIN_SECONDS):
                    message = await layer.receive(channel)
            except TimeoutError:
                continue
            except Exception as error:  # noqa: BLE001 - whatever the store does, this goes on listening; _open_breaker logs
                if "Timeout" not in type(error).__name__:
                    self._open_breaker(error)
                joined = -REJOIN_SECONDS
                await asyncio.sleep(pause)
                pause = min(pause * 2, BREAK_SECONDS)
                continue
            pause = 0.1
            if message.get("by") != self.worker and isinstance(message.get("payload"), dict):
                self._deliver(str(message.get("kind")), message["payload"])

    def _open_breaker(self, error: Exception) -> None:
        self._closed_until = time.monotonic() + BREAK_SECONDS
        self._warning.warn(
            "Redis does not answer (%s): change notifications between workers are delayed", type(error).__name__
        )


def publish_from_thread(kind: str, payload: dict[str, Any]) -> None:
    """Send to every worker, from an admin view or a signal; a process that does not serve sends nothing."""
    if (bus := parts.find(Bus)) is not None:
        bus.publish_from_thread(kind, payload)


def _channel(worker: str) -> str:
    return f"toolhub.worker.{worker}"
