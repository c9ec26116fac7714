"""Who may have one more connection, which one makes room for it, and what the log says about it."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from ipaddress import ip_network
from math import inf
from time import monotonic

import pytest

from toolhub import refusals
from toolhub.client_address import TrustedProxies
from toolhub.edge.connections import MAX_OVER_LIMIT, Connections, Phase
from toolhub.edge.limits import Limits

ALICE, BOB, PROXY = "203.0.113.5", "198.51.100.7", "10.0.0.2"


@dataclass(eq=False)
class Fake:
    """A connection, as far as the table knows one."""

    phase: Phase = Phase.FRESH
    waiting_since: float = 0.0
    stalled_since: float = 0.0
    address: str = ""
    is_proxy: bool = False
    groups: tuple[str, ...] = ()
    client: str = ""
    user_id: int | None = None
    since: float = 0.0
    over_limit: str = ""
    due: float = inf
    evicted: bool = False
    begun: bool = False
    unread: bool = False
    refusals: refusals.Refusals = field(default_factory=refusals.Refusals)
    seen: list[float] = field(default_factory=list)

    @property
    def source(self) -> str:
        return self.client or self.address

    def refuse(self, reason: str) -> None:
        self.refusals.add(reason, self.source)

    def has_unread(self) -> bool:
        return self.unread

    def evict(self) -> None:
        self.evicted = True

    def begin(self) -> None:
        self.begun = True

    def on_due(self, now: float) -> None:
        self.seen.append(now)

    def check_reader(self, now: float) -> None:
        self.seen.append(-now)


@pytest.fixture
def table() -> Connections:
    return Connections(
        Limits(max_connections=6, max_connections_per_address=3, max_held_bytes=1000),
        TrustedProxies([ip_network("10.0.0.0/8")]),
    )


def add(table: Connections, peer: str, phase: Phase = Phase.FRESH, since: float = 0.0) -> Fake:
    connection = Fake(waiting_since=since, refusals=table.refusals)
    table.add(connection, peer)
    if phase is not Phase.FRESH:
        table.on_headers(connection)
        connection.phase = phase
    return connection


def test_the_oldest_connection_that_asked_nothing_makes_room_at_its_address(table: Connections) -> None:
    first, second, third = (add(table, ALICE, since=n) for n in range(3))
    fourth = add(table, ALICE, since=3)
    assert (first.evicted, second.evicted, third.evicted) == (True, False, False)
    assert not fourth.over_limit and len(table.open) == 3


def test_a_busy_connection_is_never_closed_for_a_new_one_which_may_only_probe(table: Connections) -> None:
    busy = [add(table, ALICE, phase) for phase in (Phase.ANSWERING, Phase.UPGRADED, Phase.ANSWERING)]
    late = add(table, ALICE)
    assert late.over_limit == "per_address"
    assert not any(one.evicted for one in busy)
    assert add(table, BOB).over_limit == "", "another address has its own limit"


@pytest.mark.parametrize("peers", [[ALICE] * 3, [f"192.0.2.{number}" for number in range(6)]], ids=["one", "all"])
def test_a_connection_that_may_only_probe_leaves_no_place_to_the_next_one(table: Connections, peers: list[str]) -> None:
    for peer in peers:
        add(table, peer, Phase.UPGRADED)
    late = [add(table, ALICE) for _ in range(5)]
    assert all(one.over_limit for one in late) and not any(one.evicted for one in late)
    table.remove(next(iter(table.open)))
    assert not add(table, peers[0]).over_limit


@pytest.mark.parametrize("phase", [Phase.CLOSING, Phase.IDLE, Phase.HEADERS, Phase.BODY])
def test_what_waits_for_its_client_makes_room_when_nothing_is_fresh(table: Connections, phase: Phase) -> None:
    add(table, ALICE, Phase.ANSWERING)
    younger, older = add(table, ALICE, phase, since=2), add(table, ALICE, phase, since=1)
    assert not add(table, ALICE).over_limit
    assert older.evicted and not younger.evicted


def test_what_costs_least_goes_first(table: Connections) -> None:
    kept = add(table, ALICE, Phase.BODY, since=0)
    closed = add(table, ALICE, Phase.IDLE, since=5)
    fresh = add(table, ALICE, since=9)
    add(table, ALICE, Phase.ANSWERING)
    assert (fresh.evicted, closed.evicted, kept.evicted) == (True, False, False)
    add(table, ALICE, Phase.ANSWERING)
    assert (closed.evicted, kept.evicted) == (True, False)


def test_an_idle_connection_and_a_request_that_was_arriving_are_counted_apart(table: Connections) -> None:
    for phase in (Phase.IDLE, Phase.BODY, Phase.ANSWERING):
        add(table, ALICE, phase)
    add(table, ALICE, Phase.ANSWERING)
    add(table, ALICE, Phase.ANSWERING)
    assert table.refusals.counts == {"evicted": 1, "evicted_busy": 1}


def test_only_so_many_new_connections_of_a_busy_address_may_come(table: Connections) -> None:
    for _ in range(3):
        add(table, ALICE, Phase.UPGRADED)
    came = [table.may_come(ALICE) for _ in range(2 * MAX_OVER_LIMIT)]
    assert came[:MAX_OVER_LIMIT] == [True] * MAX_OVER_LIMIT and not all(came)
    assert table.refusals.counts["per_address"] == came.count(False)
    assert table.may_come(BOB)


def test_silent_connections_keep_none_of_their_address_out(table: Connections) -> None:
    for _ in range(3):
        add(table, ALICE)
    assert all(table.may_come(ALICE) for _ in range(2 * MAX_OVER_LIMIT))


def test_any_number_may_come_while_there_is_room_and_through_a_proxy(table: Connections) -> None:
    for _ in range(2):
        add(table, ALICE, Phase.UPGRADED)
    for _ in range(6):
        add(table, PROXY, Phase.UPGRADED)
    assert all(table.may_come(peer) for peer in (ALICE, PROXY) for _ in range(2 * MAX_OVER_LIMIT))


async def test_requests_that_wait_for_the_rate_begin_in_order_and_make_room_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = Connections(Limits(max_connections=9, max_connections_per_address=3, connections_per_second=0.001))
    for _ in range(3):
        served = add(table, ALICE)
        assert table.may_begin(served)
        table.remove(served)
    silent = add(table, ALICE)
    waiting = [add(table, ALICE) for _ in range(2)]
    assert [table.may_begin(one) for one in waiting] == [False, False]
    add(table, ALICE)
    assert (waiting[0].evicted, waiting[1].evicted, silent.evicted) == (True, False, False)
    later = monotonic() + 3600
    monkeypatch.setattr("toolhub.edge.arrivals.monotonic", lambda: later)
    while not waiting[1].begun:
        await asyncio.sleep(0)
    assert not waiting[0].begun
    assert table.refusals.counts == {"arrivals": 2, "evicted": 1}


async def test_all_networks_of_an_ipv6_subscriber_share_one_rate() -> None:
    table = Connections(Limits(max_connections_per_address=2, connections_per_second=0.001))
    first, second, third = (add(table, f"2001:db8:1:{number}::1") for number in range(3))
    assert table.may_begin(first) and table.may_begin(second)
    assert not table.may_begin(third)


def test_the_total_holds_for_all_addresses_together(table: Connections) -> None:
    for number in range(6):
        add(table, f"192.0.2.{number}", Phase.ANSWERING)
    assert add(table, ALICE).over_limit == "total"


def test_a_fresh_connection_of_any_address_makes_room_in_the_total(table: Connections) -> None:
    silent = add(table, BOB)
    for number in range(5):
        add(table, f"192.0.2.{number}", Phase.ANSWERING)
    assert not add(table, ALICE).over_limit
    assert silent.evicted


def test_connections_beyond_the_limits_are_bounded_too(table: Connections) -> None:
    for number in range(6):
        add(table, f"192.0.2.{number}", Phase.ANSWERING)
    late = [add(table, ALICE) for _ in range(3)] + [add(table, f"192.0.3.{n}") for n in range(2 * MAX_OVER_LIMIT)]
    assert len(table.open) <= 6 + MAX_OVER_LIMIT
    assert late[0].evicted and not late[-1].evicted


def test_a_trusted_proxy_counts_in_the_total_only(table: Connections) -> None:
    behind = [add(table, PROXY, Phase.ANSWERING) for _ in range(5)]
    assert all(not one.over_limit and one.address == "" for one in behind)


def begin(table: Connections, client: str) -> Fake:
    """A proxy's connection whose request for this client has brought its headers."""
    connection = add(table, PROXY, Phase.BODY)
    table.begin_request(connection, client)
    if not connection.over_limit:
        connection.phase = Phase.ANSWERING
    return connection


