"""Encryption of values at rest: with the first of TOOLHUB_ENCRYPTION_KEYS, readable with any of them.

An encrypted value names the row it belongs to, so that a value moved to another row in the database is rejected
there.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings

KEYS_HINT = (
    "Make one: python3 -c 'import base64, os; print(base64.urlsafe_b64encode(os.urandom(32)).decode())'. "
    "Keep it apart from the database and its copies: without it no secret can be read."
)


@dataclass(frozen=True, slots=True)
class OtherRows:
    """Encrypted values of other applications, which `rotatesecrets` re-encrypts with those of this one."""

    name: str
    """What they are, in the plural, for the operator."""
    rotate: Callable[[], int]
    """Re-encrypt each of them with the first key, and return their number; raises DecryptionError."""


@dataclass(frozen=True, slots=True)
class EveryOtherRow:
    """The values of all other applications; `toolhub.composition` names them."""

    kinds: tuple[OtherRows, ...] = ()


class DecryptionError(Exception):
    """An error for a value that none of our keys made, or that was made for another row."""


class KeysError(Exception):
    """An error for missing or unusable keys; the message says what is wrong with the setting."""


@lru_cache(maxsize=4)
def _keys(texts: tuple[str, ...]) -> MultiFernet:
    if not texts:
        raise KeysError("TOOLHUB_ENCRYPTION_KEYS (or TOOLHUB_ENCRYPTION_KEYS_FILE) is not set")
    made = []
    for number, text in enumerate(texts, 1):
        try:
            made.append(Fernet(text))
        except ValueError:
            raise KeysError(f"key {number} of TOOLHUB_ENCRYPTION_KEYS is not 32 bytes as url-safe base64") from None
    return MultiFernet(made)


def keys() -> MultiFernet:
    """Return the keys. Raises KeysError."""
    return _keys(tuple(settings.ENCRYPTION_KEYS))


def encrypt(value: str, owner: str) -> str:
    """Return `value` encrypted for the column of the row that `owner` names."""
    return keys().encrypt(json.dumps([owner, value]).encode()).decode("ascii")


def decrypt(stored: str, owner: str) -> str:
    """Return the decrypted value. Raises DecryptionError, also when the value was encrypted for another row."""
    try:
        whose, value = json.loads(keys().decrypt(stored.encode()))
    except (InvalidToken, ValueError, TypeError):
        raise DecryptionError(owner) from None
    if whose != owner:
        raise DecryptionError(owner)
    return str(value)
