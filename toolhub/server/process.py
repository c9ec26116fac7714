"""The server role's first and last moments in a process: start what listens and watches, stop without losing a call."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from audit import recorder
from catalog.policy import snapshot
from catalog.upstreams import schedule
from toolhub.server import bus, list_changes, presence, requests, revocation, state, subscribers, task_runner
from toolhub.server.live import calls, connect_check, subscriptions

log = logging.getLogger(__name__)

_loop: asyncio.AbstractEventLoop | None = None
_latest: asyncio.AbstractEventLoop | None = None
_stopped: asyncio.AbstractEventLoop | None = None
_starting: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None
_snapshot_news: list[Callable[[], None]] = []


def needs_start() -> bool:
    """Whether nothing was started yet on the running loop. Cheap: asked before every request."""
    loop = asyncio.get_running_loop()
    return _loop is not loop and _stopped is not loop


async def start() -> None:
    """Load the catalogue and start listening to news; harmless when called again.

    Not every server has a start-up hook, so the first request does this too.
    """
    global _latest, _loop, _starting, _stopped
    loop = asyncio.get_running_loop()
    if _starting is None or _starting[0] is not loop:
        _starting = loop, asyncio.Lock()
    async with _starting[1]:
        if _loop is loop:
            return
        await bus.start()
        if _latest is not None and _latest is not loop:
            # What belonged to a loop that is gone (only tests have several) can neither be told nor cancelled.
            requests.reset()
            subscribers.reset()
        _latest = loop
        await snapshot.ensure()
        _forget()
        _snapshot_news.append(snapshot.listen(lambda _: subscribers.decide_all()))
        list_changes.start()
        revocation.start()
        presence.start()
        task_runner.start()
        schedule.start()
        calls.connect()
        requests.accept()
        subscribers.decide_all()  # streams may have been opened before the catalogue was there
        _loop, _stopped = loop, None


async def stop(seconds: float) -> None:
    """Accept nothing new, end what listens, let running calls finish for at most `seconds`, cancel the rest."""
    global _loop, _stopped
    _stopped = asyncio.get_running_loop()  # whatever still comes in must not start everything anew
    requests.refuse()
    subscribers.close_all()
    await calls.stop()
    await subscriptions.stop()
    connect_check.reset()
    cancelled = await requests.drain(seconds)
    if cancelled:
        log.warning("Stopping: %d requests were cancelled after %g s", cancelled, seconds)
    await revocation.stop()
    await presence.stop()
    await task_runner.stop()
    await schedule.stop()
    await recorder.stop(10.0)
    _forget()
    await snapshot.stop()
    await bus.stop()
    await state.close()
    _loop = None


def _forget() -> None:
    while _snapshot_news:
        _snapshot_news.pop()()
