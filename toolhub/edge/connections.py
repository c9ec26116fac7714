"""All open connections of a worker process: who may have one more, which one makes room, and which one is overdue.

A connection that has not brought the headers of a request yet costs its sender nothing, so it never keeps another one
out: above a limit, the oldest one of them is closed, then the one that has been idle for longest, then the slowest
body. Only when all are busy is the new one refused, with 503 after its headers. The probes are answered even then.

One timer per process checks all of them once a second: Twisted's own timers, two per request, took more time than the
rest of its bookkeeping (measured).
"""

from __future__ import annotations

from collections import OrderedDict
from enum import IntEnum
from functools import lru_cache
from typing import Any, Protocol

from toolhub.client_address import TrustedProxies, counted, parse_address, subscriber_network
from toolhub.edge.limits import Limits
from toolhub.rates import Rates
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
FRAMES_AT_ONCE_SECONDS = 0.1
"""The frames of so many seconds may come at once."""
LAST_EVICTABLE = Phase.BODY
"""Up to this phase a connection makes room for another one: the lowest phase first, the oldest of a phase first."""


class Connection(Protocol):
    """What the table knows of a connection."""

    address: str
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

    def evict(self) -> None: ...

    def on_due(self, now: float) -> None: ...

    def check_reader(self, now: float) -> None: ...


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
        self.open: dict[Connection, None] = {}
        self.by_address: dict[str, dict[Connection, None]] = {}
        """By address, and for IPv6 also by the network of the subscriber."""
        self.waiting_for_reader: dict[Connection, None] = {}
        self._fresh: dict[Connection, None] = {}
        self._fresh_by_address: dict[str, dict[Connection, None]] = {}
        """Those without headers, the oldest first: a flood of new connections must not look at all the others."""
        self._over_limit: OrderedDict[Connection, None] = OrderedDict()
        self.held_bytes = 0
        self._held: dict[Connection, int] = {}
        """Bytes of answers that are not written yet, by connection."""
        self._clients: dict[str, int] = {}
        """Requests and WebSockets in progress by address, of clients behind a trusted proxy."""
        self._groups = lru_cache(maxsize=4096)(self._find_groups)

    def _find_groups(self, peer: str) -> tuple[str, ...]:
        """Return the address that counts and the network of its subscriber, if there is one; of a proxy nothing."""
        address = parse_address(peer)
        if address is None or self.proxies.trusts(address):
            return ()
        return groups_of(counted(peer))

    # --- a connection -------------------------------------------------------------------------------------------------

    def add(self, connection: Connection, peer: str) -> None:
        """Add a new connection from this IP address. A trusted proxy counts in the total only.

        Above a limit, `connection.over_limit` says which one: only a probe is answered then.
        """
        connection.groups = groups = self._groups(peer)
        connection.address = groups[0] if groups else ""
        if any(not self._has_room(group, number) for number, group in enumerate(groups)):
            connection.over_limit = "per_address"
        elif len(self.open) >= self.limits.max_connections and not self._make_room(self.open, self._fresh):
            connection.over_limit = "total"
        if connection.over_limit:
            if len(self._over_limit) >= MAX_OVER_LIMIT:
                self._evict(next(iter(self._over_limit)))
            self._over_limit[connection] = None
        self.open[connection] = None
        self._fresh[connection] = None
        for group in groups:
            self.by_address.setdefault(group, {})[connection] = None
            self._fresh_by_address.setdefault(group, {})[connection] = None

    def _has_room(self, group: str, number: int) -> bool:
        """Return whether there is a place in this group (number 0: an address, 1: its network), or one can be made."""
        mine, most = self.by_address.get(group, {}), self._maximum(number)
        return len(mine) < most or self._make_room(mine, self._fresh_by_address.get(group, {}))

    def _maximum(self, number: int) -> int:
        """Return how many an address (number 0) or the network of a subscriber (number 1) may have."""
        return self.limits.max_connections_per_address * (SUBSCRIBER_SHARE if number else 1)

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

    def remove(self, connection: Connection) -> None:
        """Remove a connection that has ended; a repeated call has no effect."""
        if connection not in self.open:
            return
        del self.open[connection]
        self.on_headers(connection)
        self._over_limit.pop(connection, None)
        self.waiting_for_reader.pop(connection, None)
        self.held_bytes -= self._held.pop(connection, 0)
        for group in connection.groups:
            mine = self.by_address[group]
            del mine[connection]
            if not mine:
                del self.by_address[group]

    def _make_room(self, among: dict[Connection, None], fresh: dict[Connection, None]) -> bool:
        """Evict the one that is needed least, one of the `fresh` if there is any; return False when all are busy."""
        found = next(iter(fresh), None)
        if found is None:
            found = min(
                (one for one in among if one.phase <= LAST_EVICTABLE),
                key=lambda one: (one.phase, one.waiting_since),
                default=None,
            )
        if found is None:
            return False
        self._evict(found)
        return True

    def _evict(self, connection: Connection) -> None:
        arriving = connection.phase in {Phase.HEADERS, Phase.BODY}
        connection.refuse("evicted_busy" if arriving else "evicted")
        self.remove(connection)
        connection.evict()

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

    # --- the clients behind a proxy -----------------------------------------------------------------------------------

    def enter(self, address: str) -> bool:
        """Count one request or WebSocket of a client behind a trusted proxy; return False when it has too many.

        `address` is as `client_address.counted` returns it.
        """
        groups = groups_of(address)
        for number, group in enumerate(groups):
            if self._clients.get(group, 0) >= self._maximum(number):
                self.refusals.add("per_address", address)
                return False
        for group in groups:
            self._clients[group] = self._clients.get(group, 0) + 1
        return True

    def leave(self, address: str) -> None:
        """End what `enter` has counted."""
        for group in groups_of(address):
            count = self._clients[group] - 1
            if count:
                self._clients[group] = count
            else:
                del self._clients[group]

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
        self.refusals.write_due(now)
