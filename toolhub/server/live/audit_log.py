"""Live updates of the whole audit log: which windows of auditors to notify that any call began or ended.

A message has no content: the page reads the changed rows itself, with its own filters and permission. All calls of a
second are one message, however many they are.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

MAX_WATCHERS = 200
"""Maximum windows of a process that watch the audit log: each may read a page of it every second."""
NOTIFY_SECONDS = 1.0
"""Minimum seconds between two messages to all windows."""
MAX_FAILED_POLLS = 3
"""Failed polls in a row after which the windows are closed, so that their pages say so and connect again."""


class AuditorWindow(Protocol):
    """A window of an auditor."""

    @property
    def announce(self) -> Callable[[], None]:
        """Tell the window that the audit log changed, after a new check of its rights."""

    @property
    def interrupt(self) -> Callable[[], None]:
        """Close the window's connection, so that its page says so and connects again."""


class LogWatch:
    """The windows that watch the whole audit log, and the position of the log that they were notified of."""

    def __init__(self) -> None:
        self.watchers: set[AuditorWindow] = set()
        self.fresh: set[AuditorWindow] = set()
        """Windows without any message so far."""
        self.position: dict[int, int] | None = None
        self.notified_at = 0.0
        self.failed_polls = 0

    def is_full(self) -> bool:
        return len(self.watchers) >= MAX_WATCHERS

    def add(self, watcher: AuditorWindow) -> None:
        self.watchers.add(watcher)
        self.fresh.add(watcher)

    def remove(self, watcher: AuditorWindow) -> None:
        self.watchers.discard(watcher)
        self.fresh.discard(watcher)
        if not self.watchers:
            self.position = None

    def notify(self, position: dict[int, int]) -> None:
        """Notify the windows that this is the position of the log; those that know it hear nothing."""
        self.failed_polls = 0
        now = time.monotonic()
        due = set(self.fresh)
        if position != self.position and now - self.notified_at >= NOTIFY_SECONDS:
            due |= self.watchers
            self.position, self.notified_at = position, now
        self.fresh.clear()
        for watcher in due:
            watcher.announce()

    def on_failed_poll(self) -> None:
        self.failed_polls += 1
        if self.failed_polls >= MAX_FAILED_POLLS:
            self.failed_polls = 0
            for watcher in list(self.watchers):
                watcher.interrupt()
