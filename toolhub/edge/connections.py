"""All open connections of a worker process: who may have one more, which one makes room, and which one is overdue.

A connection that has not brought the headers of a request yet costs its sender nothing, so it never keeps another one
out: above a limit, the oldest one of them is closed, then the one that has been idle for longest, then the slowest
body. Only when all are busy is the new one refused, with 503 after its headers. The probes are answered even then.

The first requests of an address's new connections have a rate (`Arrivals`). Those that wait for it make room before all
others. While they wait, most further connections of that address are closed at once.

A proxy's connections have no limit of their own. Each request and WebSocket that one of them carries counts for the
address of its client, from the end of its headers to the end of its answer. Of the rate, only WebSockets use something:
a proxy keeps its connections for all other requests.

One timer per process checks all of them once a second: Twisted's own timers, two per request, took more time than the
rest of its bookkeeping (measured).
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Iterable
from enum import IntEnum
from functools import lru_cache
from typing import Any, Protocol

from toolhub.client_address import TrustedProxies, counted, parse_address, subscriber_network
from toolhub.edge.arrivals import Arrivals
from toolhub.edge.limits import Limits
from toolhub.rates import Rates, RefusalDelays
from toolhub.refusals import Refusals
from toolhub.transports.uploads import Uploads

MAX_UPLOAD_BYTES = 64_000_000
SUBSCRIBER_SHARE = 4
"""All addresses of one IPv6 subscriber together have so many times the connections of one address."""
MAX_OVER_LIMIT = 32
"""Maximum number of connections beyond the limits. They wait for their headers, because they may be probes."""


class Phase(IntEnum):
    """What a connection is doing."""

    FRESH = 0
    """It has brought no complete headers yet."""
    CLOSING = 1
    IDLE = 2
    HEADERS = 3
    """The headers of a later request are arriving."""
    BODY = 4
    ANSWERING = 5
    UPGRADED = 6


MAX_HOLDERS = 200
"""Maximum number of holders in a report: those with the most connections."""
FRAMES_AT_ONCE_SECONDS = 0.05
"""The frames of so many seconds may come at once."""
MAX_DISCARDED_BYTES = 33_554_432
"""What is read and thrown away from one sweep to the next, of all connections that have got an early answer."""
LAST_EVICTABLE = Phase.BODY
"""Up to this phase a connection makes room for another one: the lowest phase first, the oldest of a phase first."""
SILENT_SHARE = 0.75
"""With a larger share of connections that have brought no headers, an address is silent rather than busy."""
YOUNG_SECONDS = 0.5
"""A connection that has just begun to wait comes after all older ones. What its client has sent may not be read yet, or
its answer not be written: in a flood, each new connection would end the one before it.
"""


NEED_OF_YOUNG = {Phase.CLOSING: 4, Phase.HEADERS: 5, Phase.IDLE: 6, Phase.FRESH: 6}
"""How much young connections are needed, beside the phases of older ones up to HEADERS."""
NEED_OF_ASKING, NEED_OF_BODY = 7, 8
"""Of connections whose request has come and is not read yet, and of those whose body is arriving."""
WAITING_TO_ASK = frozenset({Phase.FRESH, Phase.IDLE})


class Connection(Protocol):
    """What the table knows of a connection."""

    address: str
    is_proxy: bool
    groups: tuple[str, ...]
    user_id: int | None
    since: float
    over_limit: str
    phase: Phase
    due: float
    waiting_since: float
    stalled_since: float

    @property
    def source(self) -> str: ...

    def refuse(self, reason: str) -> None: ...

    def has_unread(self) -> bool: ...

    def evict(self) -> None: ...

    def begin(self) -> None: ...

    def on_due(self, now: float) -> None: ...

    def check_reader(self, now: float) -> None: ...


ProxyHeaders = tuple[tuple[bytes, bytes], ...]
"""What a request says about its client: names in lower case, and values."""
MAX_KNOWN_BYTES = 256
"""Longer headers about a client are read each time: those that are known take memory."""


def _is_asking(connection: Connection) -> bool:
    """Return whether it has asked for something that this process, being busy, has not read yet."""
    return connection.phase in WAITING_TO_ASK and connection.has_unread()


State = tuple[Phase, float, bool]
"""What decides how much a connection is needed: its phase, since when it waits, and whether it is asking."""


def _state_of(connection: Connection) -> State:
    return connection.phase, connection.waiting_since, _is_asking(connection)


def _sort(connections: Iterable[Connection], young: float) -> list[tuple[Connection, State]]:
    """Return those that may make room, the one that is needed most first; `young` wait since then or later."""

    def need(found: tuple[Connection, State]) -> tuple[int, float]:
        phase, since, is_asking = found[1]
        if phase is Phase.BODY:
            return NEED_OF_BODY, since
        if is_asking:
            return NEED_OF_ASKING, since
        return phase if since < young else NEED_OF_YOUNG[phase], since

    return sorted(((one, _state_of(one)) for one in connections if one.phase <= LAST_EVICTABLE), key=need)[::-1]


def groups_of(address: str) -> tuple[str, ...]:
    """Return what a counted address counts for: itself, and for IPv6 the network of its subscriber."""
    network = subscriber_network(address)
    return (address, network) if network else (address,)


Holder = dict[str, Any]
"""Who holds connections, as JSON: `user_id` (None when nobody has been identified), `address`, `connections`, of these
`websockets` and `busy` (a request is in progress), and `since` (the oldest, Unix seconds).
"""


class Connections:
    """The connections of a process; belongs to its event loop."""

    def __init__(
        self,
        limits: Limits,
        proxies: TrustedProxies | None = None,
        refusals: Refusals | None = None,
        uploads: Uploads | None = None,
    ) -> None:
        self.limits, self.proxies = limits, proxies or TrustedProxies()
        self.refusals = refusals or Refusals()
        self.uploads = uploads or Uploads(MAX_UPLOAD_BYTES)
        """The larger messages that are arriving over WebSockets, beside the bodies of requests."""
        self.frames = Rates(limits.frames_per_second, int(limits.frames_per_second * FRAMES_AT_ONCE_SECONDS))
        """Of WebSockets, by user."""
        self.waiting_for_frames: Counter[str] = Counter()
        """How many WebSockets wait for that rate, by user."""
        self.arrivals: Arrivals[Connection] = Arrivals(
            limits.connections_per_second, limits.max_connections_per_address
        )
        """First requests of new connections, and WebSockets of clients behind a proxy."""
        self.replacements = Rates(limits.connections_per_second, MAX_OVER_LIMIT)
        """New connections of an address that has its maximum already, by address or IPv6 subscriber."""
        self.refusal_delays = RefusalDelays()
        """Of clients behind a proxy, by address."""
        self.open: dict[Connection, None] = {}
        self.by_address: dict[str, dict[Connection, None]] = {}
        """By address, and for IPv6 also by the network of the subscriber. A proxy's connection is in it while it has a
        request or WebSocket, at the address of that one's client."""
        self.waiting_for_reader: dict[Connection, None] = {}
        self._fresh: dict[Connection, None] = {}
        self._fresh_by_address: dict[str, dict[Connection, None]] = {}
        """Those without headers, the oldest first: a flood of new connections must not look at all the others."""
        self._over_limit: OrderedDict[Connection, None] = OrderedDict()
        self.held_bytes = 0
        self._victims: dict[str | None, list[tuple[Connection, State]]] = {}
        """Those that may make room in a group (None: of all), as they were when these were sorted, since the last
        sweep; the last one is needed least."""
        self._discarded_bytes = 0
        """Since the last sweep."""
        self._held: dict[Connection, int] = {}
        """Bytes of answers that are not written yet, by connection."""
        self._groups = lru_cache(maxsize=4096)(self._find_groups)
        self._clients = lru_cache(maxsize=4096)(self._find_client)

    def _find_groups(self, peer: str) -> tuple[str, ...]:
        """Return the address that counts and the network of its subscriber, if there is one; of a proxy nothing."""
        address = parse_address(peer)
        if address is None or self.proxies.trusts(address):
            return ()
        return groups_of(counted(peer))

    def find_client(self, peer: str, headers: ProxyHeaders) -> str:
        """Return the counted address of the client that a trusted proxy names; "" when it names none."""
        size = sum(len(value) for _, value in headers)
        return self._clients(peer, headers) if size <= MAX_KNOWN_BYTES else self._find_client(peer, headers)

    def _find_client(self, peer: str, headers: ProxyHeaders) -> str:
        client = self.proxies.find_client(peer, headers).address
        return "" if client == peer else counted(client)

    # --- a connection -------------------------------------------------------------------------------------------------

    def may_come(self, peer: str) -> bool:
        """Return whether a new connection from this IP address may come; if not, it is to be closed at once.

        When its address has the maximum, only so many a second may take the place of another one or get an answer. A
        connection that is made for that takes ten times as long as one that is closed (measured). But silent ones alone
        never keep anybody of their address out.
        """
        groups = self._groups(peer)
        if not any(self._is_full(group, number) for number, group in enumerate(groups)) or self._is_silent(groups):
            return True
        if not self.replacements.take(groups[-1], time.monotonic()):
            return True
        self.refusals.add("per_address", groups[0])
        return False

    def _is_silent(self, groups: tuple[str, ...]) -> bool:
        """Return whether nearly all of these connections have asked for nothing."""
        return self.arrivals.find_oldest(groups[-1]) is None and all(
            len(self._fresh_by_address.get(group, ())) > SILENT_SHARE * len(self.by_address.get(group, ()))
            for group in groups
        )

    def add(self, connection: Connection, peer: str) -> None:
        """Add a new connection from this IP address. A trusted proxy counts in the total only.

        Above a limit, `connection.over_limit` says which one: only a probe is answered then.
        """
        connection.groups = groups = self._groups(peer)
        connection.address = groups[0] if groups else ""
        connection.is_proxy = not groups and bool(self.proxies.networks)
        if any(not self._has_room(group, number) for number, group in enumerate(groups)):
            connection.over_limit = "per_address"
        elif len(self.open) - len(self._over_limit) >= self.limits.max_connections and not self._make_room():
            connection.over_limit = "total"
        if connection.over_limit:
            if len(self._over_limit) >= MAX_OVER_LIMIT:
                self._evict(next(iter(self._over_limit)))
            self.open[connection] = self._over_limit[connection] = None
            connection.groups = ()  # it has no place that it could leave to another one
            return
        self.open[connection] = None
        self._fresh[connection] = None
        self._count(connection)
        for group in groups:
            self._fresh_by_address.setdefault(group, {})[connection] = None

    def _count(self, connection: Connection) -> None:
        for group in connection.groups:
            self.by_address.setdefault(group, {})[connection] = None

    def _uncount(self, connection: Connection) -> None:
        for group in connection.groups:
            mine = self.by_address[group]
            del mine[connection]
            if not mine:
                del self.by_address[group]
        connection.groups = ()

    def _has_room(self, group: str, number: int) -> bool:
        """Return whether there is a place in this group (number 0: an address, 1: its network), or one can be made."""
        return not self._is_full(group, number) or self._make_room(group)

    def _is_full(self, group: str, number: int) -> bool:
        """Return whether an address (number 0) or the network of a subscriber (number 1) has as many as it may have."""
        maximum = self.limits.max_connections_per_address * (SUBSCRIBER_SHARE if number else 1)
        return len(self.by_address.get(group, ())) >= maximum

    def on_headers(self, connection: Connection) -> None:
        """Note that the connection has brought the headers of its first request."""
        if connection not in self._fresh:
            return
        del self._fresh[connection]
        for group in connection.groups:
            mine = self._fresh_by_address[group]
            del mine[connection]
            if not mine:
                del self._fresh_by_address[group]

    def may_begin(self, connection: Connection) -> bool:
        """Return whether what a connection asks for may begin; if not, its `begin` is called later."""
        if not connection.groups or connection.over_limit:
            return True
        may = self.arrivals.may_begin(connection, connection.groups[-1])
        if not may:
            connection.refuse("arrivals")
        return may

    def remove(self, connection: Connection) -> None:
        """Remove a connection that has ended; a repeated call has no effect."""
        if connection not in self.open:
            return
        del self.open[connection]
        self.arrivals.forget(connection)
        self.on_headers(connection)
        self._over_limit.pop(connection, None)
        self.waiting_for_reader.pop(connection, None)
        self.held_bytes -= self._held.pop(connection, 0)
        self._uncount(connection)

    # --- the clients behind a proxy -----------------------------------------------------------------------------------

    def begin_request(self, connection: Connection, client: str) -> None:
        """Count a request or WebSocket for this client behind a trusted proxy, until `end_request`.

        `client` is as `client_address.counted` returns it. When it has too many, `connection.over_limit` says so.
        """
        groups = groups_of(client)
        if any(self._is_full(group, number) for number, group in enumerate(groups)):
            connection.over_limit = "per_address"
            return
        connection.groups = groups
        self._count(connection)

    def end_request(self, connection: Connection) -> None:
        """End what `begin_request` has counted."""
        self._uncount(connection)

    def _make_room(self, group: str | None = None) -> bool:
        """Evict the connection of a group (None: of all) that is needed least; return False when all are busy."""
        waiting = self.arrivals.find_oldest(group)
        if waiting is not None:
            self._evict(waiting)
            return True
        fresh = self._fresh if group is None else self._fresh_by_address.get(group, {})
        young = time.monotonic() - YOUNG_SECONDS
        found = next(iter(fresh), None)
        if found is None or found.waiting_since >= young or _is_asking(found):
            found = self._next_victim(group, young)
        if found is None:
            return False
        self._evict(found)
        return True

    def _next_victim(self, group: str | None, young: float) -> Connection | None:
        """Return the one that is needed least. They are sorted once for many: floods evict thousands a second.

        Sorting those of one address for each new connection took 42 % of the process (measured).
        """
        victims = self._victims.setdefault(group, [])
        for _ in range(2):
            while victims:
                found, before = victims.pop()
                if found in self.open and _state_of(found) == before:
                    return found
            if group is None:
                mine = [one for one in self.open if one not in self._over_limit]
            else:
                mine = list(self.by_address.get(group, ()))
            victims.extend(_sort(mine, young))
        return None

    def _evict(self, connection: Connection) -> None:
        arriving = connection.phase in {Phase.HEADERS, Phase.BODY}
        connection.refuse("evicted_busy" if arriving else "evicted")
        self.remove(connection)
        connection.evict()

    # --- what is read and thrown away ---------------------------------------------------------------------------------

    def may_discard(self, size: int) -> bool:
        """Count bytes that came after an early answer; return False when the connection must not bring more now.

        Whoever sends much without reading may then lose that answer to the reset of its connection.
        """
        self._discarded_bytes += size
        return self._discarded_bytes <= MAX_DISCARDED_BYTES

    # --- answers that wait for their readers --------------------------------------------------------------------------

    def hold(self, connection: Connection, size: int) -> None:
        """Count what a connection still has to read of a large answer; 0 ends that.

        Above the limit, of one address or in all, the one that has taken nothing for longest is cut.
        """
        if connection not in self.open:
            return
        self.held_bytes += size - self._held.get(connection, 0)
        if size:
            self._held[connection] = size
        else:
            self._held.pop(connection, None)
        if self.held_bytes > self.limits.max_held_bytes // 2:
            self._cut_stalled(connection.source)

    def _cut_stalled(self, address: str) -> None:
        mine = [one for one in self._held if one.source == address] if address else []
        if sum(self._held[one] for one in mine) <= self.limits.max_held_bytes // 2:
            if self.held_bytes <= self.limits.max_held_bytes:
                return
            mine = list(self._held)
        stalled = [one for one in mine if one in self.waiting_for_reader]
        if len(mine) > 1 and stalled:
            found = min(stalled, key=lambda one: one.stalled_since)
            found.refuse("unread")
            self.remove(found)
            found.evict()

    # --- for the page about them --------------------------------------------------------------------------------------

    def report(self) -> dict[str, Any]:
        """Return who holds connections and what was refused, as `toolhub.server.presence` describes."""
        holders = self.list_holders()
        return {
            "holders": holders[:MAX_HOLDERS],
            "left_out": max(0, len(holders) - MAX_HOLDERS),
            "connections": len(self.open),
            "most": self.limits.max_connections,
            "most_per_address": self.limits.max_connections_per_address,
            "refusals": {name: [count, self.refusals.last[name]] for name, count in self.refusals.counts.items()},
        }

    def list_holders(self) -> list[Holder]:
        """Return who holds the open connections, and from where; those with the most first."""
        found: dict[tuple[int | None, str], Holder] = {}
        for one in self.open:
            key = (one.user_id, one.source)
            holder = found.get(key)
            if holder is None:
                holder = found[key] = {
                    "user_id": one.user_id,
                    "address": key[1],
                    "connections": 0,
                    "websockets": 0,
                    "busy": 0,
                    "since": one.since,
                }
            holder["connections"] += 1
            holder["websockets"] += one.phase is Phase.UPGRADED
            holder["busy"] += one.phase in {Phase.BODY, Phase.ANSWERING}
            holder["since"] = min(holder["since"], one.since)
        return sorted(found.values(), key=lambda holder: -int(holder["connections"]))

    def cut(self, user_id: int | None, address: str) -> int:
        """Close all connections of this holder at once; return their number."""
        found = [one for one in self.open if one.user_id == user_id and one.source == address]
        for one in found:
            self.remove(one)
            one.evict()
        return len(found)

    # --- the timer ----------------------------------------------------------------------------------------------------

    def sweep(self, now: float) -> None:
        """Let every overdue connection act (`now`: monotonic seconds)."""
        for connection in [one for one in self.open if one.due <= now]:
            connection.on_due(now)
        for connection in list(self.waiting_for_reader):
            connection.check_reader(now)
        self._victims.clear()
        self._discarded_bytes = 0
        self.refusals.write_due(now)
