"""One attacker does not stop the others: a short form of every attack, with 1,024 descriptors; `tests.bench.attacks` is
the long one, with times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.e2e import attacks, seed
from tests.e2e.attacks import ATTACKS, FEW, Canary, SmallHub, Target
from tests.polling import wait_until_async

SECONDS = 1.5
CONNECTIONS = 300
"""More than one address may have."""
MAX_GROWTH_BYTES = 150_000_000
ATTACKER, ALICE = "198.51.100.66", "203.0.113.5"
ENV = {"TOOLHUB_TOOL_MODULES": "tests.e2e.functions,tests.e2e.large_tools", "TOOLHUB_SLOW_READER_SECONDS": "10"}
FEW_PLACES = {"TOOLHUB_MAX_CONNECTIONS": "200", "TOOLHUB_MAX_CONNECTIONS_PER_ADDRESS": "60"}
"""A proxy's own address has no limit, so that all connections together come to the total."""
CROWDS = ["second header drip", "idle WebSockets", "calls as fast as possible", "pages that do not exist"]
EVERYWHERE = ["header drip", "silent connections", "unfinished large bodies without a token", "body drip to a page"]


@pytest.fixture(scope="module")
def hub() -> Iterator[SmallHub]:
    with SmallHub(env=ENV, seed=seed.seed_attacked) as running:
        yield running


@pytest.fixture(scope="module")
def hub_behind_a_proxy() -> Iterator[SmallHub]:
    env = {**ENV, **FEW_PLACES, "TOOLHUB_TRUSTED_PROXIES": "127.0.0.1"}
    with SmallHub(env=env, seed=seed.seed_attacked) as running:
        yield running


@pytest.fixture(scope="module")
def two_workers() -> Iterator[SmallHub]:
    with SmallHub(env=ENV, seed=seed.seed_attacked, workers=2, postgres=True, redis=True) as running:
        yield running


async def survive(hub: SmallHub, name: str, attacker: Target, honest: Target) -> None:
    warm = Canary(honest)
    await warm.run(0.2)
    before, descriptors = hub.memory(), hub.descriptors()
    canary, most = Canary(honest), dict(descriptors)
    async with attacks.running(name, attacker, FEW.get(name, CONNECTIONS)):
        await canary.run(SECONDS)
        for pid, count in hub.descriptors().items():
            most[pid] = count
        grown = {pid: count - before[pid] for pid, count in hub.memory().items()}
    assert not canary.failures
    assert canary.seconds and canary.probe_seconds
    assert max(most.values()) < attacks.DESCRIPTORS - 64, most
    assert max(grown.values()) < MAX_GROWTH_BYTES, grown
    await wait_until_async(lambda: is_as_before(hub, descriptors), what="descriptors that are given back")


def is_as_before(hub: SmallHub, before: dict[int, int]) -> bool:
    # A few files that the server opens when it first needs them.
    return all(count <= before[pid] + 8 for pid, count in hub.descriptors().items())


@pytest.mark.parametrize("name", ATTACKS)
async def test_an_attack_stops_nobody_else(hub: SmallHub, name: str) -> None:
    attacker = Target(hub.port, hub.seeded["bob"], sender="127.0.0.66")
    await survive(hub, name, attacker, Target(hub.port, hub.seeded["alice"]))


@pytest.mark.parametrize("name", ["header drip", "silent connections"])
async def test_an_attack_from_the_same_address_stops_nobody_else(hub: SmallHub, name: str) -> None:
    await survive(hub, name, Target(hub.port, hub.seeded["bob"]), Target(hub.port, hub.seeded["alice"]))


@pytest.mark.parametrize("name", [*EVERYWHERE, *CROWDS])
async def test_an_attack_through_a_proxy_stops_nobody_else(hub_behind_a_proxy: SmallHub, name: str) -> None:
    hub = hub_behind_a_proxy
    attacker = Target(hub.port, hub.seeded["bob"], forwarded_for=ATTACKER)
    await survive(hub, name, attacker, Target(hub.port, hub.seeded["alice"], forwarded_for=ALICE))


@pytest.mark.parametrize("name", EVERYWHERE)
async def test_an_attack_on_two_workers_stops_nobody_else(two_workers: SmallHub, name: str) -> None:
    hub = two_workers
    attacker = Target(hub.port, hub.seeded["bob"], sender="127.0.0.66")
    await survive(hub, name, attacker, Target(hub.port, hub.seeded["alice"]))


async def test_the_log_says_once_what_was_done_about_an_attacker(hub: SmallHub) -> None:
    async with attacks.running("silent connections", Target(hub.port, "", sender="127.0.0.77"), CONNECTIONS):
        await wait_until_async(lambda: "by 127.0.0.77" in hub.log())
        await asyncio.sleep(0.5)
    assert hub.log().count("Limit reached by 127.0.0.77: ") == 1
