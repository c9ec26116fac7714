"""Look-ups of names: no name, domain or machine that does not answer keeps the others waiting."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from tests.polling import wait_until_async
from toolhub import egress
from toolhub.egress import names
from toolhub.egress.names import NameResolver

LONG_SECONDS = 60.0
HOUR = 3600.0


class Dns:
    """A system resolver: names below `hanging.test` get no answer before `release`; `answers` can be changed."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.answers: dict[str, Sequence[str]] = {}
        self.release = threading.Event()
        self.now = 0.0

    def look_up(self, host: str) -> Sequence[str]:
        self.asked[host] += 1
        if host.endswith("hanging.test"):
            self.release.wait(LONG_SECONDS)
        if host not in self.answers:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return self.answers[host]

    def clock(self) -> float:
        return self.now


@pytest.fixture
def dns() -> Iterator[Dns]:
    made = Dns()
    yield made
    made.release.set()


def make(dns: Dns, seconds: float = LONG_SECONDS) -> NameResolver:
    return NameResolver(dns.look_up, seconds=seconds)


def start_all(resolver: NameResolver, hosts: Sequence[str]) -> list[asyncio.Task[Sequence[str]]]:
    return [asyncio.create_task(resolver.resolve(host, 443)) for host in hosts]


async def end(tasks: Sequence[asyncio.Task[Sequence[str]]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_machine_resolves_names_with_its_hosts_file() -> None:
    assert {"127.0.0.1", "::1"} & set(await NameResolver().resolve("localhost"))
    assert await NameResolver().resolve("192.0.2.7") == ("192.0.2.7",)
    assert await NameResolver().resolve("x" * 70 + ".test") == ()


async def test_a_name_without_an_answer_takes_one_thread_however_many_ask(dns: Dns) -> None:
    resolver = make(dns)
    dns.answers = {"hanging.test": ["192.0.2.1"], "quick.test": ["192.0.2.2"]}
    tasks = start_all(resolver, ["hanging.test", "HANGING.test"] * 100)
    await wait_until_async(lambda: dns.asked["hanging.test"] == 1)
    assert await resolver.resolve("quick.test", 443) == ["192.0.2.2"]
    assert resolver.running == 1
    dns.release.set()
    assert await asyncio.gather(*tasks) == [["192.0.2.1"]] * 200
    assert dns.asked["hanging.test"] == 1


async def test_a_domain_without_answers_takes_its_share_and_the_others_pass(dns: Dns) -> None:
    resolver = make(dns)
    dns.answers = {"quick.test": ["192.0.2.2"]}
    tasks = start_all(resolver, [f"n{number}.hanging.test" for number in range(100)])
    await wait_until_async(lambda: resolver.running == names.MAX_LOOKUPS_PER_DOMAIN)
    assert await resolver.resolve("quick.test", 443) == ["192.0.2.2"]
    assert resolver.running == names.MAX_LOOKUPS_PER_DOMAIN
    dns.release.set()
    assert await asyncio.gather(*tasks) == [()] * 100, "those that waited had their turn"


async def test_threads_are_bounded_and_a_freed_one_goes_to_the_name_that_waited(
    dns: Dns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "MAX_LOOKUPS", 3)
    resolver = make(dns)
    dns.answers = {"quick.test": ["192.0.2.2"]}
    tasks = start_all(resolver, [f"d{number}-hanging.test" for number in range(5)])  # a domain each
    await wait_until_async(lambda: resolver.running == 3)
    waiting = start_all(resolver, ["quick.test"])
    await wait_until_async(lambda: len(resolver._waiting) == 3)
    assert dns.asked["quick.test"] == 0
    dns.release.set()
    assert await waiting[0] == ["192.0.2.2"]
    await asyncio.gather(*tasks)


async def test_slow_look_ups_give_their_places_to_others_until_all_threads_are_taken(
    dns: Dns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "MAX_LOOKUPS", 2)
    monkeypatch.setattr(names, "MAX_THREADS", 4)
    monkeypatch.setattr(names, "SLOW_SECONDS", 0.05)
    resolver = make(dns)
    dns.answers = {"quick.test": ["192.0.2.2"], "quick2.test": ["192.0.2.3"]}
    tasks = start_all(resolver, ["a-hanging.test", "b-hanging.test"])
    await wait_until_async(lambda: resolver.running == 2)
    assert await resolver.resolve("quick.test") == ["192.0.2.2"]
    tasks += start_all(resolver, [f"{name}-hanging.test" for name in "cdef"])
    await wait_until_async(lambda: resolver.running == 4)
    waiting = start_all(resolver, ["quick2.test"])
    await wait_until_async(lambda: len(resolver._waiting) == 3)
    await wait_until_async(lambda: all(one.slow_at <= resolver._clock() for one in resolver._started))
    assert (dns.asked["quick2.test"], resolver.running) == (0, 4)
    dns.release.set()
    assert await waiting[0] == ["192.0.2.3"]
    await asyncio.gather(*tasks)
    assert not resolver._started


async def test_names_that_wait_are_bounded(dns: Dns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "MAX_LOOKUPS", 1)
    monkeypatch.setattr(names, "MAX_WAITING", 2)
    resolver = make(dns)
    tasks = start_all(resolver, ["a.hanging.test"])
    await wait_until_async(lambda: resolver.running == 1)
    tasks += start_all(resolver, ["b.test", "c.test"])
    await wait_until_async(lambda: len(resolver._waiting) == 2)
    with pytest.raises(egress.Unreachable, match="too many"):
        await resolver.resolve("d.test")
    await end(tasks[1:])
    assert not resolver._waiting, "whoever stops waiting frees the place"
    await end(tasks)


async def test_a_look_up_has_a_deadline_and_one_that_hangs_on_fails_at_once(dns: Dns) -> None:
    resolver = make(dns, seconds=0.1)
    for _ in range(3):
        with pytest.raises(egress.DeadlineExceeded, match=r"hanging\.test was not found within 0\.1 seconds"):
            await resolver.resolve("hanging.test")
    assert (dns.asked["hanging.test"], resolver.running) == (1, 1)
    dns.answers = {"hanging.test": ["192.0.2.1"]}
    dns.release.set()
    await wait_until_async(lambda: resolver.running == 0)
    assert await resolver.resolve("hanging.test") == ["192.0.2.1"], "the late answer is good for the next request"


async def test_the_wait_for_a_thread_counts_and_a_name_that_never_got_one_is_not_looked_up(
    dns: Dns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "MAX_LOOKUPS", 1)
    resolver = make(dns, seconds=0.1)
    for host in ("hanging.test", "quick.test"):
        with pytest.raises(egress.DeadlineExceeded):
            await resolver.resolve(host)
    dns.release.set()
    await wait_until_async(lambda: resolver.running == 0)
    assert dns.asked == {"hanging.test": 1}


async def test_cancelling_one_who_asks_leaves_the_others_their_answer(dns: Dns) -> None:
    resolver = make(dns)
    dns.answers = {"hanging.test": ["192.0.2.1"]}
    first, second = start_all(resolver, ["hanging.test"] * 2)
    await wait_until_async(lambda: resolver.running == 1)
    await end([first])
    dns.release.set()
    assert await second == ["192.0.2.1"]


async def test_answers_are_kept_for_a_short_time_and_failures_for_a_shorter_one(dns: Dns) -> None:
    resolver = NameResolver(dns.look_up, keep_seconds=30, keep_failure_seconds=5, clock=dns.clock)
    dns.answers = {"known.test": ["192.0.2.1"]}
    for moment, known, unknown in ((0, 1, 1), (4.9, 1, 1), (5, 1, 2), (29.9, 1, 3), (30, 2, 3)):
        dns.now = moment
        assert await resolver.resolve("known.test", int(moment)) == ["192.0.2.1"]
        assert await resolver.resolve("unknown.test") == ()
        assert (dns.asked["known.test"], dns.asked["unknown.test"]) == (known, unknown), moment
    dns.answers = {"unknown.test": ["192.0.2.9"]}
    dns.now = HOUR
    assert (await resolver.resolve("known.test"), await resolver.resolve("unknown.test")) == ((), ["192.0.2.9"])


async def test_the_memory_is_bounded(dns: Dns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "MAX_KEPT", 10)
    resolver = make(dns)
    for number in range(30):
        await resolver.resolve(f"n{number}.test")
    assert len(resolver._kept) == 10
    await resolver.resolve("n29.test")
    await resolver.resolve("n0.test")
    assert (dns.asked["n29.test"], dns.asked["n0.test"]) == (1, 2)


def test_one_resolver_serves_the_loops_of_several_threads(dns: Dns) -> None:
    resolver = make(dns)
    dns.answers = {"hanging.test": ["192.0.2.1"]}
    found: list[Sequence[str]] = []
    threads = [
        threading.Thread(target=lambda: found.append(asyncio.run(resolver.resolve("hanging.test")))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    with pytest.raises(egress.DeadlineExceeded):
        asyncio.run(NameResolver(dns.look_up, seconds=0.05).resolve("hanging.test"))  # a loop that is closed by then
    dns.release.set()
    for thread in threads:
        thread.join(LONG_SECONDS)
    assert found == [["192.0.2.1"]] * 4


async def test_a_remembered_address_is_checked_for_each_request_and_for_its_own_networks(dns: Dns) -> None:
    """P8: neither DNS nor the memory can lead a request to an address that its own list does not allow."""
    server = await asyncio.start_server(answer_hello, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    resolver = NameResolver(dns.look_up, keep_seconds=30, clock=dns.clock)
    dns.answers = {"inside.test": ["127.0.0.1"]}

    async def fetch(*allowed: str) -> egress.Reply:
        return await egress.fetch(
            "GET",
            f"http://inside.test:{port}/",
            timeout=LONG_SECONDS,
            max_bytes=100,
            resolver=resolver.resolve,
            allowed=egress.parse_allowed(allowed),
        )

    assert (await fetch("127.0.0.0/8")).body == b"hello"
    for allowed in ((), (f"127.0.0.0/8:{port % 65535 + 1}",), ("10.0.0.0/8",)):
        with pytest.raises(egress.DeniedAddress):
            await fetch(*allowed)
    assert dns.asked["inside.test"] == 1
    # Pinned while remembered; checked anew when DNS says something else.
    dns.answers = {"inside.test": ["10.0.0.1"]}
    assert (await fetch("127.0.0.0/8")).body == b"hello"
    dns.now = 31
    with pytest.raises(egress.DeniedAddress):
        await fetch("127.0.0.0/8")
    server.close()


async def answer_hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
    await writer.drain()
    writer.close()
