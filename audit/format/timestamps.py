"""Times as the audit log stores them: whole milliseconds since 1970, in UTC."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def from_ms(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


def to_ms(at: datetime) -> int:
    return (at - EPOCH) // _MILLISECOND


def is_whole(at: datetime) -> bool:
    """Return whether the time has no smaller parts than milliseconds, as every time that the log writes."""
    return at.microsecond % 1000 == 0


@lru_cache(maxsize=4)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))


def sql_text(ms: int) -> str:
    """Return the time as Django writes it to SQLite, so that both compare equal: `2026-01-02 03:04:05.678000`."""
    return f"{_second(ms // 1000)}.{ms % 1000:03d}000"
