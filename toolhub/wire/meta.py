"""Names of `_meta` keys: an optional prefix of labels, a slash, and a name (2026-07-28, basic, `_meta`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

OWN_PREFIX: Final = "dev.toolhub/"
"""The prefix, in reverse DNS notation, of the keys that this server adds to results."""
CALL_ID: Final = f"{OWN_PREFIX}callId"
RETRY_AFTER: Final = f"{OWN_PREFIX}retryAfterSeconds"

MAX_KEY_CHARACTERS: Final = 300
_KEY: Final = re.compile(
    r"(?:(?P<prefix>[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*)/)?"
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?"
)
_RESERVED_LABELS: Final = frozenset({"modelcontextprotocol", "mcp"})
_RESERVED_NAMES: Final = frozenset({"progressToken"})


def is_valid(key: str) -> bool:
    """Return whether the protocol allows `key` as a key of `_meta`."""
    return 0 < len(key) <= MAX_KEY_CHARACTERS and _KEY.fullmatch(key) is not None


def is_reserved(key: str) -> bool:
    """Return whether `key` belongs to the protocol itself.

    Any prefix whose second label is `modelcontextprotocol` or `mcp` does, also in the spelling of earlier drafts,
    `modelcontextprotocol.io/`.
    """
    labels = key.partition("/")[0].lower().split(".") if "/" in key else []
    return key in _RESERVED_NAMES or not _RESERVED_LABELS.isdisjoint(labels[:2])


def foreign(meta: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the members of a tool's or an upstream server's `_meta` that may go to a client.

    Reserved keys are between two parties of the protocol, the keys of this server are its own, and others are invalid.
    """
    return {
        key: value
        for key, value in (meta or {}).items()
        if is_valid(key) and not is_reserved(key) and not key.lower().startswith(OWN_PREFIX)
    }
