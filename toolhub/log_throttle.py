"""Warnings that are logged at most once per interval."""

from __future__ import annotations

import logging
import time

INTERVAL_SECONDS = 60.0


class ThrottledWarning:
    """A throttled warning of one object: an outage must not fill the log with one line per request."""

    __slots__ = ("_again_at", "_logger", "_seconds")

    def __init__(self, logger: logging.Logger, seconds: float = INTERVAL_SECONDS) -> None:
        self._logger, self._seconds = logger, seconds
        self._again_at = float("-inf")

    def warn(self, message: str, *args: object) -> bool:
        """Log the warning, unless one was logged less than `seconds` ago; return whether it was logged.

        Callable from any thread.
        """
        now = time.monotonic()
        if now < self._again_at:
            return False
        self._again_at = now + self._seconds
        self._logger.warning(message, *args)
        return True

    def rearm(self) -> None:
        """Log the next warning at once, because the cause has succeeded in between."""
        self._again_at = float("-inf")
