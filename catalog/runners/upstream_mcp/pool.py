"""Open links, kept for the next call of the same user with the same credential and secrets; never for anyone else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from catalog.message_load import MessageLoads
from catalog.runners.upstream_mcp import notifications
from catalog.runners.upstream_mcp.connection import Connection, key_of
from catalog.runners.upstream_mcp.failures import UpstreamError
from catalog.runners.upstream_mcp.link import NO_CLIENT, Link, QuestionHandler
from toolhub.parts import parts

MAX_CALLS_PER_KEY = 4
"""Maximum number of concurrent calls of one user to one upstream; the others wait."""
MAX_LINKS_PER_USER = 16
MAX_LINKS = 128
MAX_IDLE_SECONDS = 120.0
MAX_AGE_SECONDS = 3600.0
"""The age in seconds from which on a link is not used for another call."""
LINGER_SECONDS = 1.0
"""Seconds that an abandoned link stays open for a last message: that the call is cancelled."""


@dataclass(slots=True)
class _Place:
    """The slots and idle links of one key."""

    user_id: int
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_CALLS_PER_KEY))
    idle: list[tuple[Link, float, asyncio.TimerHandle]] = field(default_factory=list)
    taken: int = 0


class Pool:
    """The links of one event loop."""

    def __init__(self) -> None:
        self._places: dict[str, _Place] = {}
        self._links: dict[Link, int] = {}
        """Every link that is open or being opened, with its user."""
        self._loads = MessageLoads()

    @asynccontextmanager
    async def borrow(
        self,
        connection: Connection,
        user_id: int,
        credential: str,
        secrets: Mapping[str, str],
        capabilities: Mapping[str, Any],
        questions: QuestionHandler,
    ) -> AsyncIterator[Link]:
        """Provide a link for one call alone. Raises UpstreamError.

        A link is not used again after an exception inside the block.
        """
        key = key_of(connection, secrets, user_id, credential, capabilities)
        place = self._places.setdefault(key, _Place(user_id))
        place.taken += 1
        try:
            async with place.slots:
                link = self._reuse(place) or await self._open(connection, user_id, secrets, capabilities)
                link.questions, link.refused = questions, False
                try:
                    yield link
                except BaseException:
                    self._drop(link, LINGER_SECONDS)
                    raise
                finally:
                    link.questions = NO_CLIENT
                if link.alive and time.monotonic() - link.opened_at < MAX_AGE_SECONDS:
                    self._put_back(place, key, link)
                else:
                    self._drop(link)
        finally:
            place.taken -= 1
            self._forget(key, place)

    async def close(self) -> None:
        links = list(self._links)
        for place in self._places.values():
            for _, _, handle in place.idle:
                handle.cancel()
            place.idle.clear()
        self._links.clear()
        await asyncio.gather(*(link.wait_closed() for link in links))

    def __len__(self) -> int:
        return len(self._links)

    def _reuse(self, place: _Place) -> Link | None:
        while place.idle:
            link, _, handle = place.idle.pop()
            handle.cancel()
            if link.alive:
                return link
            self._drop(link)
        return None

    async def _open(
        self, connection: Connection, user_id: int, secrets: Mapping[str, str], capabilities: Mapping[str, Any]
    ) -> Link:
        if list(self._links.values()).count(user_id) >= MAX_LINKS_PER_USER and not self._close_longest_idle(user_id):
            raise UpstreamError("Too many of your calls to other servers are running. Try again in a few seconds.")
        if len(self._links) >= MAX_LINKS and not self._close_longest_idle(None):
            raise UpstreamError("Too many connections to other servers are open. Try again in a few seconds.")
        used = {name: secrets[name] for name in connection.secret_names}
        load = self._loads.of(connection.upstream)
        link = Link(connection, used, capabilities, notifications.notify_changed, load)
        self._links[link] = user_id
        try:
            await link.open()
        except BaseException as error:
            self._drop(link)
            if isinstance(error, UpstreamError):
                notifications.notify_health(connection.upstream, error.audit_message)
            raise
        notifications.notify_health(connection.upstream, "")
        return link

    def _close_longest_idle(self, user_id: int | None) -> bool:
        """Close the link that has been idle the longest; return False if there is none."""
        idle = [
            (since, link, place, handle)
            for place in self._places.values()
            if user_id is None or place.user_id == user_id
            for link, since, handle in place.idle
        ]
        if not idle:
            return False
        since, link, place, handle = min(idle, key=lambda one: one[0])
        handle.cancel()
        place.idle.remove((link, since, handle))
        self._drop(link)
        return True

    def _put_back(self, place: _Place, key: str, link: Link) -> None:
        handle = asyncio.get_running_loop().call_later(MAX_IDLE_SECONDS, self._expire, key, link)
        place.idle.append((link, time.monotonic(), handle))

    def _expire(self, key: str, link: Link) -> None:
        place = self._places.get(key)
        if place is not None:
            place.idle = [entry for entry in place.idle if entry[0] is not link]
            self._forget(key, place)
        self._drop(link)

    def _drop(self, link: Link, linger: float = 0.0) -> None:
        self._links.pop(link, None)
        link.close(linger)

    def _forget(self, key: str, place: _Place) -> None:
        if not place.taken and not place.idle and self._places.get(key) is place:
            del self._places[key]


class UpstreamPools:
    """The pool of each event loop of this process."""

    def __init__(self) -> None:
        self._pools: dict[asyncio.AbstractEventLoop, Pool] = {}

    def current(self) -> Pool:
        """Return the pool of the running loop."""
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            for ended in [other for other in self._pools if other.is_closed()]:
                del self._pools[ended]
            pool = self._pools[loop] = Pool()
        return pool

    async def close(self) -> None:
        """Close the links of the running loop."""
        pool = self._pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            await pool.close()


def current_pool() -> Pool:
    """Return the pool of the running loop; see `UpstreamPools.current`."""
    return parts.get(UpstreamPools).current()


async def close() -> None:
    """Close the links of the running loop; see `UpstreamPools.close`."""
    await parts.get(UpstreamPools).close()