def test_clients_behind_a_proxy_count_by_what_they_have_in_progress(table: Connections) -> None:
    mine = [begin(table, ALICE) for _ in range(3)]
    late, other = begin(table, ALICE), begin(table, BOB)
    assert [one.over_limit for one in (*mine, late, other)] == ["", "", "", "per_address", ""]
    table.end_request(mine[0])
    assert not begin(table, ALICE).over_limit, "a connection that is idle is the proxy's"
    for one in list(table.open):
        table.remove(one)
    assert not table.by_address, "nothing is left of an address that is gone"


def test_an_idle_connection_of_a_proxy_makes_room_in_the_total(table: Connections) -> None:
    idle = begin(table, ALICE)
    table.end_request(idle)
    idle.phase = Phase.IDLE
    for number in range(5):
        begin(table, f"192.0.2.{number}")
    assert not begin(table, BOB).over_limit and idle.evicted


def test_a_flood_of_new_connections_leaves_the_youngest_the_time_to_ask(table: Connections) -> None:
    now = monotonic()
    idle = add(table, PROXY, Phase.IDLE, since=now - 10)
    answered = add(table, PROXY, Phase.IDLE, since=now)
    older, fresh = (add(table, PROXY, since=now) for _ in range(2))
    busy = [add(table, PROXY, Phase.ANSWERING, since=now) for _ in range(2)]
    add(table, PROXY, since=now)
    first = [one.evicted for one in (idle, answered, older, fresh, *busy)]
    assert first == [True, False, False, False, False, False], "what has waited for longer goes first"
    late = [add(table, PROXY, since=now) for _ in range(2)]
    assert [one.evicted for one in (answered, older, fresh, *busy)] == [True, True, False, False, False]
    assert not any(one.over_limit for one in late)


