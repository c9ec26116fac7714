"""Tells those who wait in their event loops, from whatever thread knows."""

from __future__ import annotations

import asyncio
import contextlib

from audit.attempts import CannotRecord
from audit.entries import Entry


def resolve(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)


def reject(futures: list[asyncio.Future[None]], why: str) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(CannotRecord(why))


def wake(entries: list[Entry], why: str = "") -> None:
    """The entries are durable; or they are not, and why."""
    for entry in entries:
        loop, future, entry.future = entry.loop, entry.future, None
        if loop is None or future is None:
            continue
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            if why:
                loop.call_soon_threadsafe(reject, [future], why)
            else:
                loop.call_soon_threadsafe(resolve, [future])
