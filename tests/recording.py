"""For tests that record: the writer and its helpers end with the test, before its tables are emptied beneath them."""

from __future__ import annotations

import sys


def end_the_record() -> None:
    """Costs nothing when nothing was recorded. Called by tests/conftest.py after every test."""
    recorder = sys.modules.get("audit.recorder")
    if recorder is not None:
        recorder.stop_now(60.0)
    # The first may have started the others.
    for name in ("audit.maintenance", "audit.queries.rollups", "audit.integrity.scheduled", "audit.retention"):
        if (module := sys.modules.get(name)) is not None:
            module.wait(60.0)
