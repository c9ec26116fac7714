"""Privacy of this process from others of the same user: programs of tools run as that user."""

from __future__ import annotations

import ctypes
import logging
import os

PR_SET_DUMPABLE = 4
log = logging.getLogger(__name__)


def hide_memory() -> None:
    """Hide the memory and the environment of this process from others of its user.

    /proc/PID/environ would tell every key, /proc/PID/mem even more, and a debugger could take over. Root with
    CAP_SYS_PTRACE or CAP_PERFMON still sees them; containers run without these by default. Programs that this process
    starts are not affected. It leaves no core dump.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        log.warning("the memory of this process cannot be hidden: %s", os.strerror(ctypes.get_errno()))
