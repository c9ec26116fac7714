"""Connections to checked addresses, kept for the next request to the same host.

The checked address is the one that is connected to, while Host, SNI and the certificate keep the name: a later DNS
answer cannot redirect a connection.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cache
from typing import Final, TypeAlias

import httpcore2
import httpx2
from django.conf import settings
from django.utils.translation import gettext_noop as _

from .addresses import AllowList, check_address, is_address
from .errors import DeniedAddress, PrivateAddress, Unreachable

MAX_POOLS: Final = 128
MAX_CONNECTIONS: Final = 32
"""Maximum number of connections per host, so that one slow host never blocks the others."""
KEEP_ALIVE_SECONDS: Final = 5.0

log = logging.getLogger(__name__)

Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]


class CheckedBackend(httpcore2.AnyIOBackend):
    """A network backend that connects to addresses only, and to none before all addresses of the name are checked."""

    def __init__(self, allowed: AllowList, resolver: Resolver) -> None:
        self._allowed = allowed
        self._resolve = resolver

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        if is_address(host):
            addresses: Sequence[str] = [host]
            check_address(host, port, self._allowed)
        else:
            addresses = await self._addresses(host, port)
        # One dead address of several must not use up the whole deadline.
        patience = timeout if len(addresses) == 1 else 3.0
        for address in addresses[:-1]:
            try:
                return await super().connect_tcp(address, port, patience, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await super().connect_tcp(addresses[-1], port, timeout, local_address, socket_options)

    async def _addresses(self, host: str, port: int) -> Sequence[str]:
        try:
            addresses = await self._resolve(host, port)
        except (OSError, UnicodeError):
            addresses = ()
        if not addresses:
            raise Unreachable(_("%(host)s cannot be found"), host=host)
        for address in addresses:
            try:
                check_address(address, port, self._allowed)
            except DeniedAddress as denied:
                log.warning("%s leads to %s: %s", host, address, denied.reason)
                raise PrivateAddress(
                    _(
                        "%(host)s does not resolve to a public address. Add its network to "
                        "TOOLHUB_ALLOW_PRIVATE_NETWORKS and restart"
                    ),
                    host=host,
                ) from None
        return addresses


_Key: TypeAlias = tuple[AllowList, Resolver, ssl.SSLContext | None, bytes, bytes, int | None]


@cache
def default_ssl_context() -> ssl.SSLContext:
    context = httpx2.create_ssl_context(trust_env=False)
    if settings.CA_FILE:
        context.load_verify_locations(settings.CA_FILE)
    return context


def new_pool(
    allowed: AllowList,
    resolver: Resolver,
    ssl_context: ssl.SSLContext | None,
    max_connections: int = MAX_CONNECTIONS,
    keep_alive_seconds: float = KEEP_ALIVE_SECONDS,
) -> httpcore2.AsyncConnectionPool:
    """Return a pool whose connections go to checked addresses. Every outgoing request has one of these."""
    return httpcore2.AsyncConnectionPool(
        ssl_context=ssl_context or default_ssl_context(),
        max_connections=max_connections,
        max_keepalive_connections=max_connections // 4,
        keepalive_expiry=keep_alive_seconds,
        network_backend=CheckedBackend(allowed, resolver),
    )


class ConnectionPools:
    """The open connections of one event loop: a pool per host and per list of allowed networks; no cookies, no logins.

    They belong to the first loop that uses them.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pools: OrderedDict[_Key, httpcore2.AsyncConnectionPool] = OrderedDict()

    def __len__(self) -> int:
        return len(self._pools)

    def belong_to_running_loop(self) -> bool:
        """Return whether the running loop may use these pools."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        return self._loop is loop

    async def pool_for(
        self, target: httpx2.URL, allowed: AllowList, resolver: Resolver, ssl_context: ssl.SSLContext | None
    ) -> httpcore2.AsyncConnectionPool:
        """Return the pool of this host, created on demand; an idle pool is closed when there are too many."""
        key = (allowed, resolver, ssl_context, target.raw_scheme, target.raw_host, target.port)
        pool = self._pools.get(key)
        if pool is not None:
            self._pools.move_to_end(key)
            return pool
        if len(self._pools) >= MAX_POOLS:
            for old, idle in list(self._pools.items()):
                if all(connection.is_idle() for connection in idle.connections):
                    del self._pools[old]
                    await idle.aclose()
                    break
        pool = self._pools[key] = new_pool(allowed, resolver, ssl_context)
        return pool

    async def close(self) -> None:
        """Close every connection; later requests open new ones. Does nothing on another loop."""
        if self._loop is not asyncio.get_running_loop():
            return
        pools = list(self._pools.values())
        self._pools.clear()
        for pool in pools:
            await pool.aclose()
