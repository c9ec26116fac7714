"""News between the worker processes: over the channel layer where there is Redis, directly where there is one process.

News is only ever a hint that arrives early: whatever depends on it is also found out by asking (polling, time-outs), so
losing Redis delays things and hides nothing. Publishing never raises and never holds a request for more than half a
second; while Redis is away it is not even tried more than once in two seconds.
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

log = logging.getLogger(__name__)

WORKER = secrets.token_hex(4)
"""Names this process to the others; a new one with every start."""

GROUP = "toolhub.workers"
BREAK_SECONDS = 2.0
REJOIN_SECONDS = 5.0
COMPLAIN_SECONDS = 60.0

Handler = Callable[[dict[str, Any]], None]

_handlers: dict[str, list[Handler]] = {}
_loop: asyncio.AbstractEventLoop | None = None
_reader: asyncio.Task[None] | None = None
_sending: set[asyncio.Task[None]] = set()
_closed_until = 0.0
_complained = -COMPLAIN_SECONDS


def on(kind: str, handler: Handler) -> None:
    """Have `handler(payload)` called on the event loop for every piece of news of this kind, our own included."""
    known = _handlers.setdefault(kind, [])
    if handler not in known:
        known.append(handler)


async def start() -> None:
    """Listen on this loop; again when called on another one. Returns at once, also while Redis is away."""
    global _loop, _reader
    loop = asyncio.get_running_loop()
    if _loop is loop:
        return
    _loop = loop
    _sending.clear()
    if settings.REDIS_URL:
        _reader = loop.create_task(_read(), name="relay")


async def stop() -> None:
    global _loop, _reader
    reader, _reader, _loop = _reader, None, None
    # More than once: a cancellation can get lost between the layers of the Redis client.
    for _ in range(20):
        if reader is None or reader.done():
            break
        reader.cancel()
        await asyncio.wait([reader], timeout=0.25)


async def publish(kind: str, payload: dict[str, Any], worker: str | None = None) -> bool:
    """Tell every worker, this one at once, or only `worker`. False when it could not be sent to the others."""
    if worker is None or worker == WORKER:
        _deliver(kind, payload)
    if worker == WORKER:
        return True
    if not settings.REDIS_URL:
        return worker is None
    return await _send({"type": "news", "kind": kind, "by": WORKER, "payload": payload}, worker)


def tell(kind: str, payload: dict[str, Any], worker: str | None = None) -> None:
    """`publish` without waiting; on the event loop's thread."""
    task = asyncio.get_running_loop().create_task(_publish_quietly(kind, payload, worker))
    _sending.add(task)
    task.add_done_callback(_sending.discard)


def tell_from_thread(kind: str, payload: dict[str, Any]) -> None:
    """`tell` from any thread. Without a running server here nobody is told: the others find out by polling."""
    loop = _loop
    if loop is not None and not loop.is_closed():
        with contextlib.suppress(RuntimeError):  # the loop closed in between
            loop.call_soon_threadsafe(tell, kind, payload)


def degraded() -> bool:
    """Whether the other workers could not be reached lately."""
    return time.monotonic() < _closed_until


async def _publish_quietly(kind: str, payload: dict[str, Any], worker: str | None) -> None:
    await publish(kind, payload, worker)


def _deliver(kind: str, payload: dict[str, Any]) -> None:
    for handler in _handlers.get(kind, ()):
        try:
            handler(payload)
        except Exception:
            # One deaf listener must not keep the news from the others.
            log.exception("A listener for %r failed", kind)


async def _send(message: dict[str, Any], worker: str | None) -> bool:
    if degraded():
        return False
    layer = get_channel_layer()
    try:
        async with asyncio.timeout(settings.REDIS_SECONDS):
            if worker is None:
                await layer.group_send(GROUP, message)
            else:
                await layer.send(_channel(worker), message)
    except Exception as error:  # noqa: BLE001 - whatever the store does, a request goes on without it; _away logs
        _away(error)
        return False
    return True


async def _read() -> None:
    """Receive for as long as the process runs, through every loss of Redis."""
    layer = get_channel_layer()
    # A blocking read must end before the socket's time-out, or every quiet moment would look like a loss.
    layer.brpop_timeout = 1
    channel = _channel(WORKER)
    joined = -REJOIN_SECONDS
    pause = 0.1
    me = asyncio.current_task()
    while _reader is me:
        try:
            if time.monotonic() - joined > REJOIN_SECONDS:
                # Again and again, because a store that came back empty knows no groups.
                await layer.group_add(GROUP, channel)
                joined = time.monotonic()
            async with asyncio.timeout(REJOIN_SECONDS):
                message = await layer.receive(channel)
        except TimeoutError:
            continue
        except Exception as error:  # noqa: BLE001 - whatever the store does, this goes on listening; _away logs
            if "Timeout" not in type(error).__name__:
                _away(error)
            joined = -REJOIN_SECONDS
            await asyncio.sleep(pause)
            pause = min(pause * 2, BREAK_SECONDS)
            continue
        pause = 0.1
        if message.get("by") != WORKER and isinstance(message.get("payload"), dict):
            _deliver(str(message.get("kind")), message["payload"])


def _channel(worker: str) -> str:
    return f"toolhub.worker.{worker}"


def _away(error: Exception) -> None:
    global _closed_until, _complained
    now = time.monotonic()
    _closed_until = now + BREAK_SECONDS
    if now - _complained >= COMPLAIN_SECONDS:
        _complained = now
        log.warning(
            "Redis does not answer (%s): change notifications between workers are delayed", type(error).__name__
        )
