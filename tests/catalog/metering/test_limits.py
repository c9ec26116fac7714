"""How often: exactly as many as the rate says, whose calls are counted together, and what happens without Redis."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.core.cache import caches
from django.core.cache.backends.redis import RedisCache
from redis import Redis
from redis.exceptions import ConnectionError as RedisAway

from catalog.metering import limit_cache, limits
from catalog.metering.limits import Attempt
from catalog.policy import messages
from catalog.policy.definitions import ToolDefinition
from tests import factories
from tests.conftest import missing
from tests.process import replace_part
from toolhub.parts import parts

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _fresh_counters() -> None:
    caches["limits"].clear()
    caches["local"].clear()


class Shop:
    """Takes calls for a tool of the catalogue as it is now."""

    def __init__(self) -> None:
        self.snapshot = factories.load()

    def tool(self, name: str = "calculate_sum") -> ToolDefinition:
        return self.snapshot.tools[name]

    def attempt(self, user: User, name: str = "calculate_sum") -> Attempt:
        return Attempt(self.snapshot, self.tool(name), factories.credential(user))

    def admitted(self, user: User, tries: int, name: str = "calculate_sum") -> int:
        admitted = 0
        for _ in range(tries):
            try:
                limits.take(self.attempt(user, name))
            except limits.LimitReached:
                continue
            admitted += 1
        return admitted


def test_the_call_beyond_the_limit_is_refused_with_the_limit_and_the_seconds(alice: User) -> None:
    limit = factories.limit("3/d", factories.make_tool())
    shop = Shop()
    assert shop.admitted(alice, 3) == 3
    with pytest.raises(limits.LimitReached) as caught:
        limits.take(shop.attempt(alice))
    assert caught.value.rule.english == f"Limit {limit.pk}: 3/d on tool calculate_sum for each user"
    assert 1 <= caught.value.seconds <= 86_400


def test_two_hundred_tries_at_once_admit_exactly_twenty(alice: User) -> None:
    factories.limit("20/d", factories.make_tool())
    shop, start = Shop(), threading.Barrier(20)
    admitted: list[int] = []

    def caller() -> None:
        start.wait(30)
        admitted.append(shop.admitted(alice, 10))

    threads = [threading.Thread(target=caller) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sum(admitted) == 20


def test_each_scope_counts_the_calls_it_says(alice: User, bob: User, charlie: User) -> None:
    group = factories.make_group("analysts", [alice, bob])
    for name in ("one", "each", "member", "together", "free"):
        factories.make_tool(name)
    tools = {tool.name: tool for tool in type(factories.make_tool("x")).objects.all()}
    factories.limit("2/d", tools["one"], user=alice)
    factories.limit("2/d", tools["each"])
    factories.limit("2/d", tools["member"], group=group)
    factories.limit("2/d", tools["together"], scope="everyone_together")
    shop = Shop()
    people = (alice, bob, charlie)
    assert [shop.admitted(user, 3, "one") for user in people] == [2, 3, 3]
    assert [shop.admitted(user, 3, "each") for user in people] == [2, 2, 2]
    assert [shop.admitted(user, 3, "member") for user in people] == [2, 2, 3]
    assert [shop.admitted(user, 3, "together") for user in people] == [2, 0, 0]
    assert [shop.admitted(user, 3, "free") for user in people] == [3, 3, 3]


def test_the_tools_of_a_set_and_all_tools_share_one_limit(alice: User, bob: User) -> None:
    factories.make_tool("one", toolset="Files")
    factories.make_tool("two", toolset="Files")
    factories.make_tool("other")
    factories.limit("3/d", factories.make_toolset("Files"), user=alice)
    factories.limit("4/d", user=bob)
    shop = Shop()
    assert shop.admitted(alice, 2, "one") + shop.admitted(alice, 2, "two") == 3
    assert shop.admitted(alice, 5, "other") == 5
    assert shop.admitted(bob, 3, "one") + shop.admitted(bob, 3, "other") == 4


def test_a_limit_of_a_method_counts_its_requests_alone(alice: User, bob: User) -> None:
    factories.make_tool()
    factories.limit("2/d", "tools/list")
    row = factories.limit("1/d", "resources/read", user=bob)
    shop = Shop()
    assert shop.admitted(alice, 5) == 5, "no limit of the tool"

    async def admitted(user: User, method: str) -> int:
        count = 0
        for _ in range(4):
            try:
                await limits.atake_method(shop.snapshot, method, factories.credential(user))
            except limits.LimitReached:
                continue
            count += 1
        return count

    for user, method, expected in (
        (alice, "tools/list", 2),
        (bob, "tools/list", 2),
        (alice, "resources/read", 4),
        (bob, "resources/read", 1),
        (bob, "prompts/list", 4),
    ):
        assert asyncio.run(admitted(user, method)) == expected, (user, method)
    listed = limits.list_rules_for(factories.credential(bob))
    assert [rule.rule.english for rule in listed] == [
        "Limit 1: 2/d on method tools/list for each user".replace("1", str(row.pk - 1), 1),
        f"Limit {row.pk}: 1/d on method resources/read for user bob",
    ]
    assert [str(row), messages.name_row(row)] == [
        f"Limit {row.pk}: 1/d on method resources/read for user bob",
        f"Limit {row.pk}: 1/d on method resources/read for user bob",
    ]


def test_of_several_limits_the_tightest_answers_and_the_others_keep_what_they_have(alice: User) -> None:
    tool = factories.make_tool()
    factories.limit("10/d", tool)
    tight = factories.limit("2/d", tool, user=alice)
    shop = Shop()
    assert shop.admitted(alice, 8) == 2
    left = limits.remaining_for(factories.credential(alice), shop.tool())
    assert [(entry.left, entry.limit) for entry in left] == [(0, 2), (8, 10)]
    assert left[0].rule.english == str(tight)


def test_reading_the_remaining_calls_does_not_count(alice: User) -> None:
    factories.limit("2/d", factories.make_tool())
    shop = Shop()
    for _ in range(5):
        (left,) = limits.remaining_for(factories.credential(alice), shop.tool())
        assert left.left == 2
    assert shop.admitted(alice, 3) == 2


def test_a_rate_of_none_admits_nobody(alice: User) -> None:
    factories.limit("0/m", factories.make_tool())
    assert Shop().admitted(alice, 2) == 0


@pytest.mark.django_db(transaction=True)
async def test_on_the_event_loop_the_answer_is_the_same(alice: User) -> None:
    from asgiref.sync import sync_to_async

    await sync_to_async(lambda: factories.limit("1/d", factories.make_tool()))()
    shop = await sync_to_async(Shop)()
    await limits.atake(shop.attempt(alice))
    with pytest.raises(limits.LimitReached):
        await limits.atake(shop.attempt(alice))


@pytest.mark.redis
def test_in_redis_too_two_hundred_tries_at_once_admit_exactly_twenty(
    alice: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = os.environ.get("TOOLHUB_TEST_REDIS", "redis://127.0.0.1:6379")
    try:
        with Redis.from_url(address, socket_connect_timeout=30) as asked:
            asked.ping()
    except RedisAway as error:
        missing("redis", f"no server at {address}: {error}")
    # Not the one of the process, which an earlier test may have left open for seconds.
    replace_part(monkeypatch, limit_cache.RedisHealth())
    limit_cache_settings = {
        "BACKEND": "catalog.metering.limit_cache.LimitCache",
        "LOCATION": address,
        "KEY_PREFIX": uuid4().hex,
    }
    settings.CACHES = {**settings.CACHES, "limits": limit_cache_settings}
    factories.limit("20/d", factories.make_tool())
    shop, start = Shop(), threading.Barrier(20)
    admitted: list[int] = []

    def caller() -> None:
        start.wait(30)
        try:
            admitted.append(shop.admitted(alice, 10))
        finally:
            _hang_up()

    threads = [threading.Thread(target=caller) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sum(admitted) == 20
    caches["local"].clear()
    try:
        (left,) = limits.remaining_for(factories.credential(alice), shop.tool())
    finally:
        _hang_up()
    assert left.left == 0


def _hang_up() -> None:
    """Close this thread's connections to Redis: sockets left to the garbage collector fail whatever test it meets."""
    for pool in caches["limits"]._cache._pools.values():  # type: ignore[attr-defined]
        pool.disconnect()


