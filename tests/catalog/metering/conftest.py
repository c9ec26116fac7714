"""Where limits count: in the memory of the test's process, and in a Redis of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import caches

from tests.catalog.metering.redis_limits import LimitsRedis, counting_in_redis


@pytest.fixture
def redis(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[LimitsRedis]:
    with counting_in_redis(settings, monkeypatch) as server:
        yield server


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.redis)])
def counter(request: pytest.FixtureRequest) -> None:
    """Counted in the memory of this process, and in Redis."""
    if request.param == "redis":
        request.getfixturevalue("redis")
    caches["limits"].clear()
