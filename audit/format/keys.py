"""Keys of the audit log: they sign checkpoints and authenticate hash chains. They are never in the database.

Both come from TOOLHUB_RECORD_KEY: an Ed25519 key, so that a checkpoint can be verified with the public key alone, and a
key for HMAC-SHA256, which costs a microsecond for each transaction. TOOLHUB_RECORD_OLD_KEYS lists earlier values of it,
newest first, or only their public keys ("ed25519:" and 64 hexadecimal digits).
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

from audit.format.chain import compute_mac

PUBLIC_PREFIX: Final = "ed25519:"
MIN_CHARACTERS: Final = 32
_PUBLIC_KEY = re.compile(PUBLIC_PREFIX + r"([0-9a-f]{64})")


def _derive(secret: str, info: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(secret.encode())


@lru_cache(maxsize=16)
def _signing_key(secret: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(_derive(secret, b"toolhub record checkpoints 1"))


@lru_cache(maxsize=16)
def _mac_key(secret: str) -> bytes:
    return _derive(secret, b"toolhub record links 1")


class NoKeys(RuntimeError):
    """Keys are needed in a process that has none: an isolated function can change nothing that the log covers."""

    def __init__(self) -> None:
        super().__init__(
            "an isolated function has no key of the audit log, so it cannot change tools, users, tokens and other rows "
            "whose changes are logged. Turn off 'isolated' for it."
        )


def require() -> None:
    """Raise NoKeys in a process without keys."""
    if settings.KEYLESS:
        raise NoKeys


def _secret() -> str:
    require()
    # Without RECORD_KEY the checkpoints are signed with a key derived from SECRET_KEY. That key is not in the database
    # either, but after a change of it older signatures no longer verify. A system check warns about this.
    return settings.RECORD_KEY or settings.SECRET_KEY


def _secrets() -> list[str]:
    return [_secret(), *(key for key in settings.RECORD_OLD_KEYS if not key.startswith(PUBLIC_PREFIX))]


def sign(message: str) -> str:
    return _signing_key(_secret()).sign(message.encode()).hex()


def mac_key() -> bytes:
    """Return the key of the keyed digests that this installation makes now."""
    return _mac_key(_secret())


def make_mac(text: str) -> str:
    """Return the keyed digest of the text."""
    return compute_mac(mac_key(), text)


def is_authentic(text: str, mac: str) -> bool:
    """Return whether this installation made the keyed digest, with its key or with a listed earlier one."""
    given = str(mac).encode("utf-8", "surrogatepass")
    return any(hmac.compare_digest(compute_mac(_mac_key(key), text).encode(), given) for key in _secrets())


def key_name(public: Ed25519PublicKey | None = None) -> str:
    """Return a name of the key (this installation's by default): the first 16 digits of the public key's SHA-256."""
    public = public or _signing_key(_secret()).public_key()
    return sha256(public.public_bytes_raw()).hexdigest()[:16]


def public_key() -> str:
    """Return this installation's public key as text: `ed25519:` and 64 hexadecimal digits."""
    return PUBLIC_PREFIX + _signing_key(_secret()).public_key().public_bytes_raw().hex()


def parse_public_key(text: str) -> Ed25519PublicKey:
    """Return the key. Raise ValueError when the text is no public key."""
    found = _PUBLIC_KEY.fullmatch(text.strip().lower())
    if not found:
        raise ValueError(
            f"{text[:80]!r} is not a public key. It starts with {PUBLIC_PREFIX} and has 64 hexadecimal digits"
        )
    return Ed25519PublicKey.from_public_bytes(bytes.fromhex(found[1]))


@dataclass(frozen=True, slots=True)
class TrustedKeys:
    """Public keys whose checkpoints are believed, newest first. They never come from the database."""

    keys: tuple[tuple[str, Ed25519PublicKey], ...]
    """(name, key)."""
    has_secrets: bool
    """Whether this installation's own secrets are trusted as well, which authenticate entries without a checkpoint."""

    @classmethod
    def from_settings(cls) -> TrustedKeys:
        """Return the key of this installation and the earlier ones. Raise ValueError when the setting is invalid."""
        return _from_settings(_secret(), tuple(settings.RECORD_OLD_KEYS))

    @classmethod
    def from_file(cls, path: Path) -> TrustedKeys:
        """Return the keys in a file, one per line, newest first; text after a blank is a comment.

        Raise ValueError when a line is no public key or there is none, OSError when the file cannot be read.
        """
        lines = [line.split()[0] for line in path.read_text(encoding="utf-8").splitlines() if _is_key_line(line)]
        if not lines:
            raise ValueError(f"{path} contains no public key")
        return cls(_with_names(map(parse_public_key, lines)), False)

    @property
    def names(self) -> Sequence[str]:
        return [name for name, _ in self.keys]

    def find_rank(self, name: str) -> int | None:
        """Return 0 for the newest key, 1 for the one before, and so on; None for an unknown key."""
        return next((rank for rank, (known, _) in enumerate(self.keys) if known == name), None)

    def verify(self, name: str, message: str, signature: str) -> bool:
        """Return whether the key with that name signed the message."""
        rank = self.find_rank(name)
        if rank is None:
            return False
        try:
            self.keys[rank][1].verify(bytes.fromhex(signature), message.encode())
        except (InvalidSignature, ValueError):
            return False
        return True


def _is_key_line(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _with_names(keys: Iterable[Ed25519PublicKey]) -> tuple[tuple[str, Ed25519PublicKey], ...]:
    return tuple((key_name(key), key) for key in keys)


@lru_cache(maxsize=4)
def _from_settings(secret: str, old: tuple[str, ...]) -> TrustedKeys:
    earlier = (
        parse_public_key(key) if key.startswith(PUBLIC_PREFIX) else _signing_key(key).public_key() for key in old
    )
    return TrustedKeys(_with_names([_signing_key(secret).public_key(), *earlier]), True)
