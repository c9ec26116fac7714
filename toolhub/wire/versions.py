"""The protocol revisions of this server, stateful and stateless: enumerations, never compared as strings."""

from __future__ import annotations

from typing import Final

HANDSHAKE: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Stateful revisions: they begin with `initialize` and may keep a session; oldest first."""

MODERN: Final = ("2026-07-28",)
"""Stateless revisions: every request carries its own envelope in `params._meta`."""

ALL: Final = HANDSHAKE + MODERN
LATEST_HANDSHAKE: Final = HANDSHAKE[-1]
LATEST_MODERN: Final = MODERN[-1]

DEFAULT_WITHOUT_HEADER: Final = "2025-03-26"
"""The revision of a stateful client without an MCP-Protocol-Version header and without a session."""

BATCHING_REVISIONS: Final = frozenset({"2025-03-26"})
"""The only revision with JSON-RPC batches."""

AGE: Final = {revision: age for age, revision in enumerate(ALL)}
"""Position of a revision in time, for comparisons such as "at least this revision"."""

LOG_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Log levels, least severe first (RFC 5424)."""

LOG_SEVERITY: Final = {level: severity for severity, level in enumerate(LOG_LEVELS)}


def negotiate(requested: object) -> str:
    """Return the revision that `initialize` answers with.

    It is the requested one if the server supports it, else the newest stateful one.
    """
    if isinstance(requested, str) and requested in HANDSHAKE:
        return requested
    return LATEST_HANDSHAKE


def is_at_least(revision: str, than: str) -> bool:
    return AGE[revision] >= AGE[than]
