"""Names of `_meta` keys: an optional prefix of labels, a slash, and a name (2026-07-28, basic, `_meta`)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

OWN_PREFIX: Final = "dev.toolhub/"
"""The prefix, in reverse DNS notation, of the keys that this server adds to results."""
CALL_ID: Final = f"{OWN_PREFIX}callId"
PROBLEMS: Final = f"{OWN_PREFIX}problems"
APPROVAL: Final = f"{OWN_PREFIX}approval"
LIMITS: Final = f"{OWN_PREFIX}limits"
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


TRACEPARENT: Final = "traceparent"
_TRACEPARENT: Final = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_TRACE_TEXT: Final = {"tracestate": re.compile(r"[\x20-\x7e]{1,512}"), "baggage": re.compile(r"[\x20-\x7e]{1,8192}")}
"""The bounds of W3C Trace Context (3.3.1.5) and W3C Baggage (3.3.2)."""
MAX_FORWARDED_CHARACTERS: Final = 8_192
"""Maximum characters of a vendor's value as JSON."""


def find_rule_problem(name: str) -> str | None:
    """Return why a list of keys to forward cannot name this key: "reserved", "invalid", "always"; None when it can.

    `com.example/*` names all keys with that prefix.
    """
    key = name.removesuffix("*") if name.endswith("/*") else name
    if not is_valid(key):
        return "invalid"
    if key == TRACEPARENT:
        return "always"
    return "reserved" if is_reserved(key) or key.lower().startswith(OWN_PREFIX) else None


def forwarded(meta: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the members of a caller's `_meta` that go on to an upstream server.

    `traceparent` always does, if it is valid; other keys when `names` lists them. A trace state without its parent
    means nothing (W3C Trace Context, 3.3), and neither reserved keys nor values that are too large are passed on.
    """
    parent = meta.get(TRACEPARENT)
    traced = isinstance(parent, str) and _TRACEPARENT.fullmatch(parent) is not None
    found = {TRACEPARENT: parent} if traced else {}
    for name in names:
        prefix = name.removesuffix("*") if name.endswith("/*") else None
        for key in [one for one in meta if one.startswith(prefix)] if prefix else [name]:
            if key in meta and find_rule_problem(key) is None and _may_go(key, meta[key], traced=traced):
                found[key] = meta[key]
    return found


def _may_go(key: str, value: Any, *, traced: bool) -> bool:
    if key in _TRACE_TEXT:
        fits = isinstance(value, str) and _TRACE_TEXT[key].fullmatch(value) is not None
        return fits and (traced or key != "tracestate")
    return len(json.dumps(value)) <= MAX_FORWARDED_CHARACTERS
