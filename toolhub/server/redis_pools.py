"""Connections to Redis, a bounded number of them: whoever comes later waits for one.

The pools of the Redis client open up to 100 connections each, keep them for ever, and then raise an error, which reads
as if Redis did not answer. A flood that one user sent through two workers left 100 descriptors behind (measured).
"""

from __future__ import annotations

from typing import Any

from channels_redis.core import RedisChannelLayer
from redis.asyncio import BlockingConnectionPool

MAX_CONNECTIONS = 8
"""Connections of one pool. One command takes a fraction of a millisecond, and a worker has one event loop."""


def new_pool(address: str, **options: Any) -> BlockingConnectionPool:
    """Return a pool for this address (redis://, rediss:// or unix://).

    A command that has waited for a connection for `socket_timeout` seconds raises `redis.exceptions.ConnectionError`.
    """
    waiting = options["socket_timeout"]
    return BlockingConnectionPool.from_url(address, max_connections=MAX_CONNECTIONS, timeout=waiting, **options)


class ChannelLayer(RedisChannelLayer):  # type: ignore[misc]
    """The layer of `channels_redis` with such pools."""

    def create_pool(self, index: int) -> BlockingConnectionPool:
        return new_pool(**self.hosts[index])
