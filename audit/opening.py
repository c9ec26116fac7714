"""A chain of its own for a process, and where a chain ends."""

from __future__ import annotations

import os

from audit import chain, processes, statements, times
from audit.chain import Chain
from audit.store import Store, StoreAway

_FIRST_PROCESS = 100
_TRIES = 20


def open_chain(store: Store) -> Chain:
    """Registers the process as a writer. Its first link covers what it says about itself."""
    problem: Exception | None = None
    for _ in range(_TRIES):
        try:
            return _draw(store)
        except StoreAway:
            raise
        except Exception as error:  # noqa: BLE001
            # Processes that start together may draw the same number: one of them has it, the others draw again.
            problem = error
    raise StoreAway("no chain can be opened") from problem


def _draw(store: Store) -> Chain:
    now, pid = times.now_ms(), os.getpid()
    store.begin()
    try:
        last_writer = store.fetch(statements.LAST_WRITER)[0][0] or 0
        last_link = store.fetch(statements.LAST_LINK)[0][0] or 0
        number = max(last_writer, chain.where(last_link)[0], _FIRST_PROCESS) + 1
        values = [number, processes.here()[:200], pid, processes.born(pid), now]
        moment = store.moment(now)
        store.execute(statements.REGISTER, (*values[:4], moment, moment, False))
        links = Chain(number)
        links.add(chain.OPENED, str(number), chain.content(values))
        store.execute(statements.INSERT_LINK, links.rows[0])
        store.commit()
    except BaseException:
        store.rollback()
        raise
    links.rows = []
    return links


def head_of(store: Store, writer: int) -> tuple[int, str]:
    """The sequence and the hash of the chain's last link in the database."""
    found = store.fetch(statements.HEAD, (chain.place(writer, 0), chain.place(writer + 1, 0)))
    return (int(found[0][0]), str(found[0][1])) if found else (0, chain.START)
