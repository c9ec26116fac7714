"""Checkpoints: signed statements of the heads of all hash chains, which can be stored outside the database.

The heads of all chains are signed at intervals, after which the deletion of earlier entries is detected. Only a head
with a valid keyed digest is signed, and nothing that decides what is signed is believed without one: who can write SQL
but has no key can neither have entries signed nor keep any from being signed.
"""

from __future__ import annotations

import errno
import logging
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

from django.conf import settings
from django.db import transaction

from audit.actions import log
from audit.format import chain, keys, timestamps
from audit.format.chain import Chain
from audit.format.checkpoint import Heads, SignedCheckpoint, heads_text, read_heads
from audit.format.keys import TrustedKeys
from audit.models import Checkpoint
from audit.writing import sql
from audit.writing.stores.base import KeyTaken, Store, StoreUnavailable

logger = logging.getLogger("audit")

_RECORD = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ "
_IS_PREFIX = re.compile(rf"(?:(?!{_RECORD}|  \| )[^{{])*(?:{_RECORD}audit: )?")
"""Text before a checkpoint: nothing of another record of the server log, and none of its further lines."""

_CLOCK_SKEW_MS = 60_000
_MAX_TRIES = 20
_MAX_PAGES = 200
"""Maximum pages of checkpoints that are searched for the newest genuine one."""

__all__ = [
    "Heads",
    "SignedCheckpoint",
    "begin_with_new_keys",
    "heads_text",
    "is_due",
    "is_signed_by_others",
    "publish",
    "read_file",
    "read_heads",
    "sign",
    "sign_before",
]


def read_file(path: Path) -> list[SignedCheckpoint]:
    """Return the checkpoints in a file, oldest first: JSON lines, or the lines of a server log that it wrote as such.

    A line of a server log may have the prefix of another program before it. The same text within the message of another
    line, where a tool or a client may have put it, is no checkpoint.

    A line that cannot be read is named in the server log: a full disk leaves half a line. Raise ValueError when the
    file contains no checkpoint.
    """
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").split("\n"), 1):
        start = line.find('{"checkpoint":')
        if start >= 0 and _IS_PREFIX.fullmatch(line[:start]):
            try:
                found.append(SignedCheckpoint.parse(line[start:].rstrip("\r")))
            except ValueError:
                logger.warning("line %d of %s is not a whole checkpoint, and is not compared", number, path)
    if not found:
        raise ValueError(f"{path} contains no checkpoint")
    return sorted(found, key=lambda checkpoint: checkpoint.number)


def coverage_text(writer: int, covered: int, sealed: bool) -> str:
    """Return the text of `Writer.covered_mac`."""
    return f"covered {writer} {covered} {int(bool(sealed))}"


def is_signed_by_others() -> bool:
    """Return whether there are checkpoints, none of them with the name of a key of this installation.

    Names prove nothing. This keeps the keys of another installation, or new ones, from being used by mistake.
    """
    own = Checkpoint.objects.filter(key__in=TrustedKeys.from_settings().names)
    return Checkpoint.objects.exists() and not own.exists()


def begin_with_new_keys(store: Store) -> None:
    """Log that the keys of this installation go on with the log of others, and sign it. Raise StoreUnavailable."""
    with transaction.atomic():
        log.record("changed", "record", "key", None, {"key": keys.key_name()})
    sign_before(store)


def is_due(store: Store) -> bool:
    """Return whether the newest checkpoint that this installation signed is old. A forged one delays nothing."""
    last = _find_last(store)
    if last is None:
        return True
    age = timestamps.now_ms() - last.at
    return age >= settings.CHECKPOINT_SECONDS * 1000 or age < -_CLOCK_SKEW_MS


def sign(store: Store, own: Sequence[Chain] = (), *, ended: bool = False) -> SignedCheckpoint | None:
    """Sign the heads that changed since the last checkpoint.

    `own` are the chains of this process: their heads are signed as the process knows them, so that newer links are
    missed when they were deleted from the database. `ended` says that the process ends them now. Return None when no
    head changed. Raise KeyTaken when another process signs at the same time.
    """
    store.begin()
    try:
        checkpoint = _sign(store, own, ended)
        store.commit()
    except BaseException:
        with suppress(Exception):  # a lost connection has no transaction left
            store.rollback()
        raise
    return checkpoint


