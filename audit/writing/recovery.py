"""Recovery of calls whose process died: they become `unknown`, unless a spool has their outcome.

The calls of a living process are never changed. On the same machine the kernel reports whether a process lives. Of
another machine only the heartbeat is known: its lease expires when it did not change for twenty seconds in which this
process watched it and the database was writable all the time. Clocks are not compared.
"""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING
from uuid import UUID

from audit import outcomes
from audit.format import chain, timestamps
from audit.types import Ending, Reason
from audit.writing import leases, spool, sql
from audit.writing.entries import FINISH, Entry

if TYPE_CHECKING:
    from audit.writing.writer import Writer

logger = logging.getLogger("audit")

LEASE_SECONDS = 20.0


class Recovery:
    """Recovery of dead writers by one process, with the heartbeats that it has seen of the others."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[object, float]] = {}

    def run(self, writer: Writer) -> int:
        """Replay the spools of dead processes, then close their open calls. Return the number of closed calls."""
        store, links = writer.store, writer.chain
        assert store is not None and links is not None  # noqa: S101
        # Queried first: a writer that begins a call after this is among the writers of the next query.
        found = {row[0] for row in store.fetch(sql.RUNNING_WRITERS)}
        running_writers = {number for number in found if isinstance(number, int)} - {links.writer}
        now = time.monotonic()
        alive: set[int] = set()
        dead: set[int] = set()
        rows = store.fetch(sql.OPEN_WRITERS, (chain.LAST_ACTION_CHAIN, links.writer))
        # A writer that ended leaves no running call: that its row says so, or is gone, may be an edit from outside.
        for number in sorted(running_writers - {row[0] for row in rows}):
            rows += store.fetch(sql.WRITER, (number,)) or [(number, "", 0, 0, None)]
        for number, host, pid, born, beat in rows:
            gone = self._is_dead(writer, number, host, pid, born, beat, now)
            (dead if gone else alive).add(number)
        self._seen = {number: seen for number, seen in self._seen.items() if number in alive}
        # After the dead writers are known: their spools are complete now.
        held = replay_abandoned(writer)
        closed = 0
        for number in sorted(dead - held):
            closed += _close(writer, number)
            store.execute(sql.END_WRITER, (store.encode_time(timestamps.now_ms()), number))
        return closed

    def _is_dead(self, writer: Writer, number: int, host: str, pid: int, born: int, beat: object, now: float) -> bool:
        if number in writer.open_writers:
            return False
        if host == leases.process_scope()[:200]:
            if pid == os.getpid() and born == leases.process_start(pid):
                return True
            return not leases.is_running(pid, born)
        before = self._seen.get(number)
        if before is None or before[0] != beat or before[1] < writer.available_since:
            self._seen[number] = beat, now
            return False
        return now - before[1] >= LEASE_SECONDS

    @property
    def is_watching(self) -> bool:
        """Whether the lease of a process on another machine is not yet decided."""
        return bool(self._seen)


def _close(writer: Writer, number: int) -> int:
    """End the open calls of a dead writer, 200 in a transaction, so that others can write in between."""
    store = writer.store
    assert store is not None  # noqa: S101
    count = skipped = 0
    while rows := store.fetch(sql.RUNNING_CALLS_OF_WRITER, (number, skipped)):
        now = timestamps.now_ms()
        detail, reason = "its process ended without recording how the call ended", Reason("run.process_ended").text
        ending = Ending(outcomes.UNKNOWN, detail=detail, detail_reason=reason)
        ids = [id for row in rows if (id := _parse_id(row[0])) is not None]
        # Rows with other ids were added outside the log. No entry can end them: verification names them.
        skipped += len(rows) - len(ids)
        entries = [Entry(FINISH, id, None, ending, now, 0.0) for id in ids]
        for entry in entries:
            entry.link = chain.CLOSED
        if entries:
            writer.commit(entries)
        count += len(entries)
    if count:
        logger.warning("%d calls of writer %d became unknown: its process ended without ending them", count, number)
    return count


def replay_abandoned(writer: Writer) -> set[int]:
    """Write the outcomes in the spools of dead processes to the database.

    Return the numbers of writers whose outcomes may still be in a file: their calls must not become unknown yet.
    """
    held: set[int] = set()
    own = writer.chain.writer if writer.chain is not None else 0
    for path in sorted(spool.folder().glob("*.jsonl")):
        number = int(path.stem) if path.stem.isdigit() else 0
        if number == own:
            continue
        with spool.lock_abandoned(path) as mine:
            if not mine:
                if path.exists():
                    held.add(number)
                continue
            entries = list(spool.read(path))
            for start in range(0, len(entries), 500):
                writer.commit(entries[start : start + 500])
            path.unlink()
            if entries:
                logger.warning("%d statuses came from the spool of writer %d, which is gone", len(entries), number)
    return held


def _parse_id(value: object) -> UUID | None:
    """Return the UUID of an id as the log writes it: a UUID in PostgreSQL, 32 hexadecimal digits in SQLite."""
    if isinstance(value, UUID):
        return value
    try:
        id = UUID(str(value))
    except ValueError:
        return None
    return id if id.hex == value else None
