"""Revocation on what is already open: within five seconds, streams and sockets close and running calls end.

Three ways lead here, the slowest of which always works: the signal in the process that revoked, the news to the other
workers, and a look at the database every two seconds for every credential that has something open.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from catalog.errors import ACCESS_REVOKED
from toolhub.access import bearer, signals
from toolhub.server import bus, requests, subscribers

log = logging.getLogger(__name__)

REVOKED = "access.revoked"
WATCH_SECONDS = 2.0

_hurry: asyncio.Event | None = None
_watching: asyncio.Task[None] | None = None


def start() -> None:
    """Watch on the running loop."""
    global _hurry, _watching
    _hurry = asyncio.Event()
    _watching = asyncio.get_running_loop().create_task(_watch(_hurry), name="revocation watch")
    signals.revoked.connect(_revoked, dispatch_uid="toolhub.server.revocation")


async def stop() -> None:
    global _watching
    watching, _watching = _watching, None
    if watching is not None:
        watching.cancel()
        await asyncio.wait([watching], timeout=5.0)


async def look() -> None:
    """Close and cancel what belongs to credentials that are no longer good."""
    open_now = {**subscribers.credentials(), **requests.credentials()}
    if not open_now:
        return
    good = await bearer.still_valid(open_now)
    gone = open_now.keys() - good
    if gone:
        log.info("Access was revoked for %s: closing what is open", ", ".join(sorted(gone)))
        subscribers.close_credentials(gone, ACCESS_REVOKED)
        requests.cancel_credentials(set(gone), ACCESS_REVOKED)


async def _watch(hurry: asyncio.Event) -> None:
    while True:
        try:
            async with asyncio.timeout(WATCH_SECONDS):
                await hurry.wait()
        except TimeoutError:
            pass
        hurry.clear()
        try:
            await look()
        except Exception:
            # A watch that dies would let a revoked stream live on; it tries again in two seconds.
            log.exception("Could not check the credentials of open streams")


def _revoked(credentials: tuple[str, ...] = (), users: tuple[int, ...] = (), **_: Any) -> None:
    """The signal, in whichever thread revoked."""
    bus.tell_from_thread(REVOKED, {"credentials": list(credentials), "users": list(users)})


def _news(payload: dict[str, Any]) -> None:
    for credential in payload.get("credentials") or ():
        bearer.forget(str(credential))
    for user in payload.get("users") or ():
        bearer.forget(int(user))
    if _hurry is not None:
        _hurry.set()


bus.on(REVOKED, _news)
