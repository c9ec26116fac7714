"""What comes round by itself and takes long: the chain's check, retention, counting. Never in the writer's thread."""

from __future__ import annotations

import threading
import time

from django.db import DatabaseError, connection

from audit import checking, retention, tallies
from audit.logs import logger

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
        checking.scheduled()
        retention.scheduled()
        tallies.scheduled()
    except (DatabaseError, OSError):
        # The database may be away: the next minute looks again.
        logger.exception("the upkeep of the record failed")
    finally:
        connection.close()
