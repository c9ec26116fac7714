"""Watches the writer from a thread of its own: when the database hangs, calls are refused and outcomes are spooled,
although the thread that waits for the database cannot move.
"""

from __future__ import annotations

import time
from threading import Event, Thread
from typing import TYPE_CHECKING

from django.conf import settings

from audit import space
from audit.logs import logger

if TYPE_CHECKING:
    from audit.queueing import EntryQueue

TICK = 0.2
MARGIN = 0.8
"""Seconds of `RECORD_SECONDS` that are for a tick and the spool's sync; the rest may pass until a commit."""


class Guard:
    def __init__(self, writer: EntryQueue) -> None:
        self._writer = writer
        self._wake = Event()
        self._stopped = False
        self._places = space.log_folders()
        self._thread = Thread(target=self._run, name="record-guard", daemon=True)

    def start(self) -> None:
        writer = self._writer
        writer.crowded = space.disk_shortage(self._places)
        self._thread.start()

    def hurry(self) -> None:
        self._wake.set()

    def stop(self) -> None:
        self._stopped = True
        self._wake.set()
        self._thread.join(5)

    def _run(self) -> None:
        next_look = 0.0
        while not self._stopped:
            self._wake.wait(TICK)
            self._wake.clear()
            try:
                now = time.monotonic()
                if now >= next_look:
                    next_look = now + 1.0
                    self._look_at_the_disk()
                self._writer.watch(now, max(TICK, settings.RECORD_SECONDS - MARGIN))
            except Exception:  # noqa: BLE001
                logger.exception("the guard of the record failed; it goes on")

    def _look_at_the_disk(self) -> None:
        shortage = space.disk_shortage(self._places)
        if shortage != self._writer.crowded:
            if bool(shortage) != bool(self._writer.crowded):
                logger.warning("calls are refused: %s", shortage) if shortage else logger.info(
                    "calls are accepted again"
                )
            self._writer.crowded = shortage
            self._writer.decide()
