"""Connected clients across all processes: each process writes its own into one row every few seconds.

Each process also reads its orders from that row. Nothing is written per request. A disconnect is sent at once over the
bus; the row carries the same as an order, for a process that the bus does not reach (a lost Redis, a separate stdio
server).
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from django.db import transaction
from django.utils import timezone

from catalog import threads
from catalog.errors import Cancellation
from toolhub.access.models import ServingProcess
from toolhub.jobs import JobStatus
from toolhub.log_throttle import ThrottledWarning
from toolhub.server import bus
from toolhub.server.bus import Bus
from toolhub.server.clients import SESSION, Clients, Row
from toolhub.server.requests import RequestsInFlight
from toolhub.server.sessions import Sessions

log = logging.getLogger(__name__)

REPORT_REQUESTED = "presence.wanted"
DISCONNECT = "presence.disconnect"
CONNECTIONS = "connections"
"""The kind of an order to cut all connections of one holder."""
DISCONNECTED = Cancellation("cancelled.disconnected")
HEARTBEAT_SECONDS = 5.0
RENEW_SECONDS = 15.0
LEASE_SECONDS = 60.0
"""Seconds without a heartbeat after which a process counts as gone."""
MIN_HEARTBEAT_SECONDS = 0.5
STOP_SECONDS = 3.0
"""Maximum seconds that a stop waits for the last heartbeat."""
FORGET_SECONDS = 600.0
MAX_ROWS = 2_000


def processes() -> list[ServingProcess]:
    """Return the live processes, according to their rows."""
    return list(ServingProcess.objects.filter(beat__gte=timezone.now() - timedelta(seconds=LEASE_SECONDS)))


def connected(found: Iterable[ServingProcess]) -> list[Row]:
    """Return the connected clients of these processes, the most recently seen first.

    Sessions that several processes serve are one row; its `workers` names them, the one with the latest message first.
    """
    merged: dict[str, Row] = {}
    for process in found:
        for row in json.loads(process.peers):
            row["workers"] = [process.pk]
            known = merged.get(row["key"])
            if known is None:
                merged[row["key"]] = row
                continue
            newer, older = (row, known) if row["seen"] > known["seen"] else (known, row)
            newer["workers"] = [*newer["workers"], *older["workers"]]
            newer["streams"] += older["streams"]
            newer["called"] = max(newer["called"], older["called"])
            merged[row["key"]] = newer
    return sorted(merged.values(), key=lambda row: -float(row["seen"]))


def request_reports() -> None:
    """Request that every process reports its clients now, for a viewer. Callable from any thread."""
    bus.publish_from_thread(REPORT_REQUESTED, {})


def disconnect(row: Row) -> None:
    """End the session, or close the connection or stream, of a row of `connected`. From a thread, in a transaction."""
    _give_order(row["workers"], {"key": row["key"], "kind": row["kind"]})


def _give_order(workers: list[str], order: dict[str, Any]) -> None:
    for process in ServingProcess.objects.select_for_update().filter(pk__in=workers):
        process.orders = json.dumps([*json.loads(process.orders or "[]"), order][-MAX_ROWS:])
        process.save(update_fields=["orders"])
    transaction.on_commit(lambda: bus.publish_from_thread(DISCONNECT, order))


Holder = dict[str, Any]
"""Who holds connections to any process: `key`, `user_id` (None when nobody has been identified), `address`,
`connections`, of these `websockets` and `busy` (a request is in progress), `since` (the oldest, Unix
seconds), `workers`.
"""


@dataclass(slots=True)
class Bound:
    """What one bound has refused, cut or slowed down, in all live processes since their start."""

    name: str
    """See `toolhub.refusals.SENTENCES`."""
    count: int
    last: float
    """Unix seconds."""


class Edge(Protocol):
    """What a process knows of its connections, beneath the MCP protocol."""

    def report(self) -> dict[str, Any]:
        """Return its state as JSON.

        `holders` without `key` and `workers`, `left_out` (holders beyond them), `connections`, `most` and
        `most_per_address` (their limits), and `refusals`: {name: [count, Unix seconds of the last]}.
        """

    def cut(self, user_id: int | None, address: str) -> int:
        """Close all connections of this holder at once; return their number."""


EdgeReports = list[tuple[ServingProcess, dict[str, Any]]]
"""What `Edge.report` returned in each process a few seconds ago."""


def edge_reports(found: Iterable[ServingProcess]) -> EdgeReports:
    """Return the reports of these processes, without those that have no edge (stdio)."""
    return [(process, json.loads(process.edge)) for process in found if process.edge]


def holders(reports: EdgeReports) -> list[Holder]:
    """Return who holds connections to these processes, those with the most first."""
    merged: dict[str, Holder] = {}
    for process, report in reports:
        for row in report["holders"]:
            user = "" if row["user_id"] is None else row["user_id"]
            row |= {"key": f"{user}@{row['address']}", "workers": [process.pk]}
            known = merged.setdefault(row["key"], row)
            if known is not row:
                for name in ("connections", "websockets", "busy", "workers"):
                    known[name] += row[name]
                known["since"] = min(known["since"], row["since"])
    return sorted(merged.values(), key=lambda row: -int(row["connections"]))


def bounds(reports: EdgeReports) -> list[Bound]:
    """Return the bounds that have refused, cut or slowed down something, the latest first."""
    merged: dict[str, Bound] = {}
    for _process, report in reports:
        for name, (count, last) in report["refusals"].items():
            bound = merged.setdefault(name, Bound(name, 0, 0.0))
            bound.count += count
            bound.last = max(bound.last, last)
    return sorted(merged.values(), key=lambda bound: -bound.last)


def cut(row: Holder) -> None:
    """Close all connections of a row of `holders`. From a thread, in a transaction."""
    _give_order(row["workers"], {"kind": CONNECTIONS, "user_id": row["user_id"], "address": row["address"]})


JobRow = dict[str, Any]
"""One job of one process, as JSON: `name`, `every` and `duration` in seconds, `running`, `error` ("" after a successful
run), and Unix seconds: `started`, `due`; `duration`, `started` and `due` may be None.
"""


def jobs(process: ServingProcess) -> list[JobRow]:
    """Return the background jobs of a process, as it reported them."""
    found: list[JobRow] = json.loads(process.jobs or "[]")
    return found


def as_json(found: Iterable[JobStatus]) -> str:
    """Return the rows of these jobs, for `ServingProcess.jobs`."""
    rows: list[JobRow] = [
        {
            "name": status.name,
            "every": status.every_seconds,
            "running": status.running,
            "started": status.last_start and status.last_start.timestamp(),
            "duration": status.duration_seconds,
            "error": status.last_error,
            "due": status.next_due and status.next_due.timestamp(),
        }
        for status in found
    ]
    return json.dumps(rows)


class Presence:
    """The published clients of this process, and the orders that it follows."""

    def __init__(
        self,
        bus: Bus,
        clients: Clients,
        requests: RequestsInFlight,
        sessions: Sessions,
        job_status: Callable[[], list[JobStatus]],
    ) -> None:
        self._worker, self._clients, self._requests, self._sessions = bus.worker, clients, requests, sessions
        self._job_status = job_status
        self.edge: Edge | None = None
        """Set where this process accepts connections itself."""
        self._wake, self._ending = asyncio.Event(), asyncio.Event()
        self._beating: asyncio.Task[None] | None = None
        self._written: tuple[tuple[str, str, str], float] = (("", "", ""), 0.0)
        """The content of the row, without the times that change by themselves, and the time of its last write."""
        self._warning = ThrottledWarning(log)
        self._background: set[asyncio.Task[None]] = set()
        bus.on(REPORT_REQUESTED, self._on_report_requested)
        bus.on(DISCONNECT, self._execute_order)

    def start(self) -> None:
        """Publish from the running loop until `stop`."""
        self._beating = asyncio.get_running_loop().create_task(self._beat(), name="presence")

    async def stop(self) -> None:
        """Stop publishing; the last heartbeat removes the row."""
        beating, self._beating = self._beating, None
        if beating is not None:
            self._ending.set()
            self._wake.set()
            await asyncio.wait([beating], timeout=STOP_SECONDS)
            if not beating.done():
                # The database hangs: the row remains, and counts as gone when its lease expires.
                beating.cancel()
                await asyncio.wait([beating], timeout=1.0)

    async def _beat(self) -> None:
        """Send heartbeats until the process stops; retry a failed one with the next."""
        last = time.monotonic()
        while not self._ending.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await self._wake.wait()
            with suppress(TimeoutError):
                # A lower bound on the interval, independent of the number of requests for a report.
                async with asyncio.timeout(max(0.0, MIN_HEARTBEAT_SECONDS - (time.monotonic() - last))):
                    await self._ending.wait()
            self._wake.clear()
            last = time.monotonic()
            if not self._ending.is_set():
                await self._try(self._publish)
        if self._written[1]:
            await self._try(self._withdraw)

    async def _try(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - whatever the database does, this goes on
            self._warning.warn(
                "Cannot store who is connected (%s): the Sessions page is out of date", type(error).__name__
            )

    async def _publish(self) -> None:
        rows, left_out = self._clients.rows(MAX_ROWS)
        edge = "" if self.edge is None else json.dumps(self.edge.report())
        content = json.dumps(rows), as_json(self._job_status()), edge
        now = time.monotonic()
        changed = content != self._written[0] or now - self._written[1] >= RENEW_SECONDS
        work = self._write if changed else self._read
        # In a daemon thread, which may hang with the database: the loop's own threads would keep the process alive.
        orders = await threads.presence().run(lambda: work(*content, left_out))
        if changed:
            self._written = content, now
        for order in orders:
            self._execute_order(order)

    async def _withdraw(self) -> None:
        await threads.presence().run(self._remove)

    def _write(self, peers: str, jobs: str, edge: str, left_out: int) -> list[dict[str, Any]]:
        now = timezone.now()
        content = {"beat": now, "peers": peers, "jobs": jobs, "edge": edge, "left_out": left_out}
        mine = ServingProcess.objects.filter(pk=self._worker)
        if not mine.update(**content):
            host = socket.gethostname()[:200]
            ServingProcess.objects.create(pk=self._worker, host=host, pid=os.getpid(), started=now, **content)
            ServingProcess.objects.filter(beat__lt=now - timedelta(seconds=FORGET_SECONDS)).delete()
        return self._read(peers, jobs, edge, left_out)

    def _read(self, peers: str, jobs: str, edge: str, left_out: int) -> list[dict[str, Any]]:
        mine = ServingProcess.objects.filter(pk=self._worker)
        orders = mine.values_list("orders", flat=True).first()
        if not orders or not mine.filter(orders=orders).update(orders=""):
            return []
        found: list[dict[str, Any]] = json.loads(orders)
        return found

    def _remove(self) -> None:
        ServingProcess.objects.filter(pk=self._worker).delete()

    def _execute_order(self, order: dict[str, Any]) -> None:
        key, kind = str(order.get("key")), order.get("kind")
        if kind == CONNECTIONS:
            if self.edge is not None:
                self.edge.cut(order.get("user_id"), str(order.get("address")))
            self._wake.set()
            return
        self._requests.cancel_scope(key, DISCONNECTED)
        self._clients.close(key, DISCONNECTED)
        if kind == SESSION:
            task = asyncio.get_running_loop().create_task(self._sessions.end_key(key, DISCONNECTED))
            self._background.add(task)
            task.add_done_callback(self._background.discard)
        self._wake.set()

    def _on_report_requested(self, payload: dict[str, Any]) -> None:
        self._wake.set()
