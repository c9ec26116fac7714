"""What this app needs from rooms it may not import; `toolhub.composition` fills it in at start."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID


def _none(user_id: int) -> frozenset[int]:
    return frozenset()


def _nothing_granted(user_id: int) -> bool:
    return False


def _nothing_runs(call_id: UUID, reason: str) -> None:
    return


cancel_call: Callable[[UUID, str], None] = _nothing_runs
"""Have a running call ended, whichever worker runs it, with this reason on its record. Promises nothing."""
reaches_anything: Callable[[int], bool] = _nothing_granted
"""Whether a client of this user would find anything: a tool, a resource or a prompt."""
toolsets_for: Callable[[int], frozenset[int]] = _none
"""The toolsets (primary keys) of which this user may use something: what a token of theirs can be restricted to."""
