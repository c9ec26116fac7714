"""For tests that record: the writer and its helpers end with the test, before its tables are emptied beneath them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from audit.recorder import AuditLog


def stop_audit_log() -> None:
    """Costs nothing when nothing was recorded. Called by tests/conftest.py after every test."""
    from audit.recorder import AuditLog
    from toolhub.parts import parts

    log = parts.find(AuditLog)
    if log is not None:
        log.stop_now(60.0)
    end_background_work()


def end_background_work() -> None:
    """Wait for the jobs of the audit log: their threads have names."""
    for thread in threading.enumerate():
        if thread.name.startswith("audit-"):
            thread.join(60.0)


@contextmanager
def replace_audit_log(call_log: str = "") -> Iterator[AuditLog]:
    """The audit log of this process is a new one for the length of the block."""
    from audit.recorder import AuditLog
    from toolhub.parts import parts

    before, log = parts.get(AuditLog), AuditLog(call_log)
    parts.put(log)
    try:
        yield log
    finally:
        log.stop_now(60.0)
        parts.put(before)
