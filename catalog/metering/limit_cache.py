"""The cache that limits count in when Redis is configured: Redis, or this process alone while Redis is unavailable.

A failing Redis is asked again after five seconds, so that calls do not wait for a time-out each; the log says once a
minute that every process counts for itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from django.core.cache import caches
from django.core.cache.backends.base import DEFAULT_TIMEOUT
from django.core.cache.backends.redis import RedisCache
from redis.exceptions import RedisError

from catalog.circuit_breaker import CircuitBreaker, CircuitOpen
from toolhub.log_throttle import ThrottledWarning
from toolhub.parts import parts

logger = logging.getLogger("toolhub.limits")
CIRCUIT_OPEN_SECONDS = 5.0
LOCAL_TTL_SECONDS = 3600
T = TypeVar("T")


class LimitThreads:
    """The threads in which a process asks Redis whether a limit is reached."""

    def __init__(self) -> None:
        self.executor = ThreadPoolExecutor(4, "limits")


class RedisHealth:
    """The state, as known to this process, of the Redis that limits count in."""

    def __init__(self) -> None:
        self.breaker = CircuitBreaker()
        self._warning = ThrottledWarning(logger)

    def report_success(self) -> None:
        if self.breaker.report_success():
            logger.warning("Redis answers again: limits are counted for all processes together.")

    def report_failure(self, error: Exception) -> None:
        self.breaker.report_failure(1, CIRCUIT_OPEN_SECONDS)
        self._warning.warn(
            "Redis does not answer (%s): every process counts limits for itself until it does.", type(error).__name__
        )


def ask(question: Callable[[], T], otherwise: Callable[[], T]) -> T:
    """Return what Redis answers to `question`; what `otherwise` returns while Redis does not answer. Blocks."""
    health = parts.get(RedisHealth)
    try:
        probe = health.breaker.enter()
    except CircuitOpen:
        return otherwise()
    try:
        answer = question()
    except (RedisError, OSError) as error:
        health.report_failure(error)
        return otherwise()
    except BaseException:
        health.breaker.release_probe(probe)
        raise
    health.report_success()
    return answer


class LimitCache(RedisCache):
    """A cache with what django-ratelimit and the limits of loops use, with the local fallback."""

    def _ask(self, question: Callable[[], T], otherwise: Callable[[Any], T]) -> T:
        return ask(question, lambda: otherwise(caches["local"]))

    def add(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        return bool(
            self._ask(
                lambda: super(LimitCache, self).add(key, value, timeout, version),
                lambda local: local.add(key, value, timeout, version),
            )
        )

    def incr(self, key: Any, delta: int = 1, version: int | None = None) -> int:
        def alone(local: Any) -> int:
            # Redis may have become unavailable between the add and this: then the counter starts here.
            return delta if local.add(key, delta, LOCAL_TTL_SECONDS, version) else local.incr(key, delta, version)

        return int(self._ask(lambda: super(LimitCache, self).incr(key, delta, version), alone))

    def get(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        return self._ask(
            lambda: super(LimitCache, self).get(key, default, version), lambda local: local.get(key, default, version)
        )

    def set(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> None:
        self._ask(
            lambda: super(LimitCache, self).set(key, value, timeout, version),
            lambda local: local.set(key, value, timeout, version),
        )

    def delete(self, key: Any, version: int | None = None) -> bool:
        """Delete it here too: what this process noted while Redis was away must not come back at the next time."""
        was_local = bool(caches["local"].delete(key, version))
        return self._ask(lambda: bool(super(LimitCache, self).delete(key, version)), lambda local: was_local)
