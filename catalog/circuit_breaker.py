"""Circuit breaker: leaves what keeps failing alone for a while, then has one caller try for all."""

from __future__ import annotations

import threading
import time


class CircuitOpen(Exception):
    """The protected service is left alone for `seconds` more; 0 while another caller tries it."""

    def __init__(self, failures: int, seconds: float) -> None:
        super().__init__(f"failed {failures} times in a row")
        self.failures, self.seconds = failures, seconds


class CircuitBreaker:
    """Closed while the service answers, open after too many failures in a row. For any thread."""

    __slots__ = ("_lock", "_probing", "failures", "opened_until")

    def __init__(self) -> None:
        self.failures = 0
        self.opened_until = 0.0
        """By the monotonic clock; 0.0 while it is closed."""
        self._probing = False
        self._lock = threading.Lock()

    @property
    def is_open(self) -> bool:
        return self.opened_until > 0

    def enter(self) -> bool:
        """Return whether this caller is the one that tries. Raises CircuitOpen while the service is left alone."""
        if not self.opened_until:
            return False
        with self._lock:
            left = self.opened_until - time.monotonic()
            if left > 0 or self._probing:
                raise CircuitOpen(self.failures, max(0.0, left))
            self._probing = True
            return True

    def succeeded(self) -> bool:
        """Close the circuit; return whether it was open."""
        if not self.failures:
            return False
        with self._lock:
            was_open = self.is_open
            self.failures, self.opened_until, self._probing = 0, 0.0, False
            return was_open

    def failed(self, after: int, seconds: float) -> None:
        """Count a failure; open for `seconds` when they are `after` in a row (0: never)."""
        with self._lock:
            self.failures += 1
            self._probing = False
            if after and self.failures >= after:
                self.opened_until = time.monotonic() + seconds

    def gave_up(self, probe: bool) -> None:
        """Let another caller try when this one, which did, ended without learning anything about the service."""
        if probe:
            self._probing = False
