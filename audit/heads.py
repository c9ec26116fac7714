"""Where the chains end, and the signed statement of it that can be kept outside the database."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from audit import chain, keys

Heads = dict[int, tuple[int, str]]
"""writer -> (sequence, hash)"""


def heads_text(heads: Heads) -> str:
    return chain.encode({str(writer): list(heads[writer]) for writer in sorted(heads)})


def read_heads(text: str) -> Heads:
    return {int(writer): (int(sequence), str(digest)) for writer, (sequence, digest) in json.loads(text).items()}


@dataclass(frozen=True, slots=True)
class Head:
    """One checkpoint."""

    number: int
    at: int
    heads: str
    previous: str
    hash: str
    key: str
    signature: str

    @classmethod
    def sign(cls, number: int, at: int, heads: str, previous: str) -> Head:
        digest = _digest(number, at, heads, previous)
        return cls(number, at, heads, previous, digest, keys.name(), keys.sign(digest))

    @property
    def fits(self) -> bool:
        """Whether the hash is that of what it covers."""
        return self.hash == _digest(self.number, self.at, self.heads, self.previous)

    @property
    def signed(self) -> bool:
        return self.fits and keys.verifies(self.hash, self.signature)

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
    def parse(cls, line: str) -> Head:
        """Raises ValueError when the line is no checkpoint."""
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


def read_file(path: Path) -> list[Head]:
    """The checkpoints in a file, oldest first: JSON lines, wherever a log has put something before the brace."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        start = line.find('{"checkpoint":')
        if start >= 0:
            found.append(Head.parse(line[start:]))
    if not found:
        raise ValueError(f"{path} holds no checkpoint")
    return sorted(found, key=lambda head: head.number)
