"""Revocation of open connections: within five seconds, streams and sockets close and running calls end.

There are three triggers, the slowest of which always works: the signal in the revoking process, the bus message to the
other workers, and a database check every two seconds for every credential with open connections or calls.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from catalog.errors import ACCESS_REVOKED
from toolhub.access import signals
from toolhub.access.bearer import Authenticator
from toolhub.server.bus import Bus
from toolhub.server.requests import RequestsInFlight
from toolhub.server.subscribers import Subscribers

log = logging.getLogger(__name__)

REVOKED = "access.revoked"
CHECK_INTERVAL_SECONDS = 2.0


class RevocationWatch:
    """Ends connections and calls of credentials that are no longer valid."""

    def __init__(
        self, bus: Bus, subscribers: Subscribers, requests: RequestsInFlight, authenticator: Authenticator
    ) -> None:
        self._bus, self._subscribers, self._requests, self._authenticator = bus, subscribers, requests, authenticator
        self._hurry = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        bus.on(REVOKED, self._on_revocation_message)

    def start(self) -> None:
        """Watch on the running loop."""
        self._watching = asyncio.get_running_loop().create_task(self._watch(), name="revocation watch")
        signals.revoked.connect(self._on_revoked)

    async def stop(self) -> None:
        """Stop watching."""
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.cancel()
            await asyncio.wait([watching], timeout=5.0)
        signals.revoked.disconnect(self._on_revoked)

    async def close_revoked(self) -> None:
        """Close and cancel everything of credentials that are no longer valid.

        Streams and sockets also close when their access token expires, although its app may go on with another one.
        Streams and sockets of a token whose toolsets were changed close too: their client connects anew. Its calls and
        tasks continue unless the token sees less than at their start.
        """
        self._subscribers.close_expired(time.time(), ACCESS_REVOKED)
        open_now = {**self._subscribers.credentials(), **self._requests.credentials()}
        if not open_now:
            return
        valid = await self._authenticator.filter_valid(open_now)
        invalid = open_now.keys() - valid
        if invalid:
            log.info("Access was revoked for %s: closing what is open", ", ".join(sorted(invalid)))
            self._subscribers.close_credentials(invalid, ACCESS_REVOKED)
            self._requests.cancel_credentials(set(invalid), ACCESS_REVOKED)

        attached = self._subscribers.restrictions()
        outdated = attached - await self._authenticator.filter_current(attached)
        if outdated:
            names = ", ".join(sorted(name for name, _ in outdated))
            log.info("Toolsets were changed for %s: closing what is open", names)
            self._subscribers.close_restrictions(outdated, ACCESS_REVOKED)

        running = self._requests.restrictions()
        narrowed = running - await self._authenticator.filter_current(running, or_wider=True)
        if narrowed:
            names = ", ".join(sorted(name for name, _ in narrowed))
            log.info("%s may use fewer toolsets: cancelling what runs", names)
            self._requests.cancel_restrictions(narrowed, ACCESS_REVOKED)

    async def _watch(self) -> None:
        while True:
            try:
                async with asyncio.timeout(CHECK_INTERVAL_SECONDS):
                    await self._hurry.wait()
            except TimeoutError:
                pass
            self._hurry.clear()
            try:
                await self.close_revoked()
            except Exception:
                # A stopped watch would keep a revoked stream open; it tries again in two seconds.
                log.exception("Could not check the credentials of open streams")

    def _on_revoked(
        self, credentials: tuple[str, ...] = (), users: tuple[int, ...] = (), superseded: bool = False, **_: Any
    ) -> None:
        """Handle the signal, in the revoking thread."""
        payload = {"credentials": list(credentials), "users": list(users), "superseded": superseded}
        self._bus.publish_from_thread(REVOKED, payload)

    def _on_revocation_message(self, payload: dict[str, Any]) -> None:
        for credential in payload.get("credentials") or ():
            self._authenticator.forget(str(credential))
        for user in payload.get("users") or ():
            self._authenticator.forget(int(user))
        if payload.get("superseded"):
            self._subscribers.close_credentials(map(str, payload.get("credentials") or ()), ACCESS_REVOKED)
        self._hurry.set()
