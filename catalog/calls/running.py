"""Calls that run in this process, for cancellations that name a call."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID


class RunningCalls:
    """The task of each running call, by the id of the call."""

    def __init__(self) -> None:
        self._tasks: dict[UUID, asyncio.Task[Any]] = {}

    def add(self, call_id: UUID, task: asyncio.Task[Any]) -> None:
        self._tasks[call_id] = task

    def remove(self, call_id: UUID) -> None:
        self._tasks.pop(call_id, None)

    def find(self, call_id: UUID) -> asyncio.Task[Any] | None:
        """Return the task that runs this call; None when it does not run here."""
        return self._tasks.get(call_id)
