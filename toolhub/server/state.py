"""Small state that all workers share (sessions): hashes in Redis, asked for whenever they matter.

A session that was closed at one worker is closed at the next one that the client asks, however soon: a copy that is
trusted for a while would not know. Without Redis configured the copy is the state. While Redis is away the copy stands
in, and what was written meanwhile is handed over when Redis is back.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Mapping
from weakref import WeakKeyDictionary

from django.conf import settings
from redis import asyncio as aioredis
from redis.exceptions import RedisError

log = logging.getLogger(__name__)

COPIES = 50_000
BREAK_SECONDS = 2.0
COMPLAIN_SECONDS = 60.0
PREFIX = "toolhub:state:"

_Fields = dict[str, str]


class _Copy:
    __slots__ = ("ends", "fields", "unsent")

    def __init__(self) -> None:
        self.fields: _Fields = {}
        self.ends = float("inf")
        self.unsent: dict[str, str | None] = {}

    def take(self, changes: Mapping[str, str | None]) -> None:
        for name, value in changes.items():
            if value is None:
                self.fields.pop(name, None)
            else:
                self.fields[name] = value


_copies: OrderedDict[str, _Copy] = OrderedDict()
_unsent: set[str] = set()
_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, aioredis.Redis] = WeakKeyDictionary()
_closed_until = 0.0
_complained = -COMPLAIN_SECONDS


def copied(key: str) -> Mapping[str, str]:
    """What is known here, however old."""
    copy = _copies.get(key)
    return copy.fields if copy is not None and time.monotonic() < copy.ends else {}


async def read(key: str) -> Mapping[str, str]:
    if not settings.REDIS_URL:
        return copied(key)
    copy = _copy(key)
    if not _breaker_open():
        try:
            found = await client().hgetall(PREFIX + key)
        except (RedisError, OSError) as error:
            _away(error)
        else:
            copy.fields = {str(name): str(value) for name, value in found.items()}
            copy.take(copy.unsent)
            await _hand_over()
    return copy.fields


async def write(key: str, fields: Mapping[str, str | None], seconds: float) -> None:
    """Set fields (None removes one); all of the key is forgotten `seconds` after its last write."""
    copy = _copy(key)
    copy.take(fields)
    copy.ends = time.monotonic() + seconds
    if not settings.REDIS_URL:
        return
    copy.unsent.update(fields)
    _unsent.add(key)
    if not _breaker_open():
        await _hand_over(seconds)


def client() -> aioredis.Redis:
    """The connection of this event loop, with short time-outs."""
    loop = asyncio.get_running_loop()
    found = _clients.get(loop)
    if found is None:
        found = aioredis.Redis.from_url(
            settings.REDIS_URL,
            decode_responses=True,
            socket_timeout=settings.REDIS_SECONDS,
            socket_connect_timeout=settings.REDIS_SECONDS,
            health_check_interval=30,
        )
        _clients[loop] = found
    return found


async def close() -> None:
    if (found := _clients.pop(asyncio.get_running_loop(), None)) is not None:
        await found.aclose()


def _copy(key: str) -> _Copy:
    copy = _copies.get(key)
    if copy is None or time.monotonic() >= copy.ends:
        copy = _copies[key] = _Copy()
        while len(_copies) > COPIES:
            _unsent.discard(_copies.popitem(last=False)[0])
    _copies.move_to_end(key)
    return copy


async def _hand_over(seconds: float = 86_400.0) -> None:
    for key in list(_unsent):
        copy = _copies.get(key)
        _unsent.discard(key)
        if copy is None or not copy.unsent:
            continue
        fields, copy.unsent = copy.unsent, {}
        left = copy.ends - time.monotonic()
        try:
            async with client().pipeline(transaction=False) as pipeline:
                if kept := {name: value for name, value in fields.items() if value is not None}:
                    pipeline.hset(PREFIX + key, mapping=kept)  # type: ignore[arg-type]
                if gone := [name for name, value in fields.items() if value is None]:
                    pipeline.hdel(PREFIX + key, *gone)
                pipeline.expire(PREFIX + key, max(1, int(left if left < 1e9 else seconds)))
                await pipeline.execute()
        except (RedisError, OSError) as error:
            copy.unsent = {**fields, **copy.unsent}
            _unsent.add(key)
            _away(error)
            return


def _breaker_open() -> bool:
    return time.monotonic() < _closed_until


def _away(error: Exception) -> None:
    global _closed_until, _complained
    now = time.monotonic()
    _closed_until = now + BREAK_SECONDS
    if now - _complained >= COMPLAIN_SECONDS:
        _complained = now
        log.warning("Redis does not answer (%s): sessions go on with what this worker knows", type(error).__name__)


def reset() -> None:
    """Forget everything that is only here (a test)."""
    _copies.clear()
    _unsent.clear()