@pytest.mark.parametrize("phase", [Phase.FRESH, Phase.IDLE])
@pytest.mark.parametrize("seconds", [0.0, 10.0])
def test_a_request_that_came_while_the_server_was_busy_is_read_before_it_makes_room(
    table: Connections, seconds: float, phase: Phase
) -> None:
    now = monotonic()
    asking = add(table, PROXY, phase, since=now - seconds)
    asking.unread = True
    others = [add(table, PROXY, Phase.IDLE, since=now) for _ in range(4)]
    silent = add(table, PROXY, since=now)
    for _ in range(3):
        add(table, PROXY, Phase.ANSWERING, since=now)
    assert not asking.evicted
    assert [one.evicted for one in (*others, silent)].count(True) == 3


def test_what_a_new_connection_asks_after_the_last_look_is_seen(table: Connections) -> None:
    now = monotonic()
    later = add(table, PROXY, since=now)
    idle = [add(table, PROXY, Phase.IDLE, since=now + 1) for _ in range(5)]
    idle[0].waiting_since = now - 1
    add(table, PROXY, Phase.ANSWERING, since=now)  # now the others are sorted, and `later` is the next
    assert idle[0].evicted
    later.unread = True
    add(table, PROXY, Phase.ANSWERING, since=now)
    assert not later.evicted and idle[1].evicted


def test_when_all_ask_the_one_that_asked_first_makes_room(table: Connections) -> None:
    asking = [add(table, PROXY, since=number) for number in range(6)]
    for one in asking:
        one.unread = True
    assert not add(table, PROXY).over_limit
    assert [one.evicted for one in asking] == [True, *[False] * 5]


def test_the_addresses_of_one_ipv6_network_count_as_one(table: Connections) -> None:
    found = [add(table, f"2001:db8:1:2::{n:x}", Phase.ANSWERING).over_limit for n in range(4)]
    assert found == ["", "", "", "per_address"]
    assert add(table, "2001:db8:1:3::1").over_limit == ""


def test_all_addresses_of_one_ipv6_subscriber_have_four_times_the_connections_of_one() -> None:
    table = Connections(Limits(max_connections=100, max_connections_per_address=3), TrustedProxies([]))
    found = [add(table, f"2001:db8:1:{n:x}::1", Phase.ANSWERING).over_limit for n in range(13)]
    assert found == [""] * 12 + ["per_address"]
    assert add(table, "2001:db8:2::1").over_limit == "", "another subscriber"
    for one in list(table.open):
        table.remove(one)
    assert not table.by_address and not table._fresh_by_address


def test_behind_a_proxy_an_ipv6_subscriber_has_four_times_what_one_address_may_do() -> None:
    table = Connections(
        Limits(max_connections=100, max_connections_per_address=3), TrustedProxies([ip_network("10.0.0.0/8")])
    )
    found = [begin(table, f"2001:db8:1:{n:x}::/64").over_limit for n in range(13)]
    assert found == [""] * 12 + ["per_address"]
    for one in list(table.open):
        table.remove(one)
    assert not table.by_address


