"""Encryption of values at rest: with the first of TOOLHUB_ENCRYPTION_KEYS, readable with any of them.

An encrypted value names the row it belongs to, so that a value moved to another row in the database is rejected
there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TypeAlias

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings

from toolhub.parts import parts

KEYS_HINT = (
    "Make one: python3 -c 'import base64, os; print(base64.urlsafe_b64encode(os.urandom(32)).decode())'. "
    "Keep it apart from the database and its copies: without it no secret can be read."
)


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


Moved: TypeAlias = tuple[str, int]
"""What was re-encrypted, in words for the operator, and how many values."""


class EncryptedValues:
    """The functions that re-encrypt what the applications store encrypted, for `rotatesecrets`.

    Each runs in the transaction of the command, yields what it moved, and raises UnreadableValue.
    """

    def __init__(self) -> None:
        self.movers: list[Callable[[], Iterable[Moved]]] = []


class UnreadableValue(Exception):
    """An error for a stored value that no key can decrypt; the message names its row and what to do about it."""


def register(mover: Callable[[], Iterable[Moved]]) -> None:
    """Have `rotatesecrets` call this function: called from `AppConfig.ready`."""
    found = parts.find(EncryptedValues)
    if found is None:
        found = EncryptedValues()
        parts.put(found)
    found.movers.append(mover)


def move(stored: str, owner: str) -> str:
    """Return a stored value encrypted again, with the first key. Raises DecryptionError, KeysError."""
    return encrypt(decrypt(stored, owner), owner)


def move_or_refuse(stored: str, owner: str, sentence: str) -> str:
    """Return `move(stored, owner)`; where no key can read it, raise UnreadableValue with this sentence.

    Raises KeysError.
    """
    try:
        return move(stored, owner)
    except DecryptionError:
        raise UnreadableValue(sentence) from None