class TestWithoutRedis:
    """Redis is configured and does not answer."""

    @pytest.fixture
    def away(self, settings: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        asked: list[str] = []

        def fail(name: str) -> Any:
            def call(*args: Any, **kwargs: Any) -> Any:
                asked.append(name)
                raise RedisAway("gone")

            return call

        for name in ("add", "incr", "get"):
            monkeypatch.setattr(RedisCache, name, fail(name))
        replace_part(monkeypatch, limit_cache.RedisHealth())
        settings.CACHES = {
            **settings.CACHES,
            "limits": {"BACKEND": "catalog.metering.limit_cache.LimitCache", "LOCATION": "redis://127.0.0.1:1/0"},
        }
        return asked

    def test_this_process_counts_alone_and_asks_redis_once(
        self, alice: User, away: list[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        factories.limit("3/d", factories.make_tool())
        shop = Shop()
        assert shop.admitted(alice, 9) == 3
        assert len(away) == 1
        assert [record.message for record in caplog.records if "counts limits for itself" in record.message] == [
            "Redis does not answer (ConnectionError): every process counts limits for itself until it does."
        ]

    def test_when_redis_answers_again_it_is_asked_again(
        self, alice: User, away: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        factories.limit("3/d", factories.make_tool())
        shop = Shop()
        assert shop.admitted(alice, 1) == 1
        monkeypatch.setattr(RedisCache, "add", lambda *args, **kwargs: True)
        parts.get(limit_cache.RedisHealth).breaker.opened_until = 1e-9
        assert shop.admitted(alice, 1) == 1
        assert any("Redis answers again" in record.message for record in caplog.records)
