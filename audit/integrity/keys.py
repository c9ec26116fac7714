"""The key that signs checkpoints. It comes from a setting and is never in the database."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings


@lru_cache(maxsize=4)
def _key(secret: str) -> Ed25519PrivateKey:
    seed = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"toolhub record checkpoints 1").derive(secret.encode())
    return Ed25519PrivateKey.from_private_bytes(seed)


def _secret() -> str:
    # Without RECORD_KEY the checkpoints are signed with a key derived from SECRET_KEY. That key is not in the database
    # either, but after a change of it older signatures no longer verify. A system check warns about this.
    return settings.RECORD_KEY or settings.SECRET_KEY


def sign(message: str) -> str:
    return _key(_secret()).sign(message.encode()).hex()


def verify(message: str, signature: str) -> bool:
    try:
        _key(_secret()).public_key().verify(bytes.fromhex(signature), message.encode())
    except (InvalidSignature, ValueError):
        return False
    return True


def key_name() -> str:
    """Return a name of the key that does not reveal it: the first 16 digits of the public key's SHA-256."""
    return sha256(_key(_secret()).public_key().public_bytes_raw()).hexdigest()[:16]
