"""What comes round by itself and takes long: the chain's check, retention, counting. Never in the writer's thread.

What a writer does now and then: closes what dead processes left, signs checkpoints, starts upkeep.
"""

from __future__ import annotations

import logging
import threading
import time

from django.db import DatabaseError, connection

from audit import retention
from audit.integrity import checkpoints, scheduled
from audit.queries import rollups
from audit.writing.recovery import Recovery
from audit.writing.writer import Writer

logger = logging.getLogger("audit")

EVERY = 60.0
_next = time.monotonic() + EVERY
_lock = threading.Lock()
_thread: threading.Thread | None = None


def now_and_then() -> bool:
    """Called often, costs nothing: once a minute a thread looks whether anything is due. True when it does."""
    global _next, _thread
    with _lock:
        now = time.monotonic()
        if now < _next:
            return False
        _next = now + EVERY
        _thread = threading.Thread(target=look, name="audit-upkeep", daemon=True)
        _thread.start()
    return True


def wait(timeout: float) -> None:
    """Until what `now_and_then` began is done (a test)."""
    if _thread is not None:
        _thread.join(timeout)


def look() -> None:
    try:
        scheduled.scheduled()
        retention.scheduled()
        rollups.scheduled()
    except (DatabaseError, OSError):
        # The database may be away: the next minute looks again.
        logger.exception("the upkeep of the record failed")
    finally:
        connection.close()


class Chores:
    def __init__(self) -> None:
        self._recovery = Recovery()

    def now_and_then(self, writer: Writer) -> None:
        """With every heartbeat, and when the chain was opened."""
        store = writer.store
        assert store is not None  # noqa: S101
        self._recovery.run(writer)
        if checkpoints.due(store):
            checkpoints.sign(store)
        now_and_then()

    def at_the_end(self, writer: Writer) -> None:
        assert writer.store is not None  # noqa: S101
        checkpoints.sign(writer.store)
