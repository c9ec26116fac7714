"""The cache that limits count in when Redis is configured: Redis, or this process alone while Redis is unavailable.

A failing Redis is asked again after five seconds, so that calls do not wait for a time-out each; the log says once a
minute that every process counts for itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

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


class LimitCache(RedisCache):
    """A cache with `add`, `incr` and `get`, which is all that django-ratelimit uses, with the local fallback."""

    def _query(self, question: Callable[[], Any], otherwise: Callable[[Any], Any]) -> Any:
        health = parts.get(RedisHealth)
        try:
            probe = health.breaker.enter()
        except CircuitOpen:
            return otherwise(caches["local"])
        try:
            answer = question()
        except (RedisError, OSError) as error:
            health.report_failure(error)
            return otherwise(caches["local"])
        except BaseException:
            health.breaker.release_probe(probe)
            raise
        health.report_success()
        return answer

    def add(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        return bool(
            self._query(
                lambda: super(LimitCache, self).add(key, value, timeout, version),
                lambda local: local.add(key, value, timeout, version),
            )
        )

    def incr(self, key: Any, delta: int = 1, version: int | None = None) -> int:
        def alone(local: Any) -> int:
            # Redis may have become unavailable between the add and this: then the counter starts here.
            return delta if local.add(key, delta, LOCAL_TTL_SECONDS, version) else local.incr(key, delta, version)

        return int(self._query(lambda: super(LimitCache, self).incr(key, delta, version), alone))

    def get(self, key: Any, default: Any = None, version: int | None = None) -> Any:
        return self._query(
            lambda: super(LimitCache, self).get(key, default, version), lambda local: local.get(key, default, version)
        )
