"""Kinds of credentials behind bearer tokens: how each is recognised, looked up, checked again and revoked.

Personal access tokens are one; `toolhub.oauth` adds the apps that a person connected with a sign-in. All methods ask
the database in the thread that calls them, and raise its errors.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any, Protocol

from django.db.models import QuerySet

from audit.types import Credential


class Revocable(Protocol):
    """A stored credential, whose text is its name on pages."""

    def revoke(self) -> bool:
        """Revoke it; return False if it was revoked before. Caches forget it after the commit."""


class CredentialKind(Protocol):
    """A kind of credentials. The id of one is a prefix of the kind, a colon and a key: "token:12"."""

    @property
    def prefixes(self) -> frozenset[str]:
        """Prefixes of the ids."""

    @property
    def pattern(self) -> re.Pattern[str]:
        """The complete text of its tokens."""

    def look_up(self, digest: str) -> Credential:
        """Return the credential of the token with this SHA-256. Raises BadToken when it is not valid now."""

    def list_issued(self, after: int) -> list[tuple[int, str]]:
        """Return (primary key, SHA-256) of the usable tokens with a higher primary key."""

    def filter_usable(self, keys: Collection[int]) -> set[int]:
        """Return the keys of those that are valid now."""

    def find_toolsets(self, keys: Collection[int]) -> dict[int, set[int] | None]:
        """Return, for those that exist, the toolsets that each is restricted to; None: no restriction."""

    def mark_used(self, key: int, address: str) -> None:
        """Store that a client used it now, from this address, unless that was stored within the last minute."""

    def find(self, key: int) -> Revocable | None:
        """Return the stored credential, or None."""


def collect_toolsets(stored: QuerySet[Any]) -> dict[int, set[int] | None]:
    """Return by key the toolsets of these rows, which have the fields `restricted` and `toolsets`; None: all."""
    found: dict[int, set[int] | None] = {}
    for key, restricted, toolset in stored.values_list("pk", "restricted", "toolsets"):
        known = found.setdefault(key, set() if restricted else None)
        if known is not None and toolset is not None:
            known.add(toolset)
    return found


def group_keys(credential_ids: Iterable[str], kind: CredentialKind) -> dict[int, set[str]]:
    """Return the ids of this kind by their keys: "token:12" and "stdio:12" have the same one."""
    found: dict[int, set[str]] = {}
    for text in credential_ids:
        prefix, _colon, key = text.partition(":")
        if prefix in kind.prefixes and key.isdecimal() and len(key) < 19:
            found.setdefault(int(key), set()).add(text)
    return found


def key_of(credential: Credential) -> int:
    return int(credential.id.partition(":")[2])
