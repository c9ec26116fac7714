"""The hash chain format: the canonical bytes of every kind of entry, and the hashes that link them.

An entry's content is the SHA-256 of a JSON list of the logged columns, in the order given here, times as milliseconds,
identifiers as 32 hexadecimal digits. The bodies (arguments, result) are included as their own SHA-256, so that they
can be removed later and the rest still verifies. A link's hash covers the previous link.

Hashes need no key, so that a chain can be verified with the checkpoints' public keys alone. The last link of each
transaction also has a keyed digest of its hash: who can write SQL but has no key can add no link that is believed.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

SEQUENCE_BITS: Final = 40
MAX_SEQUENCE: Final = (1 << SEQUENCE_BITS) - 1
START_HASH: Final = "0" * 64
"""Previous hash of the first link of a chain."""
ACTION_CHAINS: Final = 16
"""Writers 1 to 16 are the chains of admin activity. Numbers up to LAST_ACTION_CHAIN replace those changed outside."""
LAST_ACTION_CHAIN: Final = 100
"""Processes have larger numbers."""
MAX_WRITER: Final = (1 << 63 - SEQUENCE_BITS) - 3
"""Largest number of a chain. With the next one, every limit in SQL is still a number of 64 bits."""
MAC_CHARACTERS: Final = 32
PRUNED_PREFIX: Final = "pruned:sha256:"

OPENED, BEGIN, FINISH, REFUSED, CLOSED, ACTION = "opened", "begin", "finish", "refused", "closed", "action"

BEGIN_COLUMNS: Final = (
    "id",
    "user_id",
    "username",
    "credential_id",
    "credential",
    "client_name",
    "client_version",
    "transport",
    "revision",
    "address",
    "method",
    "name",
    "target_id",
    "definition",
    "rule",
    "rule_reason",
    "request_id",
    "started_at",
    "arguments",
)
END_COLUMNS: Final = (
    "outcome",
    "error_class",
    "detail",
    "detail_reason",
    "result_bytes",
    "result_sha256",
    "ended_at",
    "duration_us",
    "result",
)

STARTED_INDEX: Final = BEGIN_COLUMNS.index("started_at")
ARGUMENTS_INDEX: Final = BEGIN_COLUMNS.index("arguments")
ENDED_INDEX: Final = END_COLUMNS.index("ended_at")
RESULT_INDEX: Final = END_COLUMNS.index("result")
END_OFFSET: Final = len(BEGIN_COLUMNS)
"""Index of the first column of the end in a row that holds start and end."""

encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def body_digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def content(values: Sequence[Any]) -> str:
    """Return the digest of the logged values, in which the caller has replaced the bodies with their digests."""
    return sha256(encode(values).encode()).hexdigest()


def call_content(kind: str, values: Sequence[Any]) -> str:
    """Return the digest that an entry of this kind covers of a call.

    `values` has the columns of its start and its end, with digests for the bodies, milliseconds for times, and 32
    hexadecimal digits for the id.
    """
    if kind == REFUSED:
        return content(values)
    return content(values[:END_OFFSET] if kind == BEGIN else [values[0], *values[END_OFFSET:]])


def link_hash(writer: int, sequence: int, previous: str, kind: str, subject: str, content: str) -> str:
    return sha256(f"{writer} {sequence} {previous} {kind} {subject} {content}".encode()).hexdigest()


def compute_mac(key: bytes, text: str) -> str:
    """Return the keyed digest of the text: 128 bits of its HMAC-SHA256, as 32 hexadecimal digits."""
    return hmac.digest(key, text.encode(), "sha256").hex()[:MAC_CHARACTERS]


def mac_text(writer: int, sequence: int, hash: str) -> str:
    """Return the text whose keyed digest authenticates a link, and with it every link before it in its chain."""
    return f"link {writer} {sequence} {hash}"


def link_id(writer: int, sequence: int) -> int:
    return (writer << SEQUENCE_BITS) | sequence


def split_link_id(link: int) -> tuple[int, int]:
    """Return the writer and the sequence of a link's id."""
    return link >> SEQUENCE_BITS, link & MAX_SEQUENCE


Row = tuple[int, int, int, str, str, str, str, str]
"""A row of the table of links: id, writer, sequence, kind, subject, content, hash, mac."""


class Chain:
    """One writer's hash chain: its current head, and the rows of links that are not yet committed."""

    __slots__ = ("hash", "rows", "sequence", "writer")

    def __init__(self, writer: int, sequence: int = 0, hash: str = START_HASH) -> None:
        self.writer, self.sequence, self.hash = writer, sequence, hash
        self.rows: list[Row] = []

    def add(self, kind: str, subject: str, content: str) -> int:
        """Append a link and return its id."""
        writer = self.writer
        self.sequence = sequence = self.sequence + 1
        text = f"{writer} {sequence} {self.hash} {kind} {subject} {content}"
        self.hash = digest = sha256(text.encode()).hexdigest()
        link = (writer << SEQUENCE_BITS) | sequence
        self.rows.append((link, writer, sequence, kind, subject, content, digest, ""))
        return link

    def authenticate(self, key: bytes) -> None:
        """Add the keyed digest to the last row, before the rows are written in one transaction."""
        if self.rows:
            mac = compute_mac(key, mac_text(self.writer, self.sequence, self.hash))
            self.rows[-1] = (*self.rows[-1][:7], mac)

    @property
    def head(self) -> tuple[int, str]:
        return self.sequence, self.hash

    def roll_back_to(self, head: tuple[int, str]) -> None:
        """Discard the links added since `head`: their transaction was not committed."""
        self.sequence, self.hash = head
        self.rows = []
