"""Counting failures: with Redis away guessing stays slow, and a bad rate is named before anything starts."""

from __future__ import annotations

import secrets
import socket
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from catalog.metering import limit_cache
from tests.process import replace_part
from tests.real_servers import Redis
from toolhub import env
from toolhub.access import throttle


@pytest.mark.parametrize("value", ["60", "60/", "/m", "60/w", "sixty/m", "60/0m", "-1/m", "60/m/m", "0/m"])
def test_an_invalid_rate_is_named(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLHUB_BAD_TOKENS_RATE", value)
    with pytest.raises(ImproperlyConfigured, match="TOOLHUB_BAD_TOKENS_RATE must be a rate"):
        env.rate("TOOLHUB_BAD_TOKENS_RATE", "60/m")


@pytest.mark.parametrize("value", ["60/m", "100/10s", "1/d"])
def test_a_rate_is_taken(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLHUB_BAD_TOKENS_RATE", value)
    assert env.rate("TOOLHUB_BAD_TOKENS_RATE", "60/m") == value


def test_reading_a_count_does_not_change_it_and_each_key_has_its_own() -> None:
    key, other = secrets.token_hex(), secrets.token_hex()
    assert [throttle.wait_seconds("test", key, "2/d", count=False) for _ in range(5)] == [0] * 5
    assert throttle.wait_seconds("test", key, "2/d", count=True) == 0
    assert throttle.wait_seconds("test", key, "2/d", count=True) > 0
    assert throttle.wait_seconds("test", key, "2/d", count=False) > 0
    assert throttle.wait_seconds("test", other, "2/d", count=False) == 0
    assert throttle.wait_seconds("other", key, "2/d", count=False) == 0


def test_while_redis_is_away_this_process_counts(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # Its own: for five seconds the one of the process would keep every other test away from its Redis.
    replace_part(monkeypatch, limit_cache.RedisHealth())
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = f"redis://127.0.0.1:{taken.getsockname()[1]}/0"
        settings.CACHES = {
            **settings.CACHES,
            "limits": {
                "BACKEND": "catalog.metering.limit_cache.LimitCache",
                "LOCATION": nobody,
                "OPTIONS": {"socket_timeout": 2},
            },
        }
        key = secrets.token_hex()
        assert throttle.wait_seconds("test", key, "2/d", count=True) == 0
        assert throttle.wait_seconds("test", key, "2/d", count=True) > 0


@pytest.mark.redis
def test_in_redis_too_guesses_at_once_are_bounded_and_a_right_one_is_given_back(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_part(monkeypatch, limit_cache.RedisHealth())
    with tempfile.TemporaryDirectory(prefix="thub-") as folder:
        redis = Redis(Path(folder) / "redis")
        redis.start()
        try:
            limits = {"BACKEND": "catalog.metering.limit_cache.LimitCache", "LOCATION": redis.url}
            settings.CACHES = {**settings.CACHES, "limits": limits}
            counters = [throttle.Counter("test", secrets.token_hex(), "5/300d")]
            with ThreadPoolExecutor(10) as pool:
                guesses = list(pool.map(lambda _: throttle.reserve(counters), range(30)))
            made = [guess for guess in guesses if not guess.seconds]
            assert 1 <= len(made) <= 5
            for guess in made:
                guess.give_back()
            again = [throttle.reserve(counters) for _ in range(6)]
            assert [bool(guess.seconds) for guess in again] == [False] * 5 + [True]
        finally:
            redis.stop()
