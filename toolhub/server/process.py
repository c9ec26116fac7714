"""The MCP server role of one process: its parts, and their start and stop order."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from catalog.policy import snapshot
from toolhub import client_address
from toolhub.access.bearer import Authenticator
from toolhub.jobs import JobStatus
from toolhub.refusals import Refusals
from toolhub.server.bus import Bus
from toolhub.server.channels import Channels
from toolhub.server.clients import Clients
from toolhub.server.list_changes import ListChanges
from toolhub.server.live.calls import CallWindows
from toolhub.server.live.connect_check import ConnectCheck
from toolhub.server.live.subscriptions import PageSubscriptions
from toolhub.server.presence import Presence
from toolhub.server.request_rates import RequestRates, TooManyRequests
from toolhub.server.requests import RequestsInFlight
from toolhub.server.revocation import RevocationWatch
from toolhub.server.sessions import Sessions
from toolhub.server.state import SharedState
from toolhub.server.subscribers import Subscribers
from toolhub.server.task_runner import TaskRunner
from toolhub.server.turns import Turns
from toolhub.server.update_collector import UpdateCollector

log = logging.getLogger(__name__)


class ServerRole:
    """The parts of this process that hold state of its clients; inactive before `start`."""

    def __init__(
        self, start_process: Callable[[], Awaitable[None]], job_status: Callable[[], list[JobStatus]] = list
    ) -> None:
        """Build the parts; `start_process` starts the whole process, and the first authenticated request awaits it.

        `job_status` returns the state of the process's background jobs, for the page about all processes.
        """
        self.start_process = start_process
        self.needs_start = True
        self.refusals = Refusals()
        """What the bounds of this process refused, cut or slowed down."""
        self.rates = RequestRates()
        self.turns = Turns()
        self.authenticator = Authenticator()
        self.bus = Bus()
        self.state = SharedState()
        self.sessions = Sessions(self.bus, self.state)
        # When a session ends, its streams are closed first, then its client is removed, then its requests end.
        self.subscribers = Subscribers(self.bus, self.sessions, self.state)
        self.update_collector = UpdateCollector(self.subscribers)
        self.clients = Clients(self.bus, self.subscribers)
        self.requests = RequestsInFlight(self.bus)
        self.channels = Channels(self.bus, self.sessions)
        self.tasks = TaskRunner(self.bus, self.subscribers, self.requests)
        self.list_changes = ListChanges(self.bus)
        self.revocation = RevocationWatch(self.bus, self.subscribers, self.requests, self.authenticator)
        self.presence = Presence(self.bus, self.clients, self.requests, self.sessions, job_status)
        self.pages = PageSubscriptions(self.bus)
        self.calls = CallWindows(self.bus, self.pages)
        self.connect_check = ConnectCheck(self.bus, self.pages)
        self._stop_listening: Callable[[], None] | None = None

    def refuse(self, reason: str, address: str, username: str = "") -> None:
        """Count what a bound did to a client at this address, for the user whose bound it is."""
        self.refusals.add(reason, client_address.counted(address), username)

    def count_refusal(self, error: Exception, address: str, username: str) -> None:
        """Count an error that answers a request of this user, if one of their bounds is the cause."""
        if isinstance(error, TooManyRequests):
            self.refuse(error.bound, address, username)

    async def start(self) -> None:
        """Load the catalogue and subscribe to bus messages, on the running loop."""
        await self.bus.start()
        await snapshot.ensure()
        self._stop_listening = snapshot.listen(lambda _: self.subscribers.decide_all())
        self.list_changes.start()
        self.update_collector.start()
        self.revocation.start()
        self.presence.start()
        self.tasks.start()
        self.calls.start()
        self.needs_start = False
        self.subscribers.decide_all()  # streams may have been opened before the catalogue was loaded

    async def drain(self, seconds: float) -> None:
        """Accept no new work, end subscriptions, let running calls finish for at most `seconds`, cancel the others."""
        self.needs_start = False  # later requests must not start everything again
        self.requests.stop_accepting()
        self.subscribers.close_all()
        await self.calls.stop()
        await self.pages.stop()
        self.connect_check.clear()
        cancelled = await self.requests.drain(seconds)
        if cancelled:
            log.warning("Stopping: %d requests were cancelled after %g s", cancelled, seconds)

    async def stop(self) -> None:
        """Stop the watching parts, after `drain`. Bus messages are still sent until `close`."""
        await self.revocation.stop()
        await self.presence.stop()
        await self.tasks.stop()

    async def close(self) -> None:
        """Close the connections to the other workers and to the database."""
        self.list_changes.stop()
        self.update_collector.stop()
        if self._stop_listening is not None:
            self._stop_listening()
            self._stop_listening = None
        await snapshot.stop()
        await self.bus.stop()
        await self.state.close()
        await self.authenticator.close()
