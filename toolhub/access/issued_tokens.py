"""The usable tokens in memory, to tell invented tokens from issued ones without a query for each.

An address that sent too many invalid tokens gets no look-up for another invented one. A valid token from the same
address is looked up all the same, however many invalid ones come beside it. A flood costs at most one small query a
second, which reads the tokens that were created since the last one.
"""

from __future__ import annotations

import threading
import time

from toolhub.access.kinds import CredentialKind

FRESH_SECONDS = 1.0
"""Seconds for which the memory answers without asking for newer tokens."""
RELOAD_SECONDS = 5.0
"""Minimum seconds between two complete reads."""
MAX_AGE_SECONDS = 3600.0
"""Seconds after which everything is read again, so that tokens which ended are not kept for ever."""
OVERLAP_IDS = 1_000
"""Ids before the newest one that are read again: a token may be committed after one with a higher id."""


class IssuedTokens:
    """The first half of the digest of every usable token of a kind, as this process last read them."""

    def __init__(self, kind: CredentialKind) -> None:
        self._kind = kind
        self._lock = threading.Lock()
        self._digests: set[str] | None = None
        self._newest_id = 0
        self._read_at = self._loaded_at = float("-inf")
        self._outdated = False

    def rules_out(self, digest: str) -> bool:
        """Return whether no usable token has this digest, as far as memory can tell now; never blocks."""
        known = self._digests
        fresh = time.monotonic() - self._read_at < FRESH_SECONDS and not self._outdated
        return known is not None and fresh and _short(digest) not in known

    def has(self, digest: str) -> bool:
        """Return whether a usable token has this digest, in a thread. Raises the errors of the database."""
        with self._lock:
            known = self._refresh()
            return _short(digest) in known

    def expire(self) -> None:
        """Read everything again, soon: a token may have become usable again."""
        self._outdated = True

    def _refresh(self) -> set[str]:
        now = time.monotonic()
        known = self._digests
        age = now - self._loaded_at
        if known is None or age >= (RELOAD_SECONDS if self._outdated else MAX_AGE_SECONDS):
            self._outdated = False
            rows = self._kind.list_issued(0)
            known = self._digests = {_short(digest) for _pk, digest in rows}
            self._loaded_at = self._read_at = now
            self._newest_id = max((pk for pk, _digest in rows), default=0)
        elif now - self._read_at >= FRESH_SECONDS:
            rows = self._kind.list_issued(self._newest_id - OVERLAP_IDS)
            known |= {_short(digest) for _pk, digest in rows}
            self._read_at = now
            self._newest_id = max((pk for pk, _digest in rows), default=self._newest_id)
        return known


def _short(digest: str) -> str:
    return digest[:16]
