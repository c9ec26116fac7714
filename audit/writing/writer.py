"""Group commit: one thread takes all queued entries, writes them in one transaction and wakes all waiters.

No other thread uses its database connection. The watchdog (a separate thread) may take waiting entries away from it
when the database hangs (see `queue`). After any failure the thread opens a new connection and reads the head of its
chain: a batch is one transaction, so the head alone shows whether it was committed.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from threading import Thread

from audit import outcomes
from audit.format import keys, timestamps, uuid7
from audit.format.chain import Chain
from audit.types import Ending, Reason
from audit.writing import leases, sql
from audit.writing.entries import FINISH, GIVEN_UP, PING, SETTLED, WAITING, Entry, build_rows
from audit.writing.queue import EntryQueue, wake
from audit.writing.spool import Spool
from audit.writing.stores import AlreadyEnded, KeyTaken, Store, StoreUnavailable, open_store
from audit.writing.watchdog import Watchdog

logger = logging.getLogger("audit")

MAX_BATCH_ENTRIES = 1_000
HEARTBEAT_SECONDS = 5.0
FIRST_HEARTBEAT_SECONDS = 0.2
"""The first chores, such as closing the calls of a dead process, run right after the first calls."""
MAX_FORMER_CHAINS = 100


class Writer:
    def __init__(
        self,
        on_heartbeat: Callable[[Writer], None] | None = None,
        on_close: Callable[[Writer], None] | None = None,
        open_writers: set[int] | None = None,
    ) -> None:
        self.queue = EntryQueue()
        self.watchdog = Watchdog(self.queue)
        self.queue.on_urgent = self.watchdog.wake
        self.open_writers: set[int] = set() if open_writers is None else open_writers
        """Numbers of this process's writers that have not ended; shared by all of them."""
        self.chain: Chain | None = None
        self.former_chains: list[Chain] = []
        """Chains that were changed from outside and replaced, until a checkpoint has signed them as they were."""
        self.store: Store | None = None
        self.available_since = 0.0
        """time.monotonic() when the database became writable, in seconds."""
        self.last_write = 0.0
        self._on_heartbeat, self._on_close = on_heartbeat, on_close
        self._in_doubt: tuple[tuple[int, str], list[Entry]] | None = None
        """Head of the chain if the current transaction was committed, and the entries in it."""
        self._registered: set[int] = set()
        """Numbers of the chains of this writer: the calls of a replaced one still run here."""
        self._mac_key = keys.mac_key()
        self._failures = 0
        self._deadline = 0.0
        self._next_heartbeat = 0.0
        self._thread = Thread(target=self._run, name="audit-writer", daemon=True)

    @classmethod
    def run_once(cls, work: Callable[[Writer], None], open_writers: set[int]) -> None:
        """Open a chain, do the work in this thread and end the chain."""
        writer = cls(open_writers=open_writers)
        try:
            writer._connect()
            work(writer)
            writer._end_chain()
        finally:
            writer._close_store()
            writer._release_chain()

    # --- any thread ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.watchdog.start()
        self.queue.update_availability()
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Write the queued entries and end the chain. After `timeout` seconds, the remaining ends go to the spool."""
        self._deadline = time.monotonic() + timeout
        self.queue.stop()
        self._thread.join(timeout + 0.5)
        # A thread whose last attempt lasted until the deadline has ended with entries that it could not write.
        if self._thread.is_alive() or self.queue.waiting or self.queue.batch:
            self.queue.set_aside("the server stops")
        self.watchdog.stop()
        if not self._thread.is_alive():
            self._release_chain()

    # --- the writer's thread ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            try:
                self._connect()
                if not self._write_next_batch():
                    break
                continue
            except StoreUnavailable as error:
                if not self.queue.database_problem:
                    logger.warning("%s: %s", error, error.__cause__ or "see the settings of the database")
                self._on_connection_lost(str(error))
            except Exception:
                logger.exception("the writer of the audit log failed; it opens a new connection")
                self._on_connection_lost("the audit log failed")
            if self.queue.stopping and (self.queue.database_problem or time.monotonic() > self._deadline):
                break
            # Retry soon after the first failure: a restarted database server may be available again.
            self.queue.pause(min(0.05 * self._failures, 0.5))
        self._close_store()
        self._release_chain()

    def _on_connection_lost(self, why: str) -> None:
        self._close_store()
        self._failures += 1
        if self._failures > 1 and not self.queue.database_problem:
            self.queue.set_aside(why)

    def _close_store(self) -> None:
        store, self.store = self.store, None
        if store is not None:
            with contextlib.suppress(Exception):
                store.close()

    def _release_chain(self) -> None:
        """Give up the chains of this process: the next process handles their spool and their open calls."""
        if self.queue.spool is not None:
            self.queue.spool.close()
        self.open_writers -= self._registered

    def _connect(self) -> None:
        if self.store is None:
            store = open_store()
            try:
                if self.chain is None:
                    self._register(store)
                else:
                    self._resume(store)
            except BaseException:
                store.close()
                raise
            self.store = store
        if self.queue.database_problem or (self.queue.spool is not None and self.queue.spool.size):
            self._replay_spool()

    def _register(self, store: Store) -> None:
        links = leases.open_chain(store, self._registered)
        if self.queue.spool is not None:
            self.queue.spool.close()
        if self.chain is not None:
            self.former_chains.append(self.chain)
            del self.former_chains[:-MAX_FORMER_CHAINS]
        self.chain, self.queue.spool = links, Spool(links.writer)
        self._in_doubt = None
        self._registered.add(links.writer)
        self.open_writers.add(links.writer)
        self._next_heartbeat = time.monotonic() + FIRST_HEARTBEAT_SECONDS
        self.available_since = time.monotonic()

    def _resume(self, store: Store) -> None:
        """Read the head of the chain in the database, which shows whether the last transaction was committed."""
        links = self.chain
        assert links is not None  # noqa: S101
        head = leases.head_of(store, links.writer)
        if self._in_doubt is not None and head == self._in_doubt[0]:
            entries = self._in_doubt[1]
            links.roll_back_to(head)
            self.queue.settle(entries)
        elif head != links.head:
            # Changed from outside: a restored database, or emptied tables. Start a new chain.
            logger.error(
                "hash chain %d ends at %d and not at %d: a new one begins", links.writer, head[0], links.sequence
            )
            self._register(store)
        self._in_doubt = None

    def _replay_spool(self) -> None:
        """Replay the spool in order now that the database is available, then accept calls again."""
        spool = self.queue.spool
        assert spool is not None  # noqa: S101
        self._write_heartbeat()
        while True:
            entries, size = spool.read()
            for start in range(0, len(entries), MAX_BATCH_ENTRIES):
                self.commit(entries[start : start + MAX_BATCH_ENTRIES])
            spool.discard(size)
            with self.queue.mutex:
                if spool.size:
                    continue
                now = time.monotonic()
                if self.queue.database_problem:
                    logger.warning("calls are accepted again; %d statuses came from the spool", len(entries))
                    self.available_since = now
                for entry in self.queue.waiting:
                    entry.queued_at = now
                self.queue.database_problem = ""
                self.queue.update_availability()
                return

    def _write_next_batch(self) -> bool:
        """Write one batch. Return False when the chain has ended and no further batch will come."""
        now = time.monotonic()
        if now >= self._next_heartbeat:
            self._write_heartbeat()
            if self._on_heartbeat is not None and not self.queue.stopping:
                self._on_heartbeat(self)
        queue = self.queue.waiting
        if not self.queue.batch:
            if not queue:
                if self.queue.stopping:
                    if self.queue.database_problem or (self.queue.spool is not None and self.queue.spool.size):
                        return True  # the database became available during the heartbeat: replay the spool first
                    self._end_chain()
                    return False
                self.queue.sleep(self._next_heartbeat - now)
                if not queue:
                    return True
            self.queue.fill_batch(MAX_BATCH_ENTRIES)
        with self.queue.mutex:
            batch = self.queue.batch = [entry for entry in self.queue.batch if entry.state == WAITING]
        if batch:
            self.commit(batch)
        with self.queue.mutex:
            self.queue.batch = []
        self._failures = 0
        return True

    def commit(self, entries: list[Entry]) -> None:
        """Write the entries in one transaction. If it fails, write each alone and reject those that fail."""
        for _ in range(3):
            try:
                self.transact(entries)
                return
            except AlreadyEnded:
                entries = self._drop_ended(entries)
            except KeyTaken:
                if not self._replace_changed_chain():
                    logger.exception("%d entries cannot be written together; each is written alone", len(entries))
                    break
            except StoreUnavailable:
                raise
            except Exception:
                logger.exception("%d entries cannot be written together; each is written alone", len(entries))
                break
        self._write_heartbeat()  # raises StoreUnavailable if the database itself is the cause
        for entry in entries:
            try:
                self.transact([entry])
            except AlreadyEnded:
                self._drop_ended([entry])
            except StoreUnavailable:
                raise
            except Exception:
                logger.exception("call %s cannot be written", entry.id)
                with self.queue.mutex:
                    rejected, entry.state = entry.state == WAITING, GIVEN_UP
                if rejected:
                    wake([entry], "the entry cannot be stored")

    def _replace_changed_chain(self) -> bool:
        """Begin a new chain if links were added to this one from outside. Return False if it is as it was."""
        store, links = self.store, self.chain
        assert store is not None and links is not None  # noqa: S101
        head = leases.head_of(store, links.writer)
        if head == links.head:
            return False
        logger.error("hash chain %d ends at %d and not at %d: a new one begins", links.writer, head[0], links.sequence)
        self._register(store)
        return True

    def transact(self, entries: list[Entry]) -> None:
        """Write the entries in one transaction, all or none of them."""
        store, links = self.store, self.chain
        assert store is not None and links is not None  # noqa: S101
        head = links.head
        try:
            calls, ends = build_rows(entries, links, store.encode_time)
            if len(calls) + len(ends) < len(entries):
                # A ping tests whether the database is writable: answer it with a write.
                ping = next(entry for entry in entries if entry.kind == PING)
                store.execute(sql.HEARTBEAT, (store.encode_time(ping.ms), links.writer))
            self._in_doubt = links.head, entries
            if links.rows:
                links.authenticate(self._mac_key)
                store.write(calls, ends, links.rows)
        except BaseException:
            links.roll_back_to(head)
            # When this fails as well, the connection is lost, and the head of the chain decides.
            store.rollback()
            raise
        self._in_doubt = None
        links.rows = []
        self.last_write = time.monotonic()
        self.queue.settle(entries)

    def _drop_ended(self, entries: list[Entry]) -> list[Entry]:
        """Return the entries without ends of calls that have an outcome already: exactly one is ever logged."""
        store = self.store
        assert store is not None  # noqa: S101
        ids = [entry.id.hex for entry in entries if entry.kind == FINISH]
        running: set[str] = set()
        for start in range(0, len(ids), 500):
            part = ids[start : start + 500]
            running.update(uuid7.as_hex(row[0]) for row in store.fetch(sql.select_running(len(part)), part))
        remaining, late = [], []
        for entry in entries:
            if entry.kind != FINISH:
                remaining.append(entry)
            elif entry.id.hex in running:
                running.discard(entry.id.hex)
                remaining.append(entry)
            else:
                late.append(entry)
        with self.queue.mutex:
            waiting = [entry for entry in late if entry.state == WAITING]
            for entry in waiting:
                entry.state = SETTLED
        for entry in waiting:
            logger.warning(
                "call %s already has a status: %s is not logged", entry.id, entry.ending and entry.ending.outcome
            )
        wake(waiting)
        return remaining

    def _write_heartbeat(self) -> None:
        """Write the heartbeat, durably: it renews the lease and proves that the database is writable."""
        store, links = self.store, self.chain
        assert store is not None and links is not None  # noqa: S101
        if not store.execute(sql.HEARTBEAT, (store.encode_time(timestamps.now_ms()), links.writer)):
            logger.error("writer %d is not in the database any more: a new hash chain begins", links.writer)
            self._register(store)
        self.last_write = time.monotonic()
        self._next_heartbeat = self.last_write + HEARTBEAT_SECONDS

    def _end_chain(self) -> None:
        """Close the open calls, end the lease and call `on_close`, which signs a checkpoint."""
        store, links = self.store, self.chain
        assert store is not None and links is not None  # noqa: S101
        open_calls = list(self.queue.open.values())
        self.queue.open.clear()
        for begun in open_calls:
            end = Entry(FINISH, begun.id, begun.intent, None, timestamps.now_ms(), 0.0)
            reason = Reason("run.server_stopped").text
            end.ending = Ending(outcomes.UNKNOWN, detail="the server stopped while it ran", detail_reason=reason)
            end.duration = int((time.monotonic() - begun.started) * 1_000_000)
            self.commit([end])
        store.execute(sql.END_WRITER, (store.encode_time(timestamps.now_ms()), links.writer))
        if self._on_close is not None:
            self._on_close(self)
