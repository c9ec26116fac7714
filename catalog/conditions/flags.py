"""Named flags: switches that grants refer to. On for nobody, for everybody, or for a stable share of the users."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from catalog.conditions.mistakes import FlagError

NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")
MAX_FLAGS: Final = 20


def parse(data: Any) -> frozenset[str]:
    """Return the names of the flags of a grant from their JSON. Raises FlagError."""
    if not isinstance(data, list):
        raise FlagError("not_list")
    if len(data) > MAX_FLAGS:
        raise FlagError("too_many", most=MAX_FLAGS)
    for number, name in enumerate(data, 1):
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise FlagError("name", number)
    return frozenset(data)


def is_on(name: str, percentage: int, user_id: int) -> bool:
    """Return whether a flag that is on for this percentage of the users is on for this one.

    Each user keeps the answer as long as the percentage stays, and keeps "on" when it grows. Each flag has other users:
    the place of a user follows from the name as well.
    """
    return _place(name, user_id) < percentage


def are_on(names: Iterable[str], percentages: Mapping[str, int], user_id: int, *, unknown: bool) -> bool:
    """Return whether all these flags are on for a user. `unknown` is the answer for a flag that does not exist."""
    return all(is_on(name, percentages[name], user_id) if name in percentages else unknown for name in names)


def _place(name: str, user_id: int) -> int:
    """Return the place of a user among those of a flag: 0 to 99, spread evenly."""
    digest = hashlib.sha256(f"{name}:{user_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") * 100 >> 64