def test_a_connection_that_ends_twice_is_counted_down_once(table: Connections) -> None:
    first, second = add(table, ALICE), add(table, ALICE)
    table.remove(first)
    table.remove(first)
    assert list(table.by_address["203.0.113.5"]) == [second]
    table.remove(second)
    assert not table.by_address and not table.open


def test_answers_that_wait_cost_the_address_that_holds_most_of_them(table: Connections) -> None:
    slow = [add(table, ALICE, Phase.ANSWERING) for _ in range(2)]
    for number, one in enumerate(slow):
        one.stalled_since = float(number)
        table.waiting_for_reader[one] = None
        table.hold(one, 300)
    assert slow[0].evicted and not slow[1].evicted
    assert table.held_bytes == 300


def test_one_large_answer_always_has_room(table: Connections) -> None:
    one = add(table, ALICE, Phase.ANSWERING)
    table.waiting_for_reader[one] = None
    table.hold(one, 5000)
    assert not one.evicted
    table.hold(one, 0)
    assert table.held_bytes == 0


def test_overdue_connections_act_and_the_others_do_not(table: Connections) -> None:
    late, early, stalled = add(table, ALICE), add(table, BOB), add(table, BOB)
    late.due, early.due = 10.0, 11.0
    table.waiting_for_reader[stalled] = None
    table.sweep(10.5)
    assert (late.seen, early.seen, stalled.seen) == ([10.5], [], [-10.5])


def test_the_log_has_one_line_per_address_and_minute(table: Connections, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="toolhub.edge")
    for _ in range(5000):
        table.refusals.add("headers", ALICE)
    table.refusals.add("slow_body", BOB)
    assert len(caplog.messages) == 2 and ALICE in caplog.messages[0] and BOB in caplog.messages[1]
    for now in (100.0, 101.0, 159.0):
        table.sweep(now)
    assert len(caplog.messages) == 2, "the minute is not over"
    table.sweep(161.0)
    assert len(caplog.messages) == 3 and caplog.messages[2].startswith(f"Limits reached 4,999 times more by {ALICE}: ")
    assert table.refusals.counts == {"headers": 5000, "slow_body": 1}


def test_the_lines_about_many_addresses_are_bounded(
    table: Connections, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "MAX_NAMES", 10)
    caplog.set_level(logging.WARNING, logger="toolhub.edge")
    for number in range(200):
        table.refusals.add("headers", f"192.0.2.{number}")
    assert len(caplog.messages) == 10
    table.sweep(100.0)
    table.sweep(160.0)
    why = f"{refusals.SENTENCES['headers']} (190 times)"
    assert caplog.messages[10:] == [f"Limits reached 190 times more by others: {why}"]


def test_who_holds_connections_is_listed_by_person_and_address(table: Connections) -> None:
    for user_id, phase in ((7, Phase.ANSWERING), (7, Phase.UPGRADED), (None, Phase.IDLE)):
        one = add(table, ALICE, phase)
        one.user_id, one.since = user_id, 5.0 - phase
    behind = add(table, PROXY, Phase.ANSWERING)
    behind.user_id, behind.client, behind.since = 7, BOB, 3.0
    assert table.list_holders() == [
        {"user_id": 7, "address": "203.0.113.5", "connections": 2, "websockets": 1, "busy": 1, "since": -1.0},
        {"user_id": None, "address": "203.0.113.5", "connections": 1, "websockets": 0, "busy": 0, "since": 3.0},
        {"user_id": 7, "address": BOB, "connections": 1, "websockets": 0, "busy": 1, "since": 3.0},
    ]


def test_what_one_person_holds_from_one_address_is_cut_and_nothing_else(table: Connections) -> None:
    mine, other = add(table, ALICE, Phase.ANSWERING), add(table, ALICE, Phase.ANSWERING)
    elsewhere = add(table, BOB, Phase.ANSWERING)
    mine.user_id = elsewhere.user_id = 7
    assert table.cut(7, "203.0.113.5") == 1
    assert (mine.evicted, other.evicted, elsewhere.evicted) == (True, False, False)
    assert list(table.open) == [other, elsewhere]


def test_the_report_says_what_the_bounds_did(table: Connections) -> None:
    add(table, ALICE)
    table.refusals.add("headers", ALICE)
    table.refusals.add("headers", ALICE)
    report = table.report()
    assert (report["connections"], report["most"], report["most_per_address"]) == (1, 6, 3)
    count, last = report["refusals"]["headers"]
    assert count == 2 and last > 1e9
