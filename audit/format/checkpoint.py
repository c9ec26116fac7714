"""A checkpoint: the heads of the hash chains that grew, with a signature that needs only the public key to verify."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Protocol

from audit.format import chain, keys, timestamps
from audit.format.keys import TrustedKeys

Heads = dict[int, tuple[int, str]]
"""writer -> (sequence, hash)."""


def heads_text(heads: Heads) -> str:
    return chain.encode({str(writer): list(heads[writer]) for writer in sorted(heads)})


def read_heads(text: str) -> Heads:
    return {int(writer): (int(sequence), str(digest)) for writer, (sequence, digest) in json.loads(text).items()}


class CheckpointRow(Protocol):
    number: int
    at: datetime
    heads: str
    previous: str
    hash: str
    key: str
    signature: str


@dataclass(frozen=True, slots=True)
class SignedCheckpoint:
    """One checkpoint."""

    number: int
    at: int
    heads: str
    previous: str
    hash: str
    key: str
    signature: str

    @classmethod
    def sign(cls, number: int, at: int, heads: str, previous: str) -> SignedCheckpoint:
        digest = _digest(number, at, heads, previous)
        return cls(number, at, heads, previous, digest, keys.key_name(), keys.sign(digest))

    @classmethod
    def from_row(cls, row: CheckpointRow) -> SignedCheckpoint:
        """Return the checkpoint in a row of the database."""
        at = timestamps.to_ms(row.at)
        return cls(row.number, at, row.heads, row.previous, row.hash, row.key, row.signature)

    @property
    def hash_matches(self) -> bool:
        """Whether the hash matches the values that it covers."""
        return self.hash == _digest(self.number, self.at, self.heads, self.previous)

    @property
    def is_signed(self) -> bool:
        """Whether this installation signed it, with its key or a listed earlier one."""
        return self.is_signed_by(TrustedKeys.from_settings())

    def is_signed_by(self, trusted: TrustedKeys) -> bool:
        return self.hash_matches and trusted.verify(self.key, self.hash, self.signature)

    def line(self) -> str:
        return chain.encode(
            {
                "checkpoint": self.number,
                "at": self.at,
                "heads": json.loads(self.heads),
                "previous": self.previous,
                "hash": self.hash,
                "key": self.key,
                "signature": self.signature,
            }
        )

    @classmethod
    def parse(cls, line: str) -> SignedCheckpoint:
        """Parse a JSON line. Raise ValueError when it is not a checkpoint."""
        try:
            data: dict[str, Any] = json.loads(line)
            return cls(
                int(data["checkpoint"]),
                int(data["at"]),
                chain.encode(data["heads"]),
                str(data["previous"]),
                str(data["hash"]),
                str(data["key"]),
                str(data["signature"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a checkpoint: {line[:60]}") from error


def _digest(number: int, at: int, heads: str, previous: str) -> str:
    return sha256(f"{number} {at} {previous} {heads}".encode()).hexdigest()
