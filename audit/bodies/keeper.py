"""The thread that keeps whole results, after their calls are durable.

The call and its digest are the log; this is a copy of the text beside it. So nothing here may delay a call: results
wait in a bounded queue, those that do not fit are not kept, and the server log counts them. The page of such a call
says which part of its result is kept.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable
from threading import Condition, Thread
from uuid import UUID

from django.db import DatabaseError, InterfaceError, connection

from audit.bodies import whole
from audit.writing.entries import Entry
from toolhub.log_throttle import ThrottledWarning

logger = logging.getLogger(__name__)

MAX_WAITING_CHARACTERS = 64_000_000
"""Maximum characters of all results that wait; a single one may have as many as the setting allows."""
MAX_ATTEMPTS = 5
RETRY_SECONDS = 1.0


class BodyKeeper:
    """The queue of whole results and the thread that writes them."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[UUID, str, str]] = deque()
        """Call, digest, text."""
        self._characters = 0
        self._changed = Condition()
        self._thread: Thread | None = None
        self._writing = False
        self._hurried = False
        self._dropped = 0
        self._why = ""
        self._warning = ThrottledWarning(logger)

    def put(self, entries: Iterable[Entry]) -> None:
        """Queue the whole results of ended calls. Return at once and never raise."""
        for entry in entries:
            ending = entry.ending
            if ending is None or not ending.whole:
                continue
            text, ending.whole = ending.whole, ""
            with self._changed:
                if self._waiting and self._characters + len(text) > MAX_WAITING_CHARACTERS:
                    self._dropped, self._why = self._dropped + 1, "more results end than can be written"
                    continue
                self._waiting.append((entry.id, ending.result_sha256, text))
                self._characters += len(text)
                if self._thread is None:
                    self._start()
                self._changed.notify_all()

    def _start(self) -> None:
        """Start the thread. Where the system has none left, the next result tries again."""
        thread = Thread(target=self._run, name="audit-bodies", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            self._dropped, self._why = self._dropped + len(self._waiting), str(error)
            self._waiting.clear()
            self._characters = 0
        else:
            self._thread = thread

    def flush(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds, and return whether everything is written or given up."""
        with self._changed:
            self._hurried = True
            self._changed.notify_all()
            done = self._changed.wait_for(lambda: not self._waiting and not self._writing, timeout)
            self._hurried = False
            return done

    def _run(self) -> None:
        """Keep what waits, then end: most processes have nothing to keep for a long time."""
        while True:
            if not self._waiting:
                connection.close()
                self._warn()
            with self._changed:
                self._writing = bool(self._waiting)
                if not self._waiting:
                    self._thread = None
                    self._changed.notify_all()
                    return
                call_id, digest, text = self._waiting.popleft()
                self._characters -= len(text)
            self._keep(call_id, digest, text)
            del text

    def _keep(self, call_id: UUID, digest: str, text: str) -> None:
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                whole.keep(call_id, digest, text)
                return
            except whole.Full:
                self._why = "TOOLHUB_MAX_WHOLE_BODIES_MB is used up"
                break
            except (DatabaseError, InterfaceError, OSError) as error:
                connection.close()
                self._why = type(error).__name__
            except Exception as error:  # noqa: BLE001 - one result must not end the thread
                self._why = type(error).__name__
                break
            if attempt < MAX_ATTEMPTS:
                with self._changed:
                    self._changed.wait_for(lambda: self._hurried, RETRY_SECONDS)
        self._dropped += 1

    def _warn(self) -> None:
        if self._dropped and self._warning.warn(
            "%d whole results were not kept (%s); their calls have the beginning", self._dropped, self._why
        ):
            self._dropped, self._why = 0, ""
