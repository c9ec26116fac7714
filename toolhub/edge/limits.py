"""What one client may cost a worker process before it is identified: time, connections, and bytes."""

from __future__ import annotations

import resource
from dataclasses import dataclass

from django.conf import settings

from toolhub.rates import per_second

MAX_DESCRIPTORS = 65_536
"""The most descriptors that a worker asks for. Some programs that tools start close every possible one of them."""
SPARE_DESCRIPTORS = 256
"""Descriptors that clients never get: the database, the spool, Redis, upstreams, child processes, and probes."""
MAX_AUTOMATIC_CONNECTIONS = 10_000


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one worker process; the README explains each setting."""

    max_connections: int = 768
    max_connections_per_address: int = 256
    connections_per_second: float = 100.0
    """New connections of an address whose first requests are served; others wait. As many as it may have can come at
    once."""
    header_seconds: float = 15.0
    """From the first byte of a request (on a new connection: from its start) to the end of its headers; also the time
    in which `min_bytes_per_second` of a body must arrive."""
    websocket_header_seconds: float = 5.0
    keepalive_seconds: float = 75.0
    """Longer than the 60 s for which nginx keeps a connection: the one that sends the next request has to close it."""
    min_bytes_per_second: int = 1000
    slow_reader_seconds: float = 60.0
    max_held_bytes: int = 64_000_000
    """Bytes of large answers that wait for their readers; those of one address may have half of it."""
    frames_per_second: float = 2000.0
    """WebSocket frames of one user, on all of their connections together. A frame takes 12 us, and a request in it some
    200 when it is refused (measured)."""
    pings_per_second: float = 10.0
    """Pings and pongs of one WebSocket."""


def from_settings() -> Limits:
    """Return the limits of this process. Reads the limit of descriptors: call `raise_descriptor_limit` first."""
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    most = max(descriptors - SPARE_DESCRIPTORS, descriptors // 2)
    wanted = settings.MAX_CONNECTIONS or MAX_AUTOMATIC_CONNECTIONS
    return Limits(
        max_connections=min(wanted, most),
        max_connections_per_address=settings.MAX_CONNECTIONS_PER_ADDRESS,
        connections_per_second=per_second(settings.CONNECTIONS_RATE),
        header_seconds=settings.HEADER_SECONDS,
        websocket_header_seconds=min(settings.HEADER_SECONDS, settings.WEBSOCKET_HEADER_SECONDS),
        keepalive_seconds=settings.KEEPALIVE_SECONDS,
        min_bytes_per_second=settings.MIN_BYTES_PER_SECOND,
        slow_reader_seconds=settings.SLOW_READER_SECONDS,
        max_held_bytes=settings.MAX_UNREAD_BYTES,
        frames_per_second=per_second(settings.WEBSOCKET_FRAMES_RATE),
        pings_per_second=per_second(settings.WEBSOCKET_PINGS_RATE),
    )


def raise_descriptor_limit() -> None:
    """Raise the soft limit of open descriptors of this process to its hard limit, at most to MAX_DESCRIPTORS."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
