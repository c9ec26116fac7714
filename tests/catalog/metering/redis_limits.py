"""A Redis for the limits of one test, which can be away or hang."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.core.cache import caches
from redis import Redis as Client

from catalog.metering.limit_cache import LimitThreads, RedisHealth
from tests.process import replace_part
from tests.real_servers import Redis

THREADS = 4


class LimitsRedis:
    """The server, and what is in it."""

    def __init__(self, server: Redis) -> None:
        self.server = server
        self.url = server.url

    def start(self) -> None:
        self.server.start()

    def stop(self) -> None:
        self.server.stop()

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """It accepts what it is sent, and answers nothing."""
        assert self.server.process is not None
        os.kill(self.server.process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.server.process.pid, signal.SIGCONT)

    def count_places(self) -> int:
        """The members of all sets of places, expired ones as well."""
        with self._client() as client:
            return sum(client.zcard(key) for key in client.scan_iter("*:running *"))

    def count_commands(self, name: str) -> int:
        """How often it has executed this command since it started."""
        with self._client() as client:
            found: Any = client.info("commandstats").get(f"cmdstat_{name}")
        return 0 if found is None else int(found["calls"])

    def answer_again(self) -> None:
        """Let this process ask it at once, and not only after the pause for a server that has failed."""
        from toolhub.parts import parts

        breaker = parts.get(RedisHealth).breaker
        if breaker.is_open:
            breaker.opened_until = 1e-9

    def _client(self) -> Client:
        return Client.from_url(self.url)


@contextmanager
def counting_in_redis(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[LimitsRedis]:
    """This process counts limits in a Redis of its own, which has started."""
    folder = Path(tempfile.mkdtemp(prefix="thub-"))
    server = LimitsRedis(Redis(folder / "redis"))
    server.start()
    replace_part(monkeypatch, RedisHealth())
    threads = replace_part(monkeypatch, LimitThreads())
    settings.REDIS_URL = server.url
    limits = {
        "BACKEND": "catalog.metering.limit_cache.LimitCache",
        "LOCATION": server.url,
        "KEY_PREFIX": "toolhub:limits",
        "OPTIONS": {"socket_timeout": 2.0, "socket_connect_timeout": 2.0},
    }
    settings.CACHES = {**settings.CACHES, "limits": limits}
    caches["local"].clear()
    try:
        yield server
    finally:
        _hang_up_all(threads)
        hang_up()
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _hang_up_all(threads: LimitThreads) -> None:
    """Close the connections of each of these threads, and end them."""
    if not threads.executor._shutdown:
        together = threading.Barrier(THREADS)

        def work() -> None:
            together.wait(60)
            hang_up()

        for waiting in [threads.executor.submit(work) for _ in range(THREADS)]:
            waiting.result(60)
        threads.executor.shutdown()


def hang_up() -> None:
    """Close this thread's connections to Redis: sockets left to the garbage collector fail whatever test it meets."""
    cache: Any = caches["limits"]
    for pool in cache._cache._pools.values():
        pool.disconnect()