def sign_before(store: Store) -> None:
    """Sign everything that is committed, before a step that depends on it. Raise StoreUnavailable when that fails."""
    for _ in range(_MAX_TRIES):
        try:
            sign(store)
            return
        except KeyTaken:
            continue
    raise StoreUnavailable("other processes sign checkpoints all the time")


def _sign(store: Store, own: Sequence[Chain], ended: bool) -> SignedCheckpoint | None:
    heads = _collect_heads(store, own, ended)
    if not heads:
        return None
    last = _find_last(store)
    at_least, previous = (last.number, last.hash) if last is not None else (0, chain.START_HASH)
    taken = {row[0] for row in store.fetch(sql.CHECKPOINT_NUMBERS, (at_least,))}
    number = next(free for free in count(at_least + 1) if free not in taken)
    checkpoint = SignedCheckpoint.sign(number, timestamps.now_ms(), heads_text(heads), previous)
    signed_at = store.encode_time(checkpoint.at)
    store.execute(
        sql.CHECKPOINT,
        (number, signed_at, checkpoint.heads, previous, checkpoint.hash, checkpoint.key, checkpoint.signature),
    )
    store.run_after_commit(lambda: publish(checkpoint))
    return checkpoint


def _collect_heads(store: Store, own: Sequence[Chain], ended: bool) -> Heads:
    """Return the heads to sign, and note in the table of writers how far each chain is covered then."""
    heads: Heads = {}
    own_heads = {one.writer: one.head for one in own}
    rows = {row[0]: row[1:] for row in store.fetch(sql.CHAINS)}
    for writer in [*rows, *(own_heads.keys() - rows.keys())]:
        # Without its row, or with one that was edited, a chain counts as never covered.
        last, covered, sealed, mac = rows.get(writer, (0, 0, False, ""))
        if not keys.is_authentic(coverage_text(writer, covered, sealed), mac):
            covered, sealed = 0, False
        is_own = writer in own_heads
        if sealed or (last == covered and not is_own):
            continue
        head = own_heads[writer] if is_own else _find_authentic_head(store, writer)
        if head is None:
            continue
        if head[0] < covered:
            logger.error("hash chain %d ends at %d, but a checkpoint covered %d entries", writer, head[0], covered)
        if head[0] > covered:
            heads[writer] = head
        sealed = is_own and ended
        if head[0] > covered or sealed:
            covered = max(head[0], covered)
            store.execute(sql.COVER, (covered, sealed, keys.make_mac(coverage_text(writer, covered, sealed)), writer))
    return heads


def _find_authentic_head(store: Store, writer: int) -> tuple[int, str] | None:
    """Return the newest link with a valid keyed digest: links that were added after it with SQL are not signed."""
    rows = store.fetch(sql.AUTHENTICATED, (chain.link_id(writer, 0), chain.link_id(writer + 1, 0)))
    for sequence, digest, mac in rows:
        if keys.is_authentic(chain.mac_text(writer, sequence, digest), mac):
            return int(sequence), str(digest)
    return None


def _find_last(store: Store) -> SignedCheckpoint | None:
    """Return the newest checkpoint that this installation signed, behind any number of others up to 10,000."""
    before: int | float = (1 << 63) - 1
    for _ in range(_MAX_PAGES):
        rows = store.fetch(sql.LAST_CHECKPOINTS, (before,))
        for number, at, *rest in rows:
            before = number
            try:
                found = SignedCheckpoint(int(number), store.decode_time(at), *map(str, rest))
            except (ValueError, TypeError, OverflowError):
                continue  # SQLite stores any value in any column
            if found.is_signed:
                return found
        if not rows:
            break
    return None


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
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        try:
            size = os.fstat(descriptor).st_size
            is_torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            text = f"{line}\n".encode()
            # A line that a full disk cut stays as it is; this one begins after it.
            written = os.write(descriptor, b"\n" + text if is_torn else text)
            if written < len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        logger.error("checkpoint %d is not in %s: %s", checkpoint.number, path, error.strerror)
