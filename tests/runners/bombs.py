"""Fork bombs that bound themselves, so that a supervisor that does nothing costs a test and not the machine.

Every fork takes one token from a pipe that all processes share; without one a process only waits, and every process
ends after some seconds.
"""

from __future__ import annotations

MAX_FORKS = 300
MAX_SECONDS = 60


def make_bomb(*, detached: bool = False, seconds: int = MAX_SECONDS) -> str:
    """Return the source of a program that forks in every process; `detached`: each child begins a session."""
    return f"""
import os, time
tokens, stock = os.pipe()
os.write(stock, b"." * {MAX_FORKS})
os.set_blocking(tokens, False)
end = time.monotonic() + {seconds}
while time.monotonic() < end:
    try:
        os.read(tokens, 1)
    except BlockingIOError:
        time.sleep(0.1)
        continue
    if os.fork() == 0 and {detached}:
        os.setsid()
"""
