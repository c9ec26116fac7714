"""Signs the heads of all chains, now and then: what was there before can no longer be cut off unseen."""

from __future__ import annotations

import os
from pathlib import Path

from django.conf import settings

from audit import chain, statements, times
from audit.heads import Head, Heads, heads_text
from audit.logs import logger
from audit.store import Store, StoreAway, Taken


def due(store: Store) -> bool:
    last = store.fetch(statements.LAST_CHECKPOINT)
    return not last or times.now_ms() - store.read_moment(last[0][1]) >= settings.CHECKPOINT_SECONDS * 1000


def sign(store: Store) -> Head | None:
    """Signs the heads that moved since the last checkpoint; None when none did, or another process signs just now."""
    store.begin()
    try:
        last = store.fetch(statements.LAST_CHECKPOINT)
        heads: Heads = {}
        for writer, ended, covered in store.fetch(statements.UNSEALED):
            found = store.fetch(statements.HEAD, (chain.place(writer, 0), chain.place(writer + 1, 0)))
            if not found:
                continue
            sequence, digest = int(found[0][0]), str(found[0][1])
            if sequence > covered:
                heads[writer] = sequence, digest
            if sequence > covered or ended is not None:
                store.execute(statements.COVER, (sequence, ended is not None, writer))
        if not heads:
            store.commit()
            return None
        number, previous = (int(last[0][0]) + 1, str(last[0][2])) if last else (1, chain.START)
        head = Head.sign(number, times.now_ms(), heads_text(heads), previous)
        moment = store.moment(head.at)
        store.execute(
            statements.CHECKPOINT, (number, moment, head.heads, previous, head.hash, head.key, head.signature)
        )
        store.commit()
    except StoreAway:
        raise
    except Taken:
        store.rollback()
        logger.info("checkpoint %d was signed by another process", number)
        return None
    except BaseException:
        store.rollback()
        raise
    tell(head)
    return head


def tell(head: Head) -> None:
    """Puts the checkpoint where the database's administrator does not reach: the log, and a file if one is set."""
    line = head.line()
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
        logger.error("checkpoint %d is not in %s: %s", head.number, path, error.strerror)
