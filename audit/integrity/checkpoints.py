"""Checkpoints: signed statements of the heads of all hash chains, which can be stored outside the database.

The heads of all chains are signed at intervals, after which the deletion of earlier entries is detected.
"""

from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from django.conf import settings

from audit.format import chain, timestamps
from audit.integrity import keys
from audit.writing import sql
from audit.writing.stores.base import KeyTaken, Store, StoreUnavailable

logger = logging.getLogger("audit")

Heads = dict[int, tuple[int, str]]
"""writer -> (sequence, hash)."""


def heads_text(heads: Heads) -> str:
    return chain.encode({str(writer): list(heads[writer]) for writer in sorted(heads)})


def read_heads(text: str) -> Heads:
    return {int(writer): (int(sequence), str(digest)) for writer, (sequence, digest) in json.loads(text).items()}


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

    @property
    def hash_matches(self) -> bool:
        """Whether the hash matches the values that it covers."""
        return self.hash == _digest(self.number, self.at, self.heads, self.previous)

    @property
    def is_signed(self) -> bool:
        return self.hash_matches and keys.verify(self.hash, self.signature)

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


def read_file(path: Path) -> list[SignedCheckpoint]:
    """Return the checkpoints in a file, oldest first: JSON lines, which may have a log prefix before the brace.

    Raise ValueError when the file contains none.
    """
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        start = line.find('{"checkpoint":')
        if start >= 0:
            found.append(SignedCheckpoint.parse(line[start:]))
    if not found:
        raise ValueError(f"{path} contains no checkpoint")
    return sorted(found, key=lambda checkpoint: checkpoint.number)


def is_due(store: Store) -> bool:
    last = store.fetch(sql.LAST_CHECKPOINT)
    return not last or timestamps.now_ms() - store.decode_time(last[0][1]) >= settings.CHECKPOINT_SECONDS * 1000


def sign(store: Store) -> SignedCheckpoint | None:
    """Sign the heads that changed since the last checkpoint.

    Return None when none changed, or when another process signs at the same time.
    """
    store.begin()
    try:
        last = store.fetch(sql.LAST_CHECKPOINT)
        heads: Heads = {}
        for writer, ended, covered in store.fetch(sql.UNSEALED):
            found = store.fetch(sql.HEAD, (chain.link_id(writer, 0), chain.link_id(writer + 1, 0)))
            if not found:
                continue
            sequence, digest = int(found[0][0]), str(found[0][1])
            if sequence > covered:
                heads[writer] = sequence, digest
            if sequence > covered or ended is not None:
                store.execute(sql.COVER, (sequence, ended is not None, writer))
        if not heads:
            store.commit()
            return None
        number, previous = (int(last[0][0]) + 1, str(last[0][2])) if last else (1, chain.START_HASH)
        checkpoint = SignedCheckpoint.sign(number, timestamps.now_ms(), heads_text(heads), previous)
        signed_at = store.encode_time(checkpoint.at)
        store.execute(
            sql.CHECKPOINT,
            (number, signed_at, checkpoint.heads, previous, checkpoint.hash, checkpoint.key, checkpoint.signature),
        )
        store.commit()
    except StoreUnavailable:
        raise
    except KeyTaken:
        store.rollback()
        logger.info("checkpoint %d was signed by another process", number)
        return None
    except BaseException:
        store.rollback()
        raise
    publish(checkpoint)
    return checkpoint


def publish(checkpoint: SignedCheckpoint) -> None:
    """Write the checkpoint to the server log, and to a file if one is set.

    Both are beyond the reach of the database's administrator.
    """
    line = checkpoint.line()
    logger.info("%s", line)
    if not settings.CHECKPOINT_FILE:
        return
    path = Path(settings.CHECKPOINT_FILE)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        try:
            os.write(descriptor, f"{line}\n".encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        logger.error("checkpoint %d is not in %s: %s", checkpoint.number, path, error.strerror)
