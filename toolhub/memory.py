"""What a process gives back of the memory that it no longer uses, with functions of the GNU C library.

Other C libraries have no such functions, and stay as they are.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import time
from pathlib import Path

log = logging.getLogger(__name__)

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
"""Parameters of mallopt(3)."""
LARGE_BYTES = 1 << 20
MAX_ARENAS = 2
MAX_GROWTH_BYTES, MAX_AGE_SECONDS = 32_000_000, 300.0
"""Growth and age after which free pages inside the heaps are looked for again. Meanwhile, for up to 50 ms, no other
thread can allocate."""


def return_large_buffers() -> None:
    """Have large buffers given back as soon as they are freed. Must run before there are threads.

    By itself glibc keeps up to 64 MB in each arena once a buffer of 30 MB was freed, and has eight arenas per core: a
    few answers of 30 MB from different threads left 180 MB behind, and now 35 MB (measured).
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    for parameter, value in (
        (M_MMAP_THRESHOLD, LARGE_BYTES),
        (M_TRIM_THRESHOLD, LARGE_BYTES),
        (M_ARENA_MAX, MAX_ARENAS),
    ):
        if not mallopt(parameter, value):
            log.warning("The C library refused mallopt(%d, %d): more freed memory is kept.", parameter, value)


class FreePages:
    """The free pages inside the heaps of this process: smaller objects leave them, and glibc keeps them."""

    def __init__(self) -> None:
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        self._note()

    def give_back(self) -> None:
        """Give them back if the last time is long ago, or the process has grown since."""
        if self._trim is None:
            return
        # Growth alone does not tell: what was in use the last time may be free now, and the process no smaller for it.
        if time.monotonic() >= self._at + MAX_AGE_SECONDS or resident_bytes() >= self._bytes + MAX_GROWTH_BYTES:
            # Python looks for cycles among older objects only after two million new ones, as serving processes are set.
            gc.collect()
            self._trim(0)
            self._note()

    def _note(self) -> None:
        self._bytes, self._at = resident_bytes(), time.monotonic()


def resident_bytes() -> int:
    """Return the memory of this process that is in RAM; 0 where /proc does not say."""
    try:
        pages = Path("/proc/self/statm").read_text().split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
