"""Small state that all workers share (sessions): hashes in Redis, read whenever they matter.

A session that was closed at one worker is closed at the client's next worker, however soon: a cached copy could be out
of date. Without Redis configured the copy is the state. While Redis is unavailable the copy is used, and writes of that
time are sent when Redis is back.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Mapping

from django.conf import settings
from redis import asyncio as aioredis
from redis.exceptions import RedisError

from toolhub.log_throttle import ThrottledWarning
from toolhub.server.redis_pools import new_pool

log = logging.getLogger(__name__)

MAX_COPIES = 50_000
BREAK_SECONDS = 2.0
KNOWN_SECONDS = 3600
"""Seconds for which a value counts as known: workers learn of a change within two seconds of each other."""
PREFIX = "toolhub:state:"

_Fields = dict[str, str]


class _Copy:
    __slots__ = ("ends", "fields", "unsent")

    def __init__(self) -> None:
        self.fields: _Fields = {}
        self.ends = float("inf")
        self.unsent: dict[str, str | None] = {}

    def apply(self, changes: Mapping[str, str | None]) -> None:
        for name, value in changes.items():
            if value is None:
                self.fields.pop(name, None)
            else:
                self.fields[name] = value


class SharedState:
    """The hashes of this process: its copies, the writes that wait for Redis, and the Redis connection."""

    def __init__(self) -> None:
        self._copies: OrderedDict[str, _Copy] = OrderedDict()
        self._unsent: set[str] = set()
        self._client: aioredis.Redis | None = None
        self._closed_until = 0.0
        self._warning = ThrottledWarning(log)

    def local_copy(self, key: str) -> Mapping[str, str]:
        """Return the local copy, however old."""
        copy = self._copies.get(key)
        return copy.fields if copy is not None and time.monotonic() < copy.ends else {}

    async def read(self, key: str) -> Mapping[str, str]:
        """Return all fields of the key, read from Redis where it is configured."""
        if not settings.REDIS_URL:
            return self.local_copy(key)
        copy = self._copy(key)
        if not self._is_breaker_open():
            try:
                found = await self.client().hgetall(PREFIX + key)
            except (RedisError, OSError) as error:
                self._open_breaker(error)
            else:
                copy.fields = {str(name): str(value) for name, value in found.items()}
                copy.apply(copy.unsent)
                await self._flush()
        return copy.fields

    async def write(self, key: str, fields: Mapping[str, str | None], seconds: float) -> None:
        """Set fields (None removes one); the whole key expires `seconds` after its last write."""
        copy = self._copy(key)
        copy.apply(fields)
        copy.ends = time.monotonic() + seconds
        if not settings.REDIS_URL:
            return
        copy.unsent.update(fields)
        self._unsent.add(key)
        if not self._is_breaker_open():
            await self._flush(seconds)

    async def replace(self, key: str, fields: Mapping[str, str], seconds: float) -> None:
        """Set these fields and remove all others that this process knows."""
        others: dict[str, str | None] = {name: None for name in self._copy(key).fields if name not in fields}
        await self.write(key, {**others, **fields}, seconds)

    async def is_first(self, key: str, value: str) -> bool:
        """Store `value` and return whether it differs from the value before, which another worker may have stored.

        Without Redis, and while it is unavailable, every value is the first: said twice is better than not at all.
        """
        if not settings.REDIS_URL or self._is_breaker_open():
            return True
        name = PREFIX + key
        try:
            async with self.client().pipeline(transaction=True) as pipeline:
                pipeline.getset(name, value)
                pipeline.expire(name, KNOWN_SECONDS)
                before, _ = await pipeline.execute()
        except (RedisError, OSError) as error:
            self._open_breaker(error)
            return True
        return bool(before != value)

    def client(self) -> aioredis.Redis:
        """Return the connection of this process, with short time-outs."""
        if self._client is None:
            pool = new_pool(
                settings.REDIS_URL,
                decode_responses=True,
                socket_timeout=settings.REDIS_SECONDS,
                socket_connect_timeout=settings.REDIS_SECONDS,
                health_check_interval=30,
            )
            self._client = aioredis.Redis.from_pool(pool)
        return self._client

    async def close(self) -> None:
        """Close the connection to Redis."""
        found, self._client = self._client, None
        if found is not None:
            await found.aclose()

    def _copy(self, key: str) -> _Copy:
        copy = self._copies.get(key)
        if copy is None or time.monotonic() >= copy.ends:
            self._copies.pop(key, None)
            self._remove_ended()
            copy = self._copies[key] = _Copy()
            while len(self._copies) > MAX_COPIES:
                self._unsent.discard(self._copies.popitem(last=False)[0])
        self._copies.move_to_end(key)
        return copy

    def _remove_ended(self) -> None:
        """Remove copies that have ended, as far as they are the ones that were unused for longest."""
        now = time.monotonic()
        while self._copies:
            key, copy = next(iter(self._copies.items()))
            if now < copy.ends:
                return
            del self._copies[key]
            self._unsent.discard(key)

    async def _flush(self, seconds: float = 86_400.0) -> None:
        for key in list(self._unsent):
            copy = self._copies.get(key)
            self._unsent.discard(key)
            if copy is None or not copy.unsent:
                continue
            fields, copy.unsent = copy.unsent, {}
            remaining = copy.ends - time.monotonic()
            try:
                async with self.client().pipeline(transaction=False) as pipeline:
                    if changed := {name: value for name, value in fields.items() if value is not None}:
                        pipeline.hset(PREFIX + key, mapping=changed)  # type: ignore[arg-type]
                    if removed := [name for name, value in fields.items() if value is None]:
                        pipeline.hdel(PREFIX + key, *removed)
                    pipeline.expire(PREFIX + key, max(1, int(remaining if remaining < 1e9 else seconds)))
                    await pipeline.execute()
            except (RedisError, OSError) as error:
                copy.unsent = {**fields, **copy.unsent}
                self._unsent.add(key)
                self._open_breaker(error)
                return

    def _is_breaker_open(self) -> bool:
        return time.monotonic() < self._closed_until

    def _open_breaker(self, error: Exception) -> None:
        self._closed_until = time.monotonic() + BREAK_SECONDS
        self._warning.warn(
            "Redis does not answer (%s): sessions go on with what this worker knows", type(error).__name__
        )
