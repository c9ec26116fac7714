"""Circuit breaker: pauses requests to a failing service, then lets one caller probe it for all."""

from __future__ import annotations

import threading
import time


class CircuitOpen(Exception):
    """An error for a paused service; `seconds` remain, 0 while another caller probes it."""

    def __init__(self, failures: int, seconds: float) -> None:
        super().__init__(f"failed {failures} times in a row")
        self.failures, self.seconds = failures, seconds


class CircuitBreaker:
    """A circuit breaker: closed while the service answers, open after too many failures in a row. Thread-safe."""

    __slots__ = ("_lock", "_probing", "failures", "opened_until")

    def __init__(self) -> None:
        self.failures = 0
        self.opened_until = 0.0
        """On the monotonic clock; 0.0 while the circuit is closed."""
        self._probing = False
        self._lock = threading.Lock()

    @property
    def is_open(self) -> bool:
        return self.opened_until > 0

    def enter(self) -> bool:
        """Return whether this caller is the probe. Raises CircuitOpen while the service is paused."""
        if not self.opened_until:
            return False
        with self._lock:
            remaining = self.opened_until - time.monotonic()
            if remaining > 0 or self._probing:
                raise CircuitOpen(self.failures, max(0.0, remaining))
            self._probing = True
            return True

    def report_success(self) -> bool:
        """Close the circuit; return whether it was open."""
        if not self.failures:
            return False
        with self._lock:
            was_open = self.is_open
            self.failures, self.opened_until, self._probing = 0, 0.0, False
            return was_open

    def report_failure(self, after: int, seconds: float) -> None:
        """Count a failure; open the circuit for `seconds` after `after` failures in a row (0: never)."""
        with self._lock:
            self.failures += 1
            self._probing = False
            if after and self.failures >= after:
                self.opened_until = time.monotonic() + seconds

    def release_probe(self, probe: bool) -> None:
        """Let another caller probe when this probe ended without learning anything about the service."""
        if probe:
            self._probing = False
