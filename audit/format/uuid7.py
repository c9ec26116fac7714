"""UUIDv7 identifiers, which order by time and cannot be guessed."""

from __future__ import annotations

import os
from threading import Lock
from uuid import UUID

from audit.format.timestamps import now_ms

_POOL_BYTES = 4096


class _IdGenerator:
    """A generator that reads random bytes from the kernel in large blocks: one system call for hundreds of ids."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.reset()

    def reset(self) -> None:
        self.random, self.used, self.last, self.count = b"", 0, 0, 0

    def next(self) -> int:
        with self.lock:
            if self.used >= len(self.random):
                self.random, self.used = os.urandom(_POOL_BYTES), 0
            noise = int.from_bytes(self.random[self.used : self.used + 8], "big") & 0x3FFF_FFFF_FFFF_FFFF
            self.used += 8
            ms = now_ms()
            if ms > self.last:
                self.last, self.count = ms, 0
            else:
                # The same millisecond, or a clock that was set back: keep counting to preserve the order.
                self.count += 1
                if self.count > 0xFFF:
                    self.last, self.count = self.last + 1, 0
            return (self.last << 80) | (0x7000 | self.count) << 64 | (0x8000_0000_0000_0000 | noise)


_generator = _IdGenerator()


def new_id() -> UUID:
    return UUID(int=_generator.next())


def as_hex(value: object) -> str:
    """Return the hexadecimal digits of an id that SQLite (text) or PostgreSQL (UUID) returned."""
    return value.hex if isinstance(value, UUID) else str(value)


def first_id_of(ms: int) -> UUID:
    """Return the smallest id that could have been created at that time in milliseconds: the boundary for retention."""
    return UUID(int=(ms << 80) | (0x7000 << 64) | 0x8000_0000_0000_0000)


def _after_fork() -> None:
    # A child must never repeat the parent's future random bytes, nor inherit a lock that a thread held.
    _generator.lock = Lock()
    _generator.reset()


os.register_at_fork(after_in_child=_after_fork)
