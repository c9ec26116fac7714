"""The thread of a process that counts in quotas: one transaction for all calls that wait for it.

Each transaction waits for the disk. While one does, the calls that arrive are collected, and the next one decides about
all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from django.db import DatabaseError, InterfaceError, connections

from catalog.metering import quotas
from catalog.metering.quotas import Charge, Order, QuotaReached, Usage

MAX_ORDERS: Final = 200
"""Calls that one transaction decides about."""
LINGER_SECONDS: Final = 0.2
"""How long the thread, and its connection to the database, wait for another call."""


@dataclass(slots=True, eq=False)
class _Waiting:
    order: Order
    answer: Future[list[Usage]] = field(default_factory=Future)


class QuotaWriter:
    """The thread, which is there only while calls count in quotas."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: list[_Waiting] = []
        self._is_running = False

    async def take(self, charges: Sequence[Charge], at: datetime) -> list[Usage]:
        """Run `quotas.take`. Raises QuotaReached, DatabaseError.

        A cancelled call counts, unless it is cancelled while it still waits for its transaction.
        """
        return await self._settle(Order(tuple(charges), at))

    async def add(self, charges: Sequence[Charge], at: datetime) -> None:
        """Run `quotas.add`. Raises DatabaseError."""
        await self._settle(Order(tuple(charges), at, can_refuse=False))

    async def _settle(self, order: Order) -> list[Usage]:
        waiting = _Waiting(order)
        with self._changed:
            self._waiting.append(waiting)
            self._changed.notify()
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._work, name="quotas", daemon=True).start()
        return await asyncio.wrap_future(waiting.answer)

    def _work(self) -> None:
        try:
            while batch := self._next_batch():
                _answer(batch)
        except BaseException:
            with self._changed:
                self._is_running = False  # the next call starts another thread
            raise
        finally:
            connections.close_all()

    def _next_batch(self) -> list[_Waiting]:
        """Return the calls that wait; none when nobody came for a while, and the thread ends."""
        with self._changed:
            if not self._waiting:
                self._changed.wait(LINGER_SECONDS)
            batch, self._waiting = self._waiting[:MAX_ORDERS], self._waiting[MAX_ORDERS:]
            if not batch:
                self._is_running = False
            return batch


def _answer(batch: Sequence[_Waiting]) -> None:
    """Decide about these calls together; where the database fails, all of them hear it."""
    asked = [one for one in batch if one.answer.set_running_or_notify_cancel()]
    try:
        answers = quotas.settle([one.order for one in asked])
    except BaseException as error:  # noqa: BLE001 - it belongs to the calls that wait
        for one in asked:
            one.answer.set_exception(error)
        with contextlib.suppress(DatabaseError, InterfaceError, OSError):
            connections.close_all()  # the next transaction gets a connection that works
        return
    for one, answer in zip(asked, answers, strict=True):
        if isinstance(answer, QuotaReached):
            one.answer.set_exception(answer)
        else:
            one.answer.set_result(answer)
