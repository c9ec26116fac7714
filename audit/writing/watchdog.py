"""Watchdog of the writer, in a separate thread.

When the database hangs, calls are rejected and outcomes are spooled, although the writer's thread is blocked.

When disk space runs short, calls are rejected while there is still enough of it to end the running ones.
"""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from threading import Event, Thread

from django.conf import settings
from django.db import connections

from audit.writing.queue import EntryQueue

logger = logging.getLogger("audit")


def log_folders() -> tuple[Path, ...]:
    """Return the folders in which the audit log grows: the data folder, and the folder of an SQLite database."""
    found = [Path(settings.DATA_DIR)]
    database = connections["default"].settings_dict
    if "sqlite3" in str(database["ENGINE"]):
        found.append(Path(str(database["NAME"])).absolute().parent)
    return tuple(dict.fromkeys(found))


def disk_shortage(places: tuple[Path, ...]) -> str:
    """Return why there is not enough disk space, or an empty text."""
    for place in places:
        try:
            status = os.statvfs(place)
        except FileNotFoundError:
            continue  # created with the first file in it
        except OSError as error:
            return f"the disk of {place.name} cannot be read ({error.strerror})"
        free = status.f_bavail * status.f_frsize // 1_000_000
        if free < settings.MIN_FREE_MB:
            return f"the disk is almost full ({free} MB left, {settings.MIN_FREE_MB} MB are kept free)"
    return ""


TICK_SECONDS = 0.2
MARGIN_SECONDS = 0.8
"""Part of `RECORD_SECONDS` reserved for a tick and the spool's sync; a commit may take the rest."""


class Watchdog:
    def __init__(self, queue: EntryQueue) -> None:
        self._queue = queue
        self._wake = Event()
        self._stopped = False
        self._places = log_folders()
        self._thread = Thread(target=self._run, name="audit-watchdog", daemon=True)

    def start(self) -> None:
        queue = self._queue
        queue.disk_problem = disk_shortage(self._places)
        self._thread.start()

    def wake(self) -> None:
        self._wake.set()

    def stop(self) -> None:
        self._stopped = True
        self._wake.set()
        self._thread.join(5)

    def _run(self) -> None:
        next_check = 0.0
        while not self._stopped:
            self._wake.wait(TICK_SECONDS)
            self._wake.clear()
            try:
                now = time.monotonic()
                if now >= next_check:
                    next_check = now + 1.0
                    self._check_disk()
                self._queue.watch(now, max(TICK_SECONDS, settings.RECORD_SECONDS - MARGIN_SECONDS))
            except Exception:
                logger.exception("the watchdog of the audit log failed; it goes on")

    def _check_disk(self) -> None:
        shortage = disk_shortage(self._places)
        if shortage != self._queue.disk_problem:
            if bool(shortage) != bool(self._queue.disk_problem):
                logger.warning("calls are denied: %s", shortage) if shortage else logger.info(
                    "calls are accepted again"
                )
            self._queue.disk_problem = shortage
            self._queue.update_availability()
